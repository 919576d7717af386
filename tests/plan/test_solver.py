"""A solver's call that is ended by a resize, and made again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from resize_lib.loops import Loops
from resize_lib.solver import Resized, Solver


class Session:
    """Resized at some remap points; at one this rank leaves."""

    def __init__(self, resized: set[int], leaves: int = -1) -> None:
        self.loops = Loops(cast("Any", self), None)
        self.grid, self.resized, self.leaves = object(), resized, leaves
        self.points = SimpleNamespace(active=True)
        self.rank = 0
        self.made = 0
        self.solver = Solver(cast("Any", self))

    def first_loop(self) -> None:
        pass

    def later_loop(self) -> None:
        pass

    def functions_around(self) -> int:
        return 0

    def iteration_begins(self) -> None:
        pass

    def loop_ends(self) -> None:
        pass

    def iteration_ends(self, elapsed_s: float, *, last: bool) -> None:
        assert elapsed_s >= 0
        self.made += 1
        if self.made == self.leaves:
            raise SystemExit(0)
        if self.made in self.resized:
            self.grid = object()


def test_a_call_is_made_again_after_each_resize() -> None:
    session, calls = Session({2, 3}), []

    def call() -> None:
        calls.append(session.made)
        for _ in range(4):
            session.solver.remap()

    session.solver.solve(call, "")
    assert calls == [0, 2, 3]
    assert session.made == 7
    assert session.loops.position == ()


@pytest.mark.parametrize("then", ["goes on", "returns", "fails"])
def test_a_solver_that_swallows_the_exception_is_called_again_all_the_same(then: str) -> None:
    session, calls = Session({1}), []

    def call() -> None:
        calls.append(session.made)
        for _ in range(3):
            try:
                session.solver.remap()
            except BaseException:
                if then == "returns":
                    return
                if then == "fails":
                    raise ArithmeticError("the communicator is gone") from None

    session.solver.solve(call, "")
    assert calls == [0, 1]
    assert session.made == 4, "no remap point is made by what has ended"


def test_a_rank_that_leaves_leaves_though_its_solver_swallows_that() -> None:
    session = Session(set(), leaves=2)

    def call() -> None:
        for _ in range(3):
            try:
                session.solver.remap()
            except BaseException:
                continue

    with pytest.raises(SystemExit):
        session.solver.solve(call, "")
    assert session.made == 2


def test_errors_of_the_solver_are_its_callers() -> None:
    session = Session(set())
    with pytest.raises(ArithmeticError, match="diverges"):
        session.solver.solve(lambda: (_ for _ in ()).throw(ArithmeticError("diverges")), "")
    assert session.loops.position == ()


def test_outside_of_a_call_it_is_no_remap_point(capsys: pytest.CaptureFixture[str]) -> None:
    session = Session({1})
    for _ in range(3):
        session.solver.remap()
    for _ in session.loops.run(2):
        session.solver.remap()
    assert capsys.readouterr().err.count("outside of rs.solve") == 1
    assert session.made == 2, "the ends of the two iterations"


def test_the_exception_is_none_that_solvers_handle() -> None:
    assert not issubclass(Resized, Exception)
