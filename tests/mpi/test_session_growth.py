"""Three hundred resizes of each kind of declared data: nothing of ours grows in a rank that stays.

MPICH keeps something of every rank that it was ever connected to (docs/ranks.md, "Measured"). How
much, a session that declares nothing shows.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.ranks import OWN, run_job
from tests.mpi.programs.session_growth import DECLARE

pytestmark = [pytest.mark.mpi, pytest.mark.slow, pytest.mark.timeout(1300)]
PROGRAM = Path(__file__).parent / "programs" / "session_growth.py"
ROUNDS = 50  # of six resizes
SETTLED = 10  # rounds after which what is kept once is there
NOISE_KIB = 2048
OBJECTS = 100

# The script of all resizes is a variable of the program, and a large one.
PATIENT = {"DQ_CARRY_MS": "10000"}

Marks = dict[str, int]


def run(kind: str) -> list[Marks]:
    """What rank 0 had after each round."""
    return rounds_of([str(PROGRAM), kind], ROUNDS)


def rounds_of(program: list[str], rounds: int) -> list[Marks]:
    """What rank 0 of a program had after each round of six resizes; all of them have happened."""
    program = [*program, str(rounds), *OWN.hosts]
    ended = run_job(OWN, 1, program, limit_s=1200, env=PATIENT)
    assert ended.code == 0, ended.out + ended.err
    told = [json.loads(line) for line in ended.out.splitlines()]
    assert [line for line in told if "aborted" in line] == []
    found: dict[int, Marks] = {line["round"]: line["marks"] for line in told if "round" in line}
    assert list(found) == list(range(1, rounds + 1))
    return list(found.values())


def growth(rounds: list[Marks], what: str) -> int:
    return rounds[-1][what] - rounds[SETTLED][what]


@pytest.fixture(scope="module")
def nothing() -> list[Marks]:
    return run("nothing")


@pytest.mark.parametrize("kind", [kind for kind in DECLARE if kind != "nothing"])
def test_three_hundred_resizes_of_a_kind_leave_nothing(kind: str, nothing: list[Marks]) -> None:
    rounds = run(kind)
    print(kind, {what: (growth(rounds, what), growth(nothing, what)) for what in rounds[0]})
    assert growth(rounds, "files") <= 0
    assert growth(rounds, "arena_kib") <= 0
    assert growth(rounds, "objects") <= OBJECTS
    mpi_kib = growth(nothing, "memory_kib")
    assert growth(rounds, "memory_kib") <= 1.1 * mpi_kib + NOISE_KIB
