"""Loops one after and inside the other: who joins anywhere makes the iterations that are left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resize_lib.loops import LoopError, Loops, Position

# A program: what is in an iteration, and how many iterations; a number of iterations after which
# `break` leaves.
Body = list[Any]


class Session:
    """Keeps what a session is told."""

    def __init__(self, target: Position | None = None) -> None:
        self.loops = Loops(cast("Any", self), target)
        self.points: list[Position] = []
        self.lasts: list[bool] = []
        self.arrivals = 0
        self.made: list[tuple[int, ...]] = []  # innermost iterations, by `run`
        self.made_before: list[int] = []  # each remap point

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
        self.arrivals += 1

    def length(self, level: int, count: float | None, items: object) -> float | None:
        return count

    def has_arrived(self) -> None:
        assert self.loops.arrived

    def iteration_begins(self) -> None:
        pass

    def loop_ends(self) -> None:
        pass

    def iteration_ends(self, elapsed_s: float, *, last: bool) -> None:
        assert elapsed_s >= 0
        self.points.append(self.loops.position)
        self.lasts.append(last)
        self.made_before.append(len(self.made))


def run(session: Session, body: Body, path: tuple[int, ...] = ()) -> None:
    """Carry the program out."""
    for number, (count, leave, inner) in enumerate(body):
        for iteration in session.loops.run(count):
            here = (*path, number, iteration)
            if leave is not None and iteration >= leave:
                break
            if inner:
                run(session, inner, here)
            elif session.loops.arrived:
                session.made.append(here)


def programs(depth: int = 2) -> st.SearchStrategy[Body]:
    inner = st.just([]) if depth == 0 else st.just([]) | programs(depth - 1)
    loop = st.tuples(st.integers(0, 3), st.none() | st.integers(0, 3), inner)
    return st.lists(loop, min_size=1, max_size=3)


@given(program=programs(), data=st.data())
def test_a_rank_that_joins_makes_the_iterations_that_are_left(program: Body, data: Any) -> None:
    whole = Session()
    run(whole, program)
    assert whole.loops.position == ()
    if not whole.points:
        return
    index = data.draw(st.integers(0, len(whole.points) - 1))
    late = Session(whole.points[index])
    run(late, program)
    assert late.arrivals == 1
    assert late.points == whole.points[index + 1 :]
    assert late.lasts == whole.lasts[index + 1 :]
    assert late.made == whole.made[whole.made_before[index] :]


@given(program=programs())
def test_every_remap_point_is_at_another_place(program: Body) -> None:
    session = Session()
    run(session, program)
    assert len(set(session.points)) == len(session.points)


def test_loops_in_sequence_make_all_their_iterations() -> None:
    session = Session()
    assert (list(session.loops.run(50)), list(session.loops.run(30))) == (
        list(range(50)),
        list(range(30)),
    )
    assert session.points[49:51] == [((0, 50),), ((1, 1),)]
    assert [k for k, last in enumerate(session.lasts) if last] == [49, 79]


def test_nested_loops_have_iterations_of_their_own_and_no_remap_point_twice() -> None:
    session, made = Session(), []
    for outer in session.loops.run(3):
        made += [(outer, inner) for inner in session.loops.run(2)]
    assert made == [(o, i) for o in range(3) for i in range(2)]
    assert session.points == [((0, o), (0, i + 1)) for o in range(3) for i in range(2)]
    assert not any(session.lasts), "the loop around may go on"


def test_an_iteration_without_an_inner_loop_is_a_remap_point() -> None:
    session = Session()
    for outer in session.loops.run(4):
        if outer % 2:
            list(session.loops.run(1))
    assert session.points == [((0, 1),), ((0, 1), (0, 1)), ((0, 3),), ((0, 3), (0, 1))]


def test_a_loop_left_by_break_whose_generator_lives_on() -> None:
    session, kept = Session(), []
    for _ in session.loops.run(2):
        kept.append(session.loops.run(9))
        next(kept[-1])
    assert session.points == [((0, 1),), ((0, 2),)]
    assert list(session.loops.run(1)) == [0]
    assert session.points[-1] == ((1, 1),)


def test_the_iteration_stays_readable_after_the_loop() -> None:
    session = Session()
    assert session.loops.iteration == 0
    list(session.loops.run(5))
    assert session.loops.iteration == 5


@pytest.mark.parametrize("target", [((0, 1), (0, 1)), ((0, 9), (0, 0))])
def test_a_rank_that_does_not_come_to_the_place_says_so(target: Position) -> None:
    session = Session(target)
    with pytest.raises(LoopError, match="does not come there"):
        for _ in session.loops.run(3):
            pass
        for _ in session.loops.run(3):
            for _ in session.loops.run(3):
                pass
    assert session.arrivals <= 1


def test_only_the_iteration_of_the_innermost_loop_can_be_taken_back() -> None:
    session, made = Session(), []
    for outer in session.loops.run(2):
        for inner in session.loops.run(3):
            made.append((outer, inner))
            if len(made) == 6:  # in the middle of the last iteration
                assert session.loops.can_go_back(((0, 1), (0, 0)))
                assert not session.loops.can_go_back(((0, 0), (0, 3)))
                assert not session.loops.can_go_back(((0, 1),))
                session.loops.go_back(((0, 1), (0, 0)))
    assert made == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 1), (1, 2)]


def test_iterations_are_of_one_kind_by_the_innermost_name_or_the_outermost_loop() -> None:
    session, labels = Session(), []
    loops = session.loops
    for _ in loops.run(1):
        labels.append(loops.label)
        for _ in loops.run(1):
            labels.append(loops.label)
        for _ in loops.run(1, "solve"):
            for _ in loops.run(1):
                labels.append(loops.label)
    for _ in loops.run(1):
        labels.append(loops.label)
    for _ in loops.run(1, "last"):
        labels.append(loops.label)
    assert labels == ["1", "1", "solve", "2", "last"]


@pytest.mark.parametrize(("kind", "where"), [("solve", "rs.solve"), ("map", "rs.map")])
def test_no_loop_begins_inside_of_a_solver_or_a_task(kind: Any, where: str) -> None:
    session = Session()
    with session.loops.inside(kind=kind), pytest.raises(LoopError, match=where):
        list(session.loops.run(2))
    assert list(session.loops.run(2)) == [0, 1], "afterwards they may"


def test_a_rank_that_joins_in_a_solver_arrives_before_it_is_called() -> None:
    late = Session(((1, 0), (2, 7)))
    iterations = list[object]()
    for _ in late.loops.run(3):
        iterations.append("left")
    for iteration in late.loops.run(3):
        with late.loops.inside(kind="map") as farm:
            iterations.append(farm)
        with late.loops.inside(kind="map") as farm:
            iterations.append(farm)
        assert late.arrivals == 0
        with late.loops.inside(kind="solve") as solver:
            assert late.arrivals == 1
            assert solver is not None
            assert (iteration, solver.iteration) == (0, 7)
            break
    assert iterations == [None, None]


def test_a_loop_goes_on_until_its_last_iteration_has_ended() -> None:
    class Asks(Session):
        def iteration_ends(self, elapsed_s: float, *, last: bool) -> None:
            super().iteration_ends(elapsed_s, last=last)
            self.made.append((int(self.loops.go_on),))

    session = Asks()
    run(session, [(2, None, [(3, None, [])])])
    ends = [bool(made[0]) for made in session.made if len(made) == 1]
    assert ends == [True, True, False, True, True, False]
    endless = Asks()
    run(endless, [(None, 2, [])])
    assert [made for made in endless.made if len(made) == 1] == [(1,), (1,)]
    assert not endless.loops.go_on
