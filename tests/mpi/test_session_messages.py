"""Messages under way at a resize: it waits for them, and is refused if they never arrive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.ranks import LABELS, OWN, Recipe, run_job

pytestmark = pytest.mark.mpi
PROGRAM = Path(__file__).with_name("programs") / "session_messages.py"

both_paths = pytest.mark.parametrize("path", ["patient", "begun"])


def told(kind: str, path: str, recipe: Recipe = OWN) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What the session reported, and the program's last words."""
    # Drawn messages leave a third of the iterations without one: which of them, no machine decides.
    env = {"DQ_POSTPONE_POINTS": "1000"} if kind == "drawn" else {}
    ended = run_job(recipe, 2, [str(PROGRAM), kind, path, *recipe.hosts], limit_s=240, env=env)
    assert ended.code == 0, ended.err
    *reports, last = [json.loads(line) for line in ended.out.splitlines()]
    assert last["sent"] == last["got"], "a message was lost"
    return reports, last


def line(kind: str) -> str:
    """`file:line` of what the program marks."""
    for number, text in enumerate(PROGRAM.read_text().splitlines(), 1):
        if text.endswith(f"# HERE: {kind}"):
            return f"{PROGRAM.name}:{number}: "
    raise AssertionError(kind)


@both_paths
def test_a_resize_waits_until_all_messages_are_received(path: str) -> None:
    reports, last = told("late", path)
    assert [report.get("committed") for report in reports] == list(range(1, 10))
    assert last["sent"] > 9


@pytest.mark.parametrize("recipe", [OWN, LABELS], ids=lambda recipe: recipe.name)
def test_no_message_of_any_size_on_any_communicator_is_lost(recipe: Recipe) -> None:
    reports, last = told("drawn", "begun", recipe)
    committed = [report["committed"] for report in reports if "committed" in report]
    assert committed == list(range(1, 10))
    assert last["sent"] > 100


@both_paths
def test_a_resize_is_refused_if_messages_are_always_under_way(path: str) -> None:
    reports, _ = told("never", path)
    refused = [report["why"] for report in reports if "aborted" in report]
    assert [report["aborted"] for report in reports[:2]] == [1, 2]
    # Of a regrid the job's communicator stays, and with it what is under way.
    assert [report["committed"] for report in reports[2:]] == [3, 4, 5, 6]
    for why in refused:
        assert line("never") in why
        assert "a message from rank 1 to rank 0 with tag 5 has not been received after 8" in why


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("received", "irecv from rank 0 with tag 8 on rank 1 is still open after 8 remap points"),
        ("probed", "mprobe from any rank with tag 5 on rank 1 is still open after 8 remap points"),
    ],
)
def test_a_resize_is_refused_while_a_receive_is_open(kind: str, words: str) -> None:
    reports, _ = told(kind, "begun")
    refused = [report["why"] for report in reports if "aborted" in report]
    assert len(refused) == {"received": 3, "probed": 2}[kind]
    for why in refused:
        assert line(kind) in why
        assert words in why
    assert [report["committed"] for report in reports if "committed" in report][-3:] == [4, 5, 6]
