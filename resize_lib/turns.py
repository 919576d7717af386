"""What a program calls for its turns: loops, solvers, task farms, and what is built anew.

docs/programs.md shows each of them in a program. Part of `Session` (jobsession.py).
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, overload

from resize_lib.loops import LoopError, Loops, Position
from resize_lib.on_resize import Hook, OnResize
from resize_lib.protection.state import ProtectionError
from resize_lib.remap_point import RemapPoints
from resize_lib.resize import JobPosition
from resize_lib.server_link import say
from resize_lib.solver import Solver
from resize_lib.state.iterators import go_on
from resize_lib.taskfarm import Farms

if TYPE_CHECKING:
    from resize_lib.emulation.pacing import SharePacer
    from resize_lib.joining import Joining
    from resize_lib.protection.generations import Copy
    from resize_lib.protection.protector import Protector
    from resize_lib.recording.recorder import Recorder
    from resize_lib.recovery_in_place import InPlace
    from resize_lib.session_end import SessionEnd
    from resize_lib.state.carry import Carry
    from resize_lib.succession import Succession
    from resize_lib.watch import Watch

Task = TypeVar("Task")
Result = TypeVar("Result")
Item = TypeVar("Item")


class TurnMethods:
    """The part of a session that concerns turns; its `__init__` makes the attributes."""

    job: JobPosition
    loops: Loops
    points: RemapPoints
    hooks: OnResize
    solver: Solver
    farms: Farms
    in_place: InPlace | None
    protector: Protector | None
    succession: Succession | None
    _pacer: SharePacer | None
    _copy: Copy | None
    _end: SessionEnd
    joining: Joining | None
    recorder: Recorder | None
    watch: Watch
    carry: Carry

    @property
    def step(self) -> int:
        """The turn of the innermost loop that is running or comes next."""
        return self.loops.turn

    @overload
    def iterations(self, count: float | None = None, name: str = "") -> Iterator[int]: ...

    @overload
    def iterations(self, count: Sequence[Item], name: str = "") -> Iterator[Item]: ...

    def iterations(self, count: Any = None, name: str = "") -> Iterator[Any]:
        """Turns of a loop; the end of each may be a remap point.

        count: how many, numbered from 0; or a sequence, `range(0, n, 8)` or a list that is the same
            on every rank, whose items the turns get. Endless without: leave it by `break`, on all
            ranks in the same turn. A rank that joins starts at the turn that the job has reached
            (see loops.py).
        name: turns of loops with different names are measured apart, and those of outermost loops
            without one; a loop inside of another belongs to that one unless it has its own name.

        Raises:
            TypeError: `count` is neither: an iterator, for example, would begin anew where ranks
                join.
        """
        if count is None or isinstance(count, Real):  # of numpy, too
            return self.loops.run(_plain(count), name)
        if isinstance(count, Mapping) or not hasattr(count, "__getitem__"):
            raise TypeError(
                f"rs.iterations({reprlib.repr(count)}): give a number of turns, or a sequence such"
                " as range(0, n, 8) or a list; a rank that joins begins in the midst of it"
            )
        # No generator of our own: who calls next() is looked up by frames.
        return map(count.__getitem__, self.loops.run(len(count), name, items=True))

    def solve(self, call: Callable[[], Any], name: str = "") -> None:
        """Call a solver, whose callback calls `rs.remap()`; collective.

        call: takes nothing, and begins from what is declared; what it finds it stores there. After
        a resize it is ended by an exception (`Resized`, no Exception) wherever `rs.remap()` was
        called, and called again with the ranks that there are then.

        Raises:
            LoopError: `call` begins a loop of remap points, or the program of a joining rank does
                not come to the same call.
        """
        self.solver.solve(call, name)

    def remap(self) -> None:
        """A remap point as a plain call, from within what `rs.solve` has called; collective.

        Does not return if the job has been resized, or if this rank leaves. Outside of `rs.solve`
        it does nothing: in a turn of `rs.iterations` the end of the turn is the remap point.
        """
        self.solver.remap()

    def map(
        self, function: Callable[[Task], Result], tasks: Iterable[Task], name: str = ""
    ) -> Sequence[Result]:
        """`[function(task) for task in tasks]`, shared out over all ranks there are; collective.

        Each rank gets a few tasks at a time and asks for more when they are done, so uneven ones
        are balanced. The job grows and shrinks between tasks; each task's result counts once. All
        ranks get all results, in the order of the tasks. `function` must not communicate; `tasks`
        must be the same on all ranks, results must be such as pickle takes.

        Raises (on every rank alike):
            TaskError: `function` has raised: which task, on which rank, and where.
            ValueError: the ranks have different numbers of tasks.
        """
        return self.farms.map(function, tasks, name)

    def on_resize(self, function: Hook) -> Hook:
        """Declare what is built anew for each communicator; a decorator.

        `function(comm)` is called on all ranks, several in the order of their declarations: at the
        first turn, and after every resize, on ranks that have joined as well. It may communicate.
        It is not timed. Declare it before the loop; call nothing of it yourself.
        """
        return self.hooks.declare(function, "on_resize")

    def setup(self, function: Hook) -> Hook:
        """Declare a part of the set-up that is made again for each communicator; a decorator.

        `function(comm)` is called at once, and on all ranks after every resize, in the order of the
        declarations; a rank that joins calls it when it comes to the job's iteration, not before.
        It may communicate in any way. What it binds by `global` or `nonlocal`, or stores in
        objects, is the program's; what it returns is of no meaning. It is not timed.
        """
        return self.hooks.declare(function, "setup")

    @property
    def rank(self) -> int:
        """See Session."""
        raise NotImplementedError

    def give_up(self, why: str) -> NoReturn:
        """See Session."""
        raise NotImplementedError

    # --- see loops.Turns --------------------------------------------------------------------

    def first_loop(self) -> None:
        """The program comes to its first loop."""
        self.carry.begin()
        self.carry.read_ahead()

    def later_loop(self) -> None:
        """The program comes to another loop, which is inside of none."""
        self.carry.begin_again()

    def functions_around(self) -> int:
        """How many functions of the program run now; 0: nobody needs to know."""
        return self.carry.functions()

    def skips(self, turns: Iterator[int], count: int) -> None:
        """This rank begins a loop in the midst of it: what stands around it goes on there, too."""
        go_on(turns, count)

    def meet(self) -> Position:
        """Where the job is; asked by a rank that joins, at its first loop. Collective."""
        assert self.joining is not None, "only ranks that join do not know where the job is"
        return self.joining.meet()

    def arrive(self) -> None:
        """This rank is where the job is: take its share of the data. Collective."""
        if self._copy is None:
            assert self.joining is not None, "who begins with the job is there"
            self.joining.arrive()
            if self.job.managed:
                self.watch.start()
        else:
            assert self.protector is not None, "copies are for protected jobs"
            try:
                self.protector.restore(self._copy)
            except ProtectionError as e:
                self.give_up(str(e))
            if self.succession is not None:
                self.succession.arrived()

    def length(self, level: int, count: float | None, *, items: bool) -> float | None:
        """See loops.Turns. After a restart items are as many as the program has by now."""
        told = self.job.lengths
        if level >= len(told) or told[level] == count:
            return count
        here, there = (
            f"{'no limit of' if n is None else format(n, 'g')} turns" for n in (count, told[level])
        )
        if self._copy is None:
            if items:
                raise LoopError(f"its loop is over a sequence of {here}, the job's of {there}")
            return told[level]
        kept = count if items else told[level]
        if self.rank == 0:
            say(f"a loop has {here} in the program and {there} in the copy")
        return kept

    def has_arrived(self) -> None:
        """It has its share. Collective with the end of a remap point of the others."""
        self.farms.arrived()
        self.remapped(stays=True)

    def turn_begins(self) -> None:
        """A turn is about to begin."""
        self.call_hooks()
        self.watch.turn_begins()
        if self._pacer is not None:
            self._pacer.begin_iteration()

    def turn_ends(self, elapsed_s: float, *, last: bool) -> None:
        """A turn is done. Retired in ranks that leave the job."""
        if self._pacer is not None:
            self._pacer.end_iteration()
        if self.recorder is not None:
            self.recorder.iteration_ends()
        points = self.points
        self.watch.remap_begins()
        if not points.due(elapsed_s, last=last):
            self.watch.remap_ends()
            return
        self.note_position()

        def act() -> bool:
            return points.make(last=last)

        self.remapped(stays=act() if self.in_place is None else self.in_place.remap_point(act))

    def loop_ends(self) -> None:
        """See loops.Turns."""
        self._end.loop_ends()

    def note_position(self) -> None:
        """At a remap point: the job is where this rank is."""
        self.job.loops, self.job.lengths = self.loops.position, self.loops.lengths

    def remapped(self, *, stays: bool) -> None:
        """A remap point is over, all data have moved. Retired in ranks that leave the job."""
        if not stays:
            raise self._end.retired()
        self.loops.agreed()
        self.watch.remap_ends()
        self.renew_ghosts()
        self.call_hooks()
        if self.recorder is not None:
            self.recorder.remap_ends()
        self.points.go_on()

    def renew_ghosts(self) -> None:
        """See Declaring."""
        raise NotImplementedError

    def call_hooks(self) -> None:
        """Build anew what does not fit the present communicator; collective."""
        if self.hooks.due:
            self.hooks.call()
            self.points.go_on()

    # --- tasks of a farm ------------------------------------------------------------------------

    def task_begins(self) -> None:
        """This rank begins one."""
        if self._pacer is not None:
            self._pacer.begin_iteration()

    def task_ends(self) -> None:
        """It has done it."""
        if self._pacer is not None:
            self._pacer.end_iteration()


def _plain(count: Any) -> float | None:
    """A number of turns as Python's own, which copies can keep."""
    if count is None or count == math.inf:
        return None
    return int(count) if isinstance(count, Integral) else float(count)
