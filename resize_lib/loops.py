"""The loops of an application, one after or inside the other, and where it is in them.

A loop is known by where it stands: it is the n-th that begins at its level, counted from the
program's begin, or from the begin of the iteration of the loop around it. So every rank counts
alike, and so does a rank that joins later and runs the program from its start: loops that the job
has left make no iteration there, a loop that the job is in begins at the job's iteration, and when
the innermost of those is reached the rank has come to where the others are. A name does not change
that: it is for messages, and for whoever measures (`label`). A call of a solver that is started
again after a resize (solver.py) and a task farm (taskfarm.py) are loops, too.

An iteration in which an inner loop has made remap points is none itself: the last iteration of the
inner one was, and times are those of innermost iterations.
"""

from __future__ import annotations

import time
import weakref
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from resize_lib.setup_calls import SetupCalls
from resize_lib.state.program import LoopItems

if TYPE_CHECKING:
    from resize_lib.runtime import Runtime

# The loops that are running, outermost first: the number of each at its level, and its iteration.
Position: TypeAlias = tuple[tuple[int, int], ...]
AWAITED: Position = ((-1, -1),)  # known once this rank has met the job (Runtime.meet)

# What a loop is: iterations of the program; the call of a solver, or a task farm, in which no loop
# may begin.
Kind: TypeAlias = Literal["iterations", "solve", "map"]


LEFT_MAX = 64  # loops that are remembered for messages


class LoopError(Exception):
    """This rank's loops are not those of the job: its program went another way."""


@dataclass(slots=True, eq=False)
class Loop:
    """One that is running. `iteration`: the one that is running or comes next."""

    number: int
    iteration: int = 0
    # Which iterations are of one kind, so that their times can be compared: the innermost name
    # around them, or else the number of the outermost loop.
    label: str = ""
    name: str = ""
    count: float | None = None  # of its iterations; None: not known
    kind: Kind = "iterations"
    begun_inside: int = 0  # loops, in this iteration
    points_inside: bool = False  # remap points, in this iteration
    functions: int = 0  # of the program, that run around it
    items: LoopItems | None = None  # what it is over
    iterator: weakref.ref[Iterator[int]] | None = None  # what `Loops.run` has returned


