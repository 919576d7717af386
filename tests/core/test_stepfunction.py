"""Step functions by example: a cluster of 10 nodes with jobs booked on it."""

from __future__ import annotations

from itertools import pairwise
from math import inf

import pytest

from dq_server.core.model.stepfunction import StepFunction, StepFunctionError


def check_lists(function: StepFunction) -> None:
    """Every invariant of the lists: see the module's theory of operation."""
    times, values = function.times, function.values
    assert len(times) == len(values) >= 3
    assert times[-2:] == [inf, inf] and values[-2:] == [-inf, -inf]
    assert all(a < b for a, b in pairwise(times[:-1]))
    assert all(a != b for a, b in pairwise(values[:-1]))


@pytest.fixture
def taken() -> StepFunction:
    """4 nodes on [0, 100), 9 on [100, 200), 6 on [200, 500), none after."""
    function = StepFunction()
    for start, end, nodes in ((0, 100, 4), (100, 200, 9), (200, 500, 6)):
        function.add(start, end, nodes)
    return function


def test_values_hold_from_their_breakpoint_on(taken: StepFunction) -> None:
    assert [taken(t) for t in (0, 99, 100, 200, 499, 500, 10**9)] == [4, 4, 9, 6, 6, 0, 0]


def test_segments_end_with_an_endless_one(taken: StepFunction) -> None:
    assert list(taken.segments()) == [(0, 100, 4), (100, 200, 9), (200, 500, 6), (500, inf, 0)]
    assert repr(taken) == "StepFunction({0: 4, 100: 9, 200: 6, 500: 0})"


def test_max_is_over_a_half_open_interval(taken: StepFunction) -> None:
    assert taken.max(0, 100) == 4
    assert taken.max(0, 101) == 9
    assert taken.max(200, inf) == 6
    assert taken.max(150, 150) == 0, "0 if t0 = t1 (Klein & Pérez 2011, 3.1)"


def test_a_job_waits_behind_the_peak_that_its_window_would_touch(taken: StepFunction) -> None:
    assert taken.earliest_window(4, 100, 0) == 0
    assert taken.earliest_window(4, 101, 0) == 500
    assert taken.earliest_window(6, 101, 0) == 200
    assert taken.earliest_window(9, inf, 30) == 30


def test_nothing_fits_beside_a_booking_without_end(taken: StepFunction) -> None:
    taken.add(400, inf, 5)
    assert taken.earliest_window(4, 10, 0) == 0
    assert taken.earliest_window(4, 10, 91) == inf
    assert taken.earliest_window(-1, 10, 0) == inf


def test_latest_window_ends_before_the_peak(taken: StepFunction) -> None:
    assert taken.latest_window(6, 50, 450) == 450
    assert taken.latest_window(4, 50, 400) == 50
    assert taken.latest_window(3, 50, 400) == -inf


def test_excess_is_found_from_both_sides_and_its_end_is_not_clipped(taken: StepFunction) -> None:
    assert taken.last_excess_end(6, 0, 150) == 200
    assert taken.last_excess_end(6, 200, 900) == -inf
    assert taken.first_excess_start(6, 0, 900) == 100
    assert taken.first_excess_start(6, 150, 900) == 150
    assert taken.first_excess_start(6, 200, 900) == inf
    assert taken.first_excess_start(6, 0, 100) == inf, "the interval is half-open"


def test_adding_and_taking_back_leaves_no_trace(taken: StepFunction) -> None:
    before = taken.copy()
    taken.add(50, 250, 1)
    assert taken != before
    check_lists(taken)
    taken.add(50, 250, -1)
    assert taken == before


def test_the_past_is_forgotten_and_the_future_stays(taken: StepFunction) -> None:
    taken.forget_before(150)
    check_lists(taken)
    assert list(taken.segments()) == [(150, 200, 9), (200, 500, 6), (500, inf, 0)]
    with pytest.raises(StepFunctionError, match="outside"):
        taken(149)


def test_whole_numbers_stay_whole(taken: StepFunction) -> None:
    assert isinstance(taken.earliest_window(5, 10, 0), int)


def test_questions_and_changes_before_the_origin_are_refused_and_change_nothing() -> None:
    function = StepFunction(origin_s=100)
    function.add(100, 200, 3)
    before = function.copy()
    for refused in (
        lambda: function.add(99, 150, 1),
        lambda: function.max(99, 150),
        lambda: function.forget_before(inf),
    ):
        with pytest.raises(StepFunctionError):
            refused()
    assert function == before


def test_a_function_can_be_given_by_its_segments() -> None:
    given = StepFunction.of([(5, 2), (7, 2), (9, 0)])
    check_lists(given)
    expected = StepFunction(5, 2)
    expected.add(9, inf, -2)
    assert given == expected
    for wrong in ([], [(3, 1), (3, 2)], [(0, 1), (inf, 2)]):
        with pytest.raises(StepFunctionError):
            StepFunction.of(wrong)
