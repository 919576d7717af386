"""What ranks compare at remap points: equal where they made the same iterations, different where
not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from hypothesis import assume, given
from hypothesis import strategies as st

from resize_lib.loops import Loops, Position
from resize_lib.same_iterations import bounds, differ

# Loops one after the other: how many iterations, after how many `break` leaves, what is in an
# iteration.
Body = list[Any]


class Rank:
    """Goes through a program; every `share`-th innermost iteration is a remap point."""

    def __init__(self, share: int, target: Position | None = None) -> None:
        self.loops = Loops(cast("Any", self), target)
        self._share, self._iterations = share, 0
        self.points: list[tuple[Position, int]] = []

    def first_loop(self) -> None:
        pass

    def later_loop(self) -> None:
        pass

    def functions_around(self) -> int:
        return 0

    def skips(self, iterations: Iterator[int], count: int) -> None:
        pass

    def meet(self) -> Position:
        raise AssertionError("where the job is is known")

    def arrive(self) -> None:
        self._iterations = 0

    def length(self, level: int, count: float | None, items: object) -> float | None:
        return count

    def has_arrived(self) -> None:
        self.loops.agreed()

    def iteration_begins(self) -> None:
        pass

    def loop_ends(self) -> None:
        pass

    def iteration_ends(self, elapsed_s: float, *, last: bool) -> None:
        self._iterations += 1
        if last or self._iterations == self._share:
            self._iterations = 0
            self.points.append((self.loops.position, self.loops.checksum(end=False)))
            self.loops.agreed()

    def run(self, body: Body) -> None:
        for count, leave, inner in body:
            for iteration in self.loops.run(count):
                if iteration == leave:
                    break
                self.run(inner)

    def through(self, body: Body) -> int:
        """The checksum at the end of the program."""
        self.run(body)
        return self.loops.checksum(end=True)


def programs(depth: int = 2) -> st.SearchStrategy[Body]:
    inner = st.just([]) if depth == 0 else st.just([]) | programs(depth - 1)
    loop = st.tuples(st.integers(1, 4), st.none() | st.integers(0, 3), inner)
    return st.lists(loop, min_size=1, max_size=3)


@given(program=programs(), share=st.integers(1, 4), data=st.data())
def test_a_rank_that_joins_compares_equal_from_there_on(
    program: Body, share: int, data: Any
) -> None:
    whole = Rank(share)
    end = whole.through(program)
    assume(whole.points)
    index = data.draw(st.integers(0, len(whole.points) - 1))
    late = Rank(share, whole.points[index][0])
    assert late.through(program) == end
    assert late.points == whole.points[index + 1 :]


@given(before=programs(), after=programs(), iterations=st.integers(1, 5), share=st.integers(1, 9))
def test_one_iteration_less_is_found_at_the_next_point_or_at_the_end(
    before: Body, after: Body, iterations: int, share: int
) -> None:
    """A loop that is left by `break` after `iterations`, and on another rank one iteration
    later."""
    ranks = [Rank(share), Rank(share)]
    ends = [
        rank.through([*before, (9, iterations + late, []), *after])
        for late, rank in enumerate(ranks)
    ]
    sums = [[checksum for _, checksum in rank.points] for rank in ranks]
    same = next((k for k, both in enumerate(zip(*sums, strict=False)) if len(set(both)) > 1), None)
    points = [len(rank.points) for rank in ranks]
    assert same is not None or points[0] != points[1] or ends[0] != ends[1]


def test_the_number_of_iterations_and_the_name_count() -> None:
    def first(count: int, name: str) -> Loops:
        loops = Rank(9).loops
        iterations = loops.run(count, name)
        next(iterations)
        next(iterations)
        found.append(iterations)  # or it would be left
        return loops

    found: list[Any] = []
    plain = bounds(first(5, ""))
    for other in (first(6, ""), first(5, "inner")):
        both = [max(pair) for pair in zip(plain, bounds(other), strict=True)]
        assert differ(both)  # type: ignore[arg-type]
    again = bounds(first(5, ""))
    assert not differ(again)
    assert (again == plain).all()
    assert first(5, "inner").made == ["iteration 1 of 5 of loop 1 'inner'"]
