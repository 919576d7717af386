"""Three hundred resizes of a program whose variables travel: nothing grows in a rank that stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.ranks import OWN, run_job
from tests.mpi.test_session_growth import NOISE_KIB, OBJECTS, PATIENT, ROUNDS, Marks, growth
from tests.mpi.test_session_growth import run as run_declared

pytestmark = [pytest.mark.mpi]
PROGRAM = Path(__file__).parent / "programs" / "carried_growth.py"


def run(rounds: int) -> list[Marks]:
    """What rank 0 had after each round of six resizes; all of them have happened."""
    program = [str(PROGRAM), str(rounds), *OWN.hosts]
    ended = run_job(OWN, 1, program, limit_s=1200, env=PATIENT)
    assert ended.code == 0, ended.out + ended.err
    told = [json.loads(line) for line in ended.out.splitlines()]
    assert [line for line in told if "aborted" in line] == []
    found: dict[int, Marks] = {line["round"]: line["marks"] for line in told if "round" in line}
    assert list(found) == list(range(1, rounds + 1))
    return list(found.values())


@pytest.mark.timeout(400)
def test_variables_are_right_in_every_rank_after_each_resize() -> None:
    assert len(run(2)) == 2


@pytest.mark.slow
@pytest.mark.timeout(2500)
def test_three_hundred_resizes_leave_memory_and_descriptors_flat() -> None:
    nothing, rounds = run_declared("nothing"), run(ROUNDS)
    print({what: (growth(rounds, what), growth(nothing, what)) for what in rounds[0]})
    assert growth(rounds, "files") <= 0
    assert growth(rounds, "objects") <= OBJECTS
    # MPICH keeps something of every rank that it was connected to.
    assert growth(rounds, "memory_kib") <= 1.1 * growth(nothing, "memory_kib") + NOISE_KIB
