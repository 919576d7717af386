"""Writes the pages of the documentation that are made of types: `python -m harness.reference`.

    docs/configuration.md   every key of every TOML file, from the types that read them
    docs/json.md            what `--json` prints, and docs/schemas/*.json, from show/views.py

What a key is for stands in its type's docstring, a line for each (`name   text`), or in the
annotation. A key without a text is an error, and tests/client/test_reference.py finds pages that
are not what this writes now.
"""

from __future__ import annotations

import dataclasses
import json
import re
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from dq_client.base.network import Network
from dq_client.deploy.batch_settings import GridEngineTable, SlurmTable
from dq_client.deploy.cluster import ClusterFile, Link, NodeGroup
from dq_client.show import views
from dq_client.show.hooks.config import Hook
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.options import TABLES
from dq_server.core.settings import TABLE_OF_ITS_OWN
from dq_server.live.configuration import LAUNCH, USUAL
from harness.commands import ROOT

HERE = "python -m harness.reference"
NOT_IN_FILES = ("confirm_vacated", "farewells", "launching", "options")  # set by who uses the core
CLUSTER = {"": ClusterFile, "[[nodes]]": NodeGroup, "[link]": Link, "[network]": Network,
           "[slurm]": SlurmTable, "[grid_engine]": GridEngineTable}  # fmt: skip
ANSWERS = {"dq submit --json": views.SubmitAnswer, "dq jobs --json": views.JobsAnswer,
           "dq job ID --json": views.JobInfo, "dq nodes --json": views.NodesAnswer,
           "dq why ID --json": views.WhyAnswer, "dq quotas --json": views.QuotasAnswer,
           "GET /api/state": views.State}  # fmt: skip
LAUNCH_TEXTS = {"launcher": "launcher of the ranks", "growth": "how a job gets more ranks"}
WORDS = {int: "whole number", float: "number", str: "text", bool: "true or false", Any: "anything"}


def texts(kind: type) -> dict[str, str]:
    """What a docstring says of each field: lines of `name   text`, and what goes on below them."""
    found: dict[str, str] = {}
    name = ""
    for line in (kind.__doc__ or "").splitlines():
        entry = re.match(r"^ *(\w+)  +(\S.*)$", line) or re.match(r"^(\w+)  (\S.*)$", line)
        if entry:
            name, found[entry[1]] = entry[1], entry[2]
        elif name and line.strip():
            found[name] += f" {line.strip()}"
        else:
            name = ""
    return found


def words(hint: Any) -> str:
    """A type as people say it."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return words(args[0])
    if origin in (Union, types.UnionType):
        return " or ".join(words(a) for a in args if a is not type(None))
    if origin is Literal:
        return ", ".join(f"`{a!r}`".replace("'", '"') for a in args)
    if origin is not None and issubclass(origin, Mapping):
        return f"table of {_many(args[1])}"
    if origin in (list, tuple):
        return f"list of {_many(args[0])}"
    if hint in WORDS:
        return WORDS[hint]
    return f"[{hint.__name__}](#{hint.__name__.lower()})" if hint in _views() else "table"


def _many(hint: Any) -> str:
    one = words(hint)
    return f"{one}s" if one in WORDS.values() and one != "anything" else one


def _views() -> list[Any]:
    return [kind for kind in vars(views).values() if typing.is_typeddict(kind)]


def row(key: str, type_: str, default: str, text: str) -> str:
    """A row of a table."""
    cells = (f"`{key}`", type_, default, text)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def toml(value: Any) -> str:
    """A default as it would stand in a file; empty: none, or more than one would write."""
    if value is None or isinstance(value, Mapping) or value == () or value == []:
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int | float):
        return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"
    if isinstance(value, str):
        return f'`"{value}"`' if value else ""
    if isinstance(value, tuple | list):
        return f"`{json.dumps(list(value))}`" if len(value) < 4 else "a list of patterns"
    return "`{ processors = 1 }`"  # the shape of a node of the pool


def fields_of(kind: Any) -> Iterator[tuple[str, Any]]:
    """Names and defaults."""
    if dataclasses.is_dataclass(kind):
        for field in dataclasses.fields(kind):
            made = field.default_factory
            usual = field.default if made is dataclasses.MISSING else made()
            yield field.name, None if usual is dataclasses.MISSING else usual
    else:
        for info in msgspec.structs.fields(kind):
            yield info.name, None if info.default is msgspec.NODEFAULT else info.default


def keys(kind: Any, usual: Mapping[str, Any] | None = None) -> list[str]:
    """The table of a type's keys; KeyError if one has no text."""
    hints, told = typing.get_type_hints(kind), texts(kind)
    short = {field: name for name, field in getattr(kind, "short", {}).items()}
    lines = ["| Key | Type | Default | |", "|---|---|---|---|"]
    for name, default in fields_of(kind):
        if kind is SchedulerConfig and name in NOT_IN_FILES:
            continue
        default = (usual or {}).get(name, default)
        text = told[name]
        if name in short:
            text += f" (in [scheduler]: `{short[name]}`)"
        lines.append(row(name, words(hints[name]), toml(default), text))
    return lines


