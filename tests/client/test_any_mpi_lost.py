"""What benchmarks.any_mpi counts as lost at a resize."""

from __future__ import annotations

import pytest

from benchmarks.any_mpi import lost_s

BEFORE = [(0.1 * k, 1) for k in range(11)]  # a turn takes 0.1 s on one processor


def test_a_stop_is_lost() -> None:
    """Asked at 1.05, the last turn ends at 1.1; the job is back 0.5 s later, twice as fast."""
    after = [(1.65 + 0.05 * k, 2) for k in range(30)]
    assert lost_s([*BEFORE, (1.1, 1), *after], 1.05, 4.0) == pytest.approx(0.5)


def test_slow_turns_while_ranks_start_are_lost_as_far_as_they_are_slow() -> None:
    during = [(1.2, 1), (1.4, 1), (1.6, 1)]  # three turns of 0.2 s
    after = [(1.65 + 0.05 * k, 2) for k in range(30)]
    assert lost_s([*BEFORE, *during, *after], 1.05, 4.0) == pytest.approx(0.3)


def test_a_resize_that_costs_nothing_loses_nothing() -> None:
    after = [(1.05 + 0.05 * k, 2) for k in range(30)]
    assert lost_s([*BEFORE, *after], 1.02, 4.0) == pytest.approx(0.0, abs=1e-9)
