"""Programs with several loops, resized anywhere: as if they had never been."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.ranks import OWN, run_job

pytestmark = pytest.mark.mpi
PROGRAM = Path(__file__).parent / "programs" / "session_loops.py"


@dataclass(frozen=True)
class Run:
    """See the program. interval_s: between two remap points; 0: every turn is one."""

    kind: str
    path: str = "patient"
    interval_s: float = 0.0
    length: int = 1
    seed: int = 1

    def end(self, moves: int) -> tuple[int, dict[str, Any]]:
        """How many resizes were carried out, and what the program says of its end."""
        words = [self.kind, self.seed, moves, 2, self.path, self.interval_s, self.length]
        program = [str(PROGRAM), *map(str, words), *OWN.hosts]
        ended = run_job(OWN, 2, program, limit_s=600)
        assert ended.code == 0, ended.err
        *told, last = [json.loads(line) for line in ended.out.splitlines()]
        if told and "aborted" in told[-1]:
            assert told.pop()["why"] == "the last iteration is done"
        assert all("committed" in line for line in told), told
        return len(told), last

    def same_as_undisturbed(self, moves: int) -> int:
        """The number of resizes that made no difference."""
        _, plain = self.end(0)
        resizes, found = self.end(moves)
        assert found["made"] == plain["made"], "a turn is missing, or was made twice"
        assert found["data"] == plain["data"]
        # The script may be through before the first loop: task farms do not tell on which sizes.
        assert self.kind == "farm" or len(set(found["sizes"])) > 2
        return resizes


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        *((kind, "patient") for kind in ("sequence", "nested", "epochs", "while", "planned")),
        *((kind, "begun") for kind in ("sequence", "nested")),
    ],
)
def test_loops_that_are_resized_anywhere_end_as_without(kind: str, path: str) -> None:
    assert Run(kind, path).same_as_undisturbed(12) >= 5


@pytest.mark.parametrize("kind", ["callback", "farm"])
def test_solvers_and_task_farms_that_are_resized_end_as_without(kind: str) -> None:
    # So many that some ranks join in a farm, where a loop has been at the same level.
    assert Run(kind).same_as_undisturbed(25) >= 15


@pytest.mark.parametrize("kind", ["sequence", "callback"])
def test_turns_of_two_milliseconds_that_share_remap_points(kind: str) -> None:
    # Patient: so few turns may be over before ranks that start meanwhile are ready.
    assert Run(kind, interval_s=0.008).same_as_undisturbed(20) >= 3


KINDS = ["sequence", "nested", "epochs", "while", "callback", "farm"]


@pytest.mark.slow
@pytest.mark.timeout(1300)
@pytest.mark.parametrize("kind", KINDS)
def test_fifty_resizes(kind: str) -> None:
    assert Run(kind, length=3, seed=2).same_as_undisturbed(50) == 50


@pytest.mark.slow
@pytest.mark.timeout(1300)
@pytest.mark.parametrize("kind", KINDS)
def test_fifty_resizes_between_shared_remap_points(kind: str) -> None:
    run = Run(kind, interval_s=0.006, length=12, seed=3)
    assert run.same_as_undisturbed(50) == 50
