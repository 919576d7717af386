"""Three hundred resizes of a program whose variables travel: nothing grows in a rank that stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mpi.test_session_growth import NOISE_KIB, OBJECTS, ROUNDS, growth, rounds_of, run

pytestmark = [pytest.mark.mpi]
PROGRAM = str(Path(__file__).parent / "programs" / "carried_growth.py")


@pytest.mark.timeout(400)
def test_variables_are_right_in_every_rank_after_each_resize() -> None:
    assert len(rounds_of([PROGRAM], 2)) == 2


@pytest.mark.slow
@pytest.mark.timeout(2500)
def test_three_hundred_resizes_leave_memory_and_descriptors_flat() -> None:
    nothing, rounds = run("nothing"), rounds_of([PROGRAM], ROUNDS)
    print({what: (growth(rounds, what), growth(nothing, what)) for what in rounds[0]})
    assert growth(rounds, "files") <= 0
    assert growth(rounds, "objects") <= OBJECTS
    # MPICH keeps something of every rank that it was connected to.
    assert growth(rounds, "memory_kib") <= 1.1 * growth(nothing, "memory_kib") + NOISE_KIB
