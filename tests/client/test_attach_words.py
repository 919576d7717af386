"""What a program may say that attaches itself: in DQ_ATTACH, or to resize_lib.attach."""

from __future__ import annotations

from typing import Any

import pytest

from dq_client.base import messages as m
from dq_client.base.errors import UsageError
from resize_lib.attach_wish import from_call, from_environment, passed_on, submission

COMMAND = ["/usr/bin/python3", "-u", "apps/fluid.py", "9"]


def made(words: dict[str, str], ranks: int = 2) -> m.Submit:
    return submission(words, ranks, COMMAND, "/work", {"X": "1", "PMI_RANK": "0"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1", {}),
        ("yes", {}),
        ("0", None),
        ("", None),
        ("sizes=1,2,4", {"sizes": "1,2,4"}),
        ("sizes=1,2x2,name=a,b, qos=q", {"sizes": "1,2x2", "name": "a,b", "qos": "q"}),
        ("min=2,max=8,chain=powers", {"min": "2", "max": "8", "chain": "powers"}),
        ("app_name=fluid", {"app-name": "fluid"}),
    ],
)
def test_the_environment_has_words(text: str, words: dict[str, str] | None) -> None:
    assert from_environment(text) == words


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("please", "DQ_ATTACH=please: give 1, or words as sizes=1,2,4,name=fluid"),
        ("2", "DQ_ATTACH=2: give 1, or words as sizes=1,2,4,name=fluid"),
        ("size=4", "DQ_ATTACH=size=4: size is no option here; known: sizes, min, max"),
        ("protect=disk", "protect is no option here"),
        ("min=x", "DQ_ATTACH=min=x: min=x is no number"),
        ("max=0", "DQ_ATTACH=max=0: max=0: it starts at 1"),
        ("name=", "DQ_ATTACH=name=: name has no value"),
        ("kind=moldable", "kind=moldable: give malleable, evolving, rigid"),
        ("chain=odd", "chain=odd: give square, powers, multiple"),
        ("sizes=1,2,max=4", "sizes lists the legal sizes: leave min, max and chain out"),
        (
            "walltime=soon",
            "DQ_ATTACH=walltime=soon: walltime soon: give more than 0, as 90, 90s, 10m, 2h, 1d",
        ),
        ("sizes=1,x", "DQ_ATTACH=sizes=1,x: sizes 1,x: give numbers with commas between"),
    ],
)
def test_what_makes_no_sense_is_named_in_one_line(text: str, why: str) -> None:
    with pytest.raises(UsageError) as error:
        from_environment(text)
    assert why in str(error.value)
    assert "\n" not in str(error.value)


def test_a_call_says_the_same() -> None:
    options: dict[str, Any] = {"sizes": [1, "2x2"], "name": "fluid", "priority": 3, "app_name": "f"}
    words = from_call(options)
    assert words == {"sizes": "1,2x2", "name": "fluid", "priority": "3", "app-name": "f"}
    with pytest.raises(UsageError, match=r"resize_lib.attach: colour is no option here"):
        from_call({"colour": "red"})


def test_it_becomes_a_submission() -> None:
    body = made({"sizes": "2,4", "walltime": "10m", "priority": "-3", "class": "c"})
    assert (body.argv, body.cwd, body.initial, body.kind) == (COMMAND, "/work", 2, "malleable")
    assert (body.name, body.sizes.listed, body.walltime_s) == ("fluid", [2, 4], 600.0)
    assert (body.priority, body.job_class, body.env) == (-3, "c", {"X": "1"})
    assert made({"name": "other", "min": "1", "max": "9"}).sizes == m.Sizes(min=1, max=9)
    assert made({}).request != made({}).request


def test_new_ranks_have_the_environment_of_the_first_ones() -> None:
    mine = {"LD_LIBRARY_PATH": "/lib", "OMP_NUM_THREADS": "2", "MY_INPUT": "9"}
    others = {"DQ_HOME": "/x", "PMI_FD": "9", "MPI_LOCALRANKID": "0", "HYDI_CONTROL_FD": "4"}
    assert passed_on({**mine, **others}) == mine


@pytest.mark.parametrize("environment", [{"X": "x" * 40_000}, {f"X{k}": "" for k in range(600)}])
def test_an_environment_that_is_too_large_is_said_to_be(environment: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="its environment cannot be passed on to new ranks"):
        passed_on(environment)