class Loops:
    """Of one process. `target`: where the job is, for a rank that has to get there.

    calls: hears which loops run.
    """

    def __init__(
        self, session: Runtime, target: Position | None, calls: SetupCalls | None = None
    ) -> None:
        self._session, self._target = session, target
        self._calls = calls or SetupCalls()
        self._nests: dict[tuple[int, int], bool] = {}  # level and number: has loops inside
        self._running: list[Loop] = []
        self._begun = 0  # loops of the outermost level
        self._latest = Loop(0)
        self._iterator: Iterator[int] | None = None  # of the loop that begins
        # Since the last remap point: what this rank has begun and left, as a checksum and in words.
        self._path = 0
        self._left: deque[tuple[Loop, int | None]] = deque(maxlen=LEFT_MAX)  # and outer one

    @property
    def position(self) -> Position:
        """Where this rank is; after an iteration: before the next."""
        return tuple((loop.number, loop.iteration) for loop in self._running)

    @property
    def arrived(self) -> bool:
        """Whether this rank is where the job is."""
        return self._target is None

    @property
    def lengths(self) -> tuple[float | None, ...]:
        """How many iterations the loops of `position` have."""
        return tuple(loop.count for loop in self._running)

    def checksum(self, *, end: bool) -> int:
        """Equal on all ranks that have made the same iterations since the last remap point.

        end: this rank makes no more, and may have left its loops in any way.
        """
        path = self._path
        for loop in [self._latest] if end else self._running:
            path = _with(path, loop)
        return path

    @property
    def made(self) -> list[str]:
        """What `checksum` is of, in words."""
        left = [
            _named([loop]) if outer is None else f"{_named([loop])} in iteration {outer} around it"
            for loop, outer in self._left
        ]
        running = self._running
        around = running if self._latest not in running else running[:-1]
        return [*left, _named([*around, self._latest])]

    def agreed(self) -> None:
        """All ranks are at the same remap point."""
        self._path = 0
        self._left.clear()

    def _note(self) -> None:
        """Another loop begins, or an outer iteration ends: keep the state of the loop before."""
        latest, around = self._latest, self._running[-1] if self._running else None
        self._path = _with(self._path, latest, len(self._running))
        if latest is not around and self._begun:
            self._left.append((latest, around.iteration if around else None))

    def meet(self) -> None:
        """Learn where the job is, if this rank has to get there; then collective with it."""
        if self._target is AWAITED:
            self._target = self._session.meet()

    def give_up(self) -> None:
        """This rank joins nobody: the job does without it."""
        self._target = None

    def check_arrived(self) -> None:
        """LoopError if this rank has passed by where the job is."""
        if self._target is AWAITED:
            raise LoopError("this rank was to join the job, and its program has begun no loop")
        if self._target is not None:
            raise LoopError(_MISSED.format(_shown(self._target)))

    @property
    def iteration(self) -> int:
        """Of the innermost loop that is running, or else of the one that ran last."""
        return self._latest.iteration

    @property
    def label(self) -> str:
        """Of the innermost loop that is running, or else of the one that ran last."""
        return self._latest.label

    @property
    def next_label(self) -> str:
        """Of the loop that begins next, if it has no name."""
        return self._running[-1].label if self._running else str(self._begun + 1)

    @property
    def next_place(self) -> str:
        """Of the loop that begins next; no other one has the same."""
        around = "".join(f"{loop.number + 1}.{loop.iteration}/" for loop in self._running)
        begun = self._running[-1].begun_inside if self._running else self._begun
        return f"{around}{begun + 1}"

    @property
    def innermost(self) -> Loop | None:
        """The innermost loop that is running."""
        return self._running[-1] if self._running else None

    @property
    def go_on(self) -> bool:
        """Whether the innermost loop has another iteration; True without a count."""
        loop = self.innermost
        if loop is None or loop.kind != "iterations":
            return False
        return loop.count is None or loop.iteration < loop.count

    @property
    def functions(self) -> int:
        """How many functions of the program run around the innermost loop."""
        return self._running[-1].functions if self._running else 0

    @property
    def iterators(self) -> list[Iterator[int]]:
        """What `run` has returned for the loops that are running."""
        found = [loop.iterator() for loop in self._running if loop.iterator is not None]
        return [iterator for iterator in found if iterator is not None]

    @property
    def items(self) -> list[LoopItems | None]:
        """What the loops that are running are over."""
        return [loop.items for loop in self._running]

    def can_go_back(self, position: Position) -> bool:
        """Whether only the iteration of the innermost loop lies between here and there."""
        here = self.position
        same = len(here) == len(position) > 0 and here[:-1] == position[:-1]
        return same and here[-1][0] == position[-1][0]

    def go_back(self, position: Position) -> tuple[Iterator[int] | None, int]:
        """Go on from there; `can_go_back`. Returns the iterator and how many iterations back."""
        loop = self._running[-1]
        count, loop.iteration = loop.iteration - position[-1][1], position[-1][1]
        return loop.iterator() if loop.iterator is not None else None, count

    def run(
        self, count: float | None, name: str = "", items: LoopItems | None = None
    ) -> Iterator[int]:
        """The iterations of a loop that begins here; endless without `count`."""
        itself: list[weakref.ref[Iterator[int]]] = []
        iterations = self._iterations(count, name, items, itself)
        itself.append(weakref.ref(iterations))
        return iterations

    def _iterations(
        self,
        count: float | None,
        name: str,
        items: LoopItems | None,
        itself: list[weakref.ref[Iterator[int]]],
    ) -> Iterator[int]:
        self._iterator = itself[0]()
        with self.inside(name, count, items=items) as loop:
            if loop is None:
                return
            around, session, calls = self._running[:-1], self._session, self._calls
            level, nested = len(around), True
            while loop.count is None or loop.iteration < loop.count:
                self._is_innermost(around, loop)
                loop.begun_inside, loop.points_inside = 0, False
                nests = self._nests.get((level, loop.number), True)
                if nests or nested:
                    calls.iteration_begins(level + 1, nests=nests)
                    nested = nests
                if self._target is None:
                    session.iteration_begins()
                begin_s = time.perf_counter()
                yield loop.iteration
                elapsed_s = time.perf_counter() - begin_s
                if loop.begun_inside:
                    self._note()
                elif nested:
                    self._nests.setdefault((level, loop.number), False)
                self._is_innermost(around, loop)
                if self._target is not None:
                    self.check_arrived()
                loop.iteration += 1
                if loop.points_inside:
                    continue
                for outer in around:
                    outer.points_inside = True
                last = not around and loop.count is not None and loop.iteration >= loop.count
                session.iteration_ends(elapsed_s, last=last)

    @contextmanager
    def inside(
        self,
        name: str = "",
        count: float | None = None,
        *,
        kind: Kind = "iterations",
        items: LoopItems | None = None,
    ) -> Iterator[Loop | None]:
        """The loop that begins here, while it is the innermost; None if the job has left it."""
        if not self._begun:
            self._session.first_loop()
        elif not self._running:
            self._session.later_loop()
        iterator, self._iterator = self._iterator, None
        loop, around = self._begin(name, count, kind, items, iterator), list(self._running)
        if loop is not None and iterator is not None:
            loop.iterator, loop.items = weakref.ref(iterator), items
        del iterator
        if loop is None:
            yield None
            return
        ended = False
        try:
            self._running.append(loop)
            self._latest = loop
            self._calls.loop_begins(len(self._running))
            yield loop
            ended = True
        except GeneratorExit:  # by `break`
            ended = True
            raise
        finally:
            # Those around only: one inside that was left by `break` may not have heard of it yet.
            self._running[:] = around
            self._calls.loop_ends(len(around))
            if ended and not around and self.arrived:
                self._session.loop_ends()

    def running(self, loop: Loop | None, iteration: int) -> bool:
        """Whether that iteration of this loop goes on; None (outside all loops): always True."""
        return loop is None or (loop in self._running and loop.iteration == iteration)

    def point_is_inside(self) -> None:
        """The remap point that comes is none of the iterations around the innermost loop."""
        for outer in self._running[:-1]:
            outer.points_inside = True

    def _is_innermost(self, around: list[Loop], loop: Loop) -> None:
        # A loop inside that was left by `break` may not have heard of it yet.
        self._running[:] = [*around, loop]
        self._latest = loop

    def _begin(
        self,
        name: str,
        count: float | None,
        kind: Kind,
        items: LoopItems | None,
        iterator: Iterator[int] | None,
    ) -> Loop | None:
        """The loop that begins here; None if the job has left it already."""
        label = name or self.next_label
        level = len(self._running)
        if level and (outer := self._running[-1]).kind != "iterations":
            raise LoopError(_INSIDE[outer.kind])
        self._note()
        if level:
            number = self._running[-1].begun_inside
            self._nests[level - 1, self._running[-1].number] = True
            self._running[-1].begun_inside += 1
        else:
            number = self._begun
            self._begun += 1
        self.meet()
        target = self._target
        if target is None:
            return self._loop(number, 0, label, name, count, kind)
        if level >= len(target) or number > target[level][0]:
            self.check_arrived()
        if number < target[level][0]:
            return None
        # The program may have computed its own from values that are still to come.
        length = self._session.length(level, count, items)
        loop = self._loop(number, target[level][1], label, name, length, kind)
        loop.items = items
        loop.iterator = weakref.ref(iterator) if iterator is not None else None
        if loop.iteration and iterator is not None:
            self._session.skips(iterator, loop.iteration)
        if level == len(target) - 1:
            self._running.append(loop)
            try:
                self._session.arrive()
            finally:
                self._running.pop()
            self._target = None
            for outer in self._running:
                outer.points_inside = True  # the one where this rank was taken in
            self._session.has_arrived()
        return loop

    def _loop(
        self, number: int, iteration: int, label: str, name: str, count: float | None, kind: Kind
    ) -> Loop:
        functions = self._session.functions_around()
        return Loop(number, iteration, label, name, count, kind, functions=functions)


def _shown(position: Position) -> str:
    told = (f"iteration {iteration} of loop {number + 1}" for number, iteration in position)
    return ", in it ".join(told)


def _with(path: int, loop: Loop, level: int = 0) -> int:
    """The checksum with a loop's position. Cheap: inner loops may begin in every iteration."""
    count = -1 if loop.count is None else loop.count
    path = zlib.crc32(b"%d %d %d %d" % (level, loop.number, loop.iteration, count), path)
    return zlib.crc32(loop.name.encode(), path) if loop.name else path


def _named(loops: list[Loop]) -> str:
    shown = []
    for at in loops:
        count = "" if at.count is None else f" of {at.count}"
        name = f" {at.name!r}" if at.name else ""
        shown.append(f"iteration {at.iteration}{count} of loop {at.number + 1}{name}")
    return ", in it ".join(shown)


_INSIDE = {
    "solve": "no loop of remap points may begin inside of rs.solve: call rs.remap() there, or run"
    " the loop without rs.solve",
    "map": "a task of rs.map may not begin a loop of remap points: only one rank does the task",
}
_MISSED = (
    "this rank was to join the job in {}, and its program does not come there: which loops run must"
    " not depend on what only the ranks that were there before can know"
)
