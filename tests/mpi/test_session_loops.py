"""Programs with several loops, resized anywhere: as if they had never been."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.ranks import OWN, run_job

pytestmark = pytest.mark.mpi
PROGRAM = Path(__file__).parent / "programs" / "session_loops.py"


def run(kind: str, seed: int, moves: int, path: str) -> tuple[int, dict[str, Any]]:
    """How many resizes were carried out, and what the program says of its end."""
    words = [str(PROGRAM), kind, str(seed), str(moves), "2", path, *OWN.hosts]
    ended = run_job(OWN, 2, words, limit_s=300)
    assert ended.code == 0, ended.err
    *told, last = [json.loads(line) for line in ended.out.splitlines()]
    if told and "aborted" in told[-1]:
        assert told.pop()["why"] == "the last iteration is done"
    assert all("committed" in line for line in told), told
    return len(told), last


def same_as_undisturbed(kind: str, seed: int, moves: int, path: str) -> int:
    _, plain = run(kind, seed, 0, path)
    resizes, found = run(kind, seed, moves, path)
    assert found["made"] == plain["made"], "a turn is missing, or was made twice"
    assert found["data"] == plain["data"]
    assert len(set(found["sizes"])) > 2
    return resizes


@pytest.mark.parametrize("path", ["patient", "begun"])
@pytest.mark.parametrize("kind", ["sequence", "nested", "epochs", "while"])
def test_loops_that_are_resized_anywhere_end_as_without(kind: str, path: str) -> None:
    assert same_as_undisturbed(kind, 1, 12, path) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 7))
@pytest.mark.parametrize("kind", ["sequence", "nested", "epochs", "while"])
def test_fifty_resizes(kind: str, seed: int) -> None:
    assert same_as_undisturbed(kind, seed, 50, "patient") > 15