def configuration() -> str:
    """docs/configuration.md."""
    parts = [
        "# Configuration files",
        f"Every key of every file, made of the types that read them (`{HERE}`). An unknown key, or"
        " a value of another type, is refused with the name of the file and the known keys.",
        "## The server",
        "`dq up --config FILE`, `dq server start --config FILE`, `dq sim run --config FILE`;"
        " without the option `config.toml` in DQ_HOME, if it is there.",
        "### [scheduler]",
        "`policy` names a complete set ([simulation.md](simulation.md)); the others replace parts.",
        *keys(SchedulerConfig, USUAL),
    ]
    for name in sorted(TABLES, key=lambda table: (table in TABLE_OF_ITS_OWN, table)):
        kind = TABLES[name]
        own = name in TABLE_OF_ITS_OWN
        parts.append(f"### [{name}]" if own else f"### [scheduler.{name}]")
        if name == "pool":
            parts.append("This table belongs in the cluster file ([pool.md](pool.md)).")
        parts += keys(kind)
    parts += [
        "### [launch]",
        "See [ranks.md](ranks.md).",
        "| Key | Type | Default | |",
        "|---|---|---|---|",
        *(
            row(name, ", ".join(f'`"{w}"`' for w in known), f'`"{known[0]}"`', LAUNCH_TEXTS[name])
            for name, known in LAUNCH.items()
        ),
        "## The cluster file",
        "`dq up --cluster FILE` ([cluster.md](cluster.md), [emulation.md](emulation.md),"
        " [slurm.md](slurm.md), [gridengine.md](gridengine.md)).",
    ]
    for table, struct in CLUSTER.items():
        parts += [f"### {table or 'Top level'}", *keys(struct)]
    parts += ["## Hooks", "`dq hooks run FILE` ([hooks.md](hooks.md)).", "### [[hook]]"]
    return _page([*parts, *keys(Hook)])


def json_page() -> str:
    """docs/json.md."""
    parts = [
        "# What `--json` prints",
        f"Generated from `dq_client/show/views.py` by `{HERE}`. Times are seconds since the epoch,"
        " memory is in bytes. A later version may add keys; it removes a key or changes its meaning"
        " only with a new `schema` number. `dq job ID --json` prints the job twice: under `job`,"
        " and, for older scripts, at the top level.",
        "| Answer | Type | JSON Schema |",
        "|---|---|---|",
        *(
            f"| `{said}` | [{kind.__name__}](#{kind.__name__.lower()}) | "
            f"[{schema_name(kind)}](schemas/{schema_name(kind)}) |"
            for said, kind in ANSWERS.items()
        ),
    ]
    for kind in _views():
        if not kind.__name__.startswith("_"):
            text = (kind.__doc__ or "").strip()
            parts += [f"## {kind.__name__}", text, "| Key | Type | |", "|---|---|---|"]
            hints = typing.get_type_hints(kind, include_extras=True)
            parts += [
                f"| `{key}` | {_shown(hint)} | {_meaning(f'{kind.__name__}.{key}', hint)} |"
                for key, hint in hints.items()
            ]
    return _page(parts)


def _shown(hint: Any) -> str:
    bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return words(bare) + (" or null" if type(None) in get_args(bare) else "")


def _meaning(name: str, hint: Any) -> str:
    if get_origin(hint) is Annotated:
        return next(m.description or "" for m in get_args(hint)[1:] if isinstance(m, msgspec.Meta))
    if hint.__module__ == "builtins":
        raise ValueError(f"{name} in dq_client/show/views.py does not say what it is")
    return (hint.__doc__ or "").strip()  # a type of ours


def schema_name(kind: Any) -> str:
    """The file of a schema."""
    return f"{kind.__name__}.json"


def _page(parts: list[str]) -> str:
    """Paragraphs, with a blank line between; rows of tables stay together."""
    text = ""
    for before, part in zip(["", *parts], parts, strict=False):
        text += "\n" if before.startswith("|") and part.startswith("|") else "\n\n"
        text += part
    return text.strip() + "\n"


def pages() -> dict[Path, str]:
    """All that is written."""
    written = {"configuration": configuration(), "json": json_page()}
    found = {
        ROOT / "docs" / f"{name}.md": re.sub(r"\bdocs/(\w+\.md)", r"[\1](\1)", text)
        for name, text in written.items()
    }
    for kind in ANSWERS.values():
        schema = json.dumps(msgspec.json.schema(kind), indent=1)
        found[ROOT / "docs/schemas" / schema_name(kind)] = schema + "\n"
    return found


if __name__ == "__main__":
    for path, text in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
