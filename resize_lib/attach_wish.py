"""What a program says that attaches itself: DQ_ATTACH in the environment, or `resize_lib.attach`.

The words are the options of `dq submit` that make sense for a program that runs already:

    DQ_ATTACH=1                          malleable, any size
    DQ_ATTACH="sizes=1,2,4,name=fluid"   a word of its own after each comma, or another value
    resize_lib.attach(sizes=[1, 2, 4], name="fluid")

The environment has the last word: DQ_ATTACH=0 switches a program's own call off.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from dq_client.base import messages as m
from dq_client.base.errors import UsageError
from dq_client.base.values import name_of, parse_sizes, parse_time

VARIABLE = "DQ_ATTACH"
YES, NO = ("1", "yes", "true"), ("", "0", "no", "false")
TEXTS = ("name", "group", "account", "qos", "class", "app-name", "kind", "chain")
NUMBERS = ("min", "max", "multiple", "priority")
TIMES = ("walltime", "estimate")
WORDS = ("sizes", *NUMBERS, *TIMES, *TEXTS)
KINDS = ("malleable", "evolving", "rigid")
CHAINS = ("square", "powers", "multiple")

# Of the environment a new rank gets what the first ranks have: a program may read any of it. Not
# what is DQ's own or belongs to one rank, or to the launcher that started it.
NOT_PASSED_ON = ("DQ_", "PMI_", "PMIX_", "HYDRA_", "HYDI_", "MPIEXEC_", "MPI_LOCAL")
VARIABLES_MAX, VALUE_MAX = 500, 32_000  # what a message takes


def from_environment(text: str) -> dict[str, str] | None:
    """The words of DQ_ATTACH; None: it says no. UsageError for text that is neither."""
    if text.strip().lower() in NO:
        return None
    if text.strip().lower() in YES:
        return {}
    words: dict[str, str] = {}
    for part in re.split(r",(?=\s*[A-Za-z_-]+\s*=)", text):
        name, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f"{VARIABLE}={text}: give 1, or words as sizes=1,2,4,name=fluid")
        words[name.strip().replace("_", "-")] = value.strip()
    check(words, f"{VARIABLE}={text}")
    return words


def from_call(options: Mapping[str, Any]) -> dict[str, str]:
    """The words of `resize_lib.attach`, as text. UsageError for those that make no sense."""
    words = {}
    for name, value in options.items():
        if isinstance(value, Sequence) and not isinstance(value, str):
            value = ",".join(map(str, value))
        words[name.replace("_", "-")] = str(value)
    check(words, "resize_lib.attach")
    return words


def check(words: Mapping[str, str], where: str) -> None:
    """UsageError, one line that begins with `where`, for words that make no sense."""
    for name, value in words.items():
        if name not in WORDS:
            known = ", ".join(WORDS)
            raise UsageError(f"{where}: {name} is no option here; known: {known}")
        if name in NUMBERS and not re.fullmatch(r"-?[0-9]{1,9}", value):
            raise UsageError(f"{where}: {name}={value} is no number")
        if not value:
            raise UsageError(f"{where}: {name} has no value")
    for name, known_values in (("kind", KINDS), ("chain", CHAINS)):
        if words.get(name, known_values[0]) not in known_values:
            raise UsageError(f"{where}: {name}={words[name]}: give {', '.join(known_values)}")
    for name in ("min", "max", "multiple"):
        if int(words.get(name, "1")) < 1:
            raise UsageError(f"{where}: {name}={words[name]}: it starts at 1")
    if "sizes" in words and {"chain", "min", "max"} & words.keys():
        raise UsageError(f"{where}: sizes lists the legal sizes: leave min, max and chain out")
    try:
        if "sizes" in words:
            parse_sizes(words["sizes"])
        for name in TIMES:
            if name in words:
                parse_time(name, words[name])
    except UsageError as e:
        raise UsageError(f"{where}: {str(e).removeprefix('--')}") from None


def submission(
    words: Mapping[str, str],
    ranks: int,
    command: Sequence[str],
    folder: str,
    environment: Mapping[str, str],
) -> m.Submit:
    """What a program of so many ranks says of itself; `words` were checked."""
    number = {name: int(words[name]) for name in NUMBERS if name in words}
    seconds = {f"{name}_s": parse_time(name, words[name]) for name in TIMES if name in words}
    kind = words.get("kind", KINDS[0])
    sizes = m.Sizes(
        listed=parse_sizes(words["sizes"]) if "sizes" in words else [],
        min=number.get("min"),
        max=number.get("max"),
        chain=words.get("chain", CHAINS[0]),
        multiple=number.get("multiple", 1),
    )
    return m.Submit(
        request=uuid.uuid4().hex,
        name=words.get("name") or name_of(command),
        argv=list(command),
        cwd=folder,
        kind=kind,
        initial=ranks,
        sizes=sizes,
        env=passed_on(environment),
        group=words.get("group", ""),
        account=words.get("account", ""),
        qos=words.get("qos", ""),
        job_class=words.get("class", ""),
        app_name=words.get("app-name", ""),
        priority=number.get("priority", 0),
        **seconds,  # type: ignore[arg-type]
    )


def passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    """What new ranks get of it. UsageError if that is more than a message takes: some would miss
    what the others have."""
    kept = {k: v for k, v in environment.items() if not k.startswith(NOT_PASSED_ON)}
    long = [k for k, v in kept.items() if len(v) > VALUE_MAX or len(k) > m.NAME_MAX]
    if long or len(kept) > VARIABLES_MAX:
        which = f"{long[0][:40]} is too long" if long else f"{len(kept)} variables are too many"
        raise UsageError(f"its environment cannot be passed on to new ranks: {which}")
    return kept
