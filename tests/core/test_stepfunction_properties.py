"""Step functions against one list entry per second."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from dq_server.core.model.stepfunction import StepFunction
from tests.core.test_stepfunction import check_lists

HORIZON = 24  # seconds that the list spells out; its last entry goes on forever
times = st.integers(0, HORIZON - 1)
amounts = st.integers(-3, 3)
additions = st.lists(st.tuples(times, st.integers(1, HORIZON), amounts), max_size=8)


def clipped(added: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Additions (start, length, amount) cut at the horizon."""
    return [(start, min(length, HORIZON - start), n) for start, length, n in added]


def brute(added: list[tuple[int, int, int]]) -> list[int]:
    """Value in each second 0 .. HORIZON; nothing was added from HORIZON on."""
    return [
        sum(n for start, length, n in added if start <= t < start + length)
        for t in range(HORIZON + 1)
    ]


def build(added: list[tuple[int, int, int]]) -> StepFunction:
    function = StepFunction()
    for start, length, n in clipped(added):
        function.add(start, start + length, n)
        check_lists(function)
    return function


@given(additions)
def test_values_are_the_sum_of_what_was_added(added: list[tuple[int, int, int]]) -> None:
    assert [build(added)(t) for t in range(HORIZON + 1)] == brute(clipped(added))


@given(additions, times, times)
def test_max(added: list[tuple[int, int, int]], start: int, end: int) -> None:
    values = brute(clipped(added))
    assert build(added).max(start, end) == max(values[start:end], default=0)


@given(additions, st.integers(-3, 6), st.integers(1, 8) | st.just(inf), times)
def test_earliest_window(
    added: list[tuple[int, int, int]], nodes: int, duration: float, after: int
) -> None:
    values = brute(clipped(added))

    def fits(start: int) -> bool:
        end = HORIZON + 1 if duration == inf else start + int(duration)
        return all(values[min(t, HORIZON)] + nodes <= 4 for t in range(start, end))

    expected = next((t for t in range(after, HORIZON + 1) if fits(t)), inf)
    assert build(added).earliest_window(4 - nodes, duration, after) == expected


@given(additions, amounts, st.integers(1, 8), times)
def test_latest_window(
    added: list[tuple[int, int, int]], at_most: int, duration: int, start_by: int
) -> None:
    values = brute(clipped(added))
    expected = next(
        (
            start
            for start in range(start_by, -1, -1)
            if all(values[min(t, HORIZON)] <= at_most for t in range(start, start + duration))
        ),
        -inf,
    )
    assert build(added).latest_window(at_most, duration, start_by) == expected


@given(additions, amounts, times, st.integers(1, HORIZON))
def test_excess(added: list[tuple[int, int, int]], at_most: int, start: int, length: int) -> None:
    values = brute(clipped(added))
    end = min(start + length, HORIZON)
    function = build(added)
    above = [t for t in range(start, end) if values[t] > at_most]
    assert function.first_excess_start(at_most, start, end) == min(above, default=inf)
    last_end = function.last_excess_end(at_most, start, end)
    if above:
        segment_end = next(e for s, e, _ in function.segments() if s <= above[-1] < e)
        assert last_end == segment_end
    else:
        assert last_end == -inf


@given(additions, times)
def test_forgetting_the_past_keeps_the_rest(added: list[tuple[int, int, int]], t: int) -> None:
    function = build(added)
    function.forget_before(t)
    check_lists(function)
    assert [function(s) for s in range(t, HORIZON + 1)] == brute(clipped(added))[t:]
