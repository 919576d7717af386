"""The session: what an application links against.

    with resize_lib.session() as rs:
        A = rs.matrix("A", n, n, block=64, init=fill)
        for step in rs.iterations(100):  # the end of an iteration may be a remap point
            work(rs.grid, A)

A rank that joins runs the same program from its start, alone, and enters the loop at the iteration
of the job. Rules for the application:

* All ranks declare the same data before the loop.
* Before the loop and between loops a rank that joins repeats the results of `bcast`, `allreduce`,
  `allgather` and `barrier` (setup_calls.py); other communication belongs in `@rs.setup`.
* Variables that the loop changes alike on every rank travel to a rank that joins (state/carry.py).
* `rs.rank`, `rs.size`, `rs.grid` and every `local` may differ in each iteration. `rs.comm` and
  `MPI.COMM_WORLD` are the job's communicator at any time (world.py).
* Loops may follow one another and nest (loops.py).

Only the ranks that are in the job at the end of the loop continue after it. Without a DQ server the
same program is a plain MPI program.
"""

from __future__ import annotations

import math
import reprlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from numbers import Integral, Real
from types import TracebackType
from typing import Any, TypeVar, overload

from mpi4py import MPI

from dq_client.base import messages as m
from resize_lib.declaring import Declaring
from resize_lib.emulation import pacing
from resize_lib.grid import Grid
from resize_lib.on_resize import Hook
from resize_lib.processes import idle_bcast
from resize_lib.runtime import Runtime
from resize_lib.session_options import Options
from resize_lib.state.program import LoopItems

Task = TypeVar("Task")
Result = TypeVar("Result")
Item = TypeVar("Item")


class Session(Declaring):
    """The connection of a program to DQ; one per program, made by `resize_lib.session()`.

    A resize changes the attributes `comm`, `grid`, `rank` and `size`.

    Methods are collective: all ranks call them alike. Attributes and `compute` are not.

    connect: opens the connection to whatever decides on resizes; called in every process that
    becomes rank 0, when it is first needed. Default: the DQ server that launched the program, if
    one did.
    legal: the sizes that the program can run on (legal.py): the server orders no other; default:
    any.
    report_interval_s: seconds between remap points; with 0 every iteration is one; default:
    DQ_REPORT_INTERVAL in the environment, or else pace.REPORT_S (docs/programs.md).
    """

    def __init__(self, **options: Any) -> None:
        self._session = Runtime(self, Options.of(**options))

    def __repr__(self) -> str:
        session, grid = self._session, self.grid
        names = ", ".join([*session.declared, *session.values]) or "nothing"
        return f"<Session: rank {grid.rank} of {grid.size}, {grid.shape} grid, declares {names}>"

    @property
    def comm(self) -> MPI.Intracomm:
        """The job's communicator: one object, which always stands for the present communicator.

        `comm = rs.comm` may be kept. Ranks, sizes and communicators taken from it (Split, Dup,
        Create_cart) may not; make them in a function marked @rs.setup. Not collective.
        """
        return self._session.comm

    @property
    def grid(self) -> Grid:
        """The process grid now."""
        return self._session.grid

    @property
    def rank(self) -> int:
        """This process's rank now."""
        return self._session.rank

    @property
    def size(self) -> int:
        """Number of ranks now."""
        return self._session.size

    @property
    def places(self) -> Sequence[m.RankPlace]:
        """Where each rank runs; without a DQ server equal places of this machine."""
        return self._session.places

    @property
    def spawned(self) -> bool:
        """Whether this rank joined the running job."""
        return self._session.spawned

    def compute(self) -> AbstractContextManager[None]:
        """Mark a stretch of computing, for clusters that are emulated (see pacing)."""
        return pacing.compute()

    # --- loops: docs/programs.md shows each in a program ----------------------------------

    @property
    def step(self) -> int:
        """The iteration of the innermost loop that is running or comes next."""
        return self._session.loops.iteration

    @overload
    def iterations(self, count: float | None = None, name: str = "") -> Iterator[int]: ...

    @overload
    def iterations(self, count: Sequence[Item], name: str = "") -> Iterator[Item]: ...

    def iterations(self, count: Any = None, name: str = "") -> Iterator[Any]:
        """Iterations of a loop; the end of each may be a remap point.

        count: how many, numbered from 0; or a sequence, `range(0, n, 8)` or a list that is the same
            on every rank, whose items the iterations get. Endless without: leave it by `break`, on
            all ranks in the same iteration. A rank that joins starts at the iteration that the job
            has reached (see loops.py).
        name: iterations of loops with different names are measured apart, and those of outermost
            loops without one; a loop in another belongs to that one unless it has its own name.

        Raises:
            TypeError: `count` is neither: an iterator, for example, would begin anew where ranks
                join.
        """
        if count is None or isinstance(count, Real):  # of numpy, too
            return self._session.loops.run(_plain(count), name, LoopItems(None, sys._getframe(1)))
        if isinstance(count, Mapping) or not hasattr(count, "__getitem__"):
            raise TypeError(
                f"rs.iterations({reprlib.repr(count)}): give a number of iterations, or a sequence"
                " such as range(0, n, 8) or a list; a rank that joins begins in the midst of it"
            )
        # No generator of our own: who calls next() is looked up by frames.
        items = LoopItems(count, sys._getframe(1))
        return map(items.item, self._session.loops.run(len(count), name, items))

    def solve(self, call: Callable[[], Any], name: str = "") -> None:
        """Call a solver, whose callback calls `rs.remap()`; collective.

        call: has no arguments, begins from declared data and stores its result there. At a resize
        an exception (`Resized`, no Exception) ends it wherever `rs.remap()` was called, and it is
        called again on the new ranks.

        Raises:
            LoopError: `call` begins a loop of remap points, or the program of a joining rank does
                not come to the same call.
        """
        self._session.solver.solve(call, name)

    def remap(self) -> None:
        """A remap point as a plain call, from within what `rs.solve` has called; collective.

        Does not return if the job has been resized, or if this rank leaves. Outside of `rs.solve`
        it does nothing; there the end of an iteration of `rs.iterations` is the remap point.
        """
        self._session.solver.remap()

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
            ValueError: if the ranks have different numbers of tasks.
        """
        return self._session.farms.map(function, tasks, name)

    def on_resize(self, function: Hook) -> Hook:
        """Declare what is built anew for each communicator; a decorator.

        `function(comm)` is called on all ranks, several in the order of their declarations: at the
        first iteration, and after every resize, on ranks that have joined as well. It may
        communicate. It is not timed. Declare it before the loop; call nothing of it yourself.
        """
        return self._session.hooks.declare(function, "on_resize")

    def setup(self, function: Hook) -> Hook:
        """Declare a part of the set-up that is made again for each communicator; a decorator.

        `function(comm)` is called at once, and on all ranks after every resize, in the order of the
        declarations; a rank that joins calls it when it comes to the job's iteration, not before.
        The function may communicate in any way, and store results in objects or in names bound by
        `global` or `nonlocal`; its return value is ignored, and it is not timed.
        """
        return self._session.hooks.declare(function, "setup")

    # --- evolving -------------------------------------------------------------------------------

    @property
    def processors(self) -> tuple[int, ...]:
        """The server's numbers of the job's processors: rank r runs on processors[r]."""
        return tuple(self._session.job.processors)

    @property
    def asked(self) -> m.DynamicAnswer | None:
        """The state of the pending request or release, updated at every remap point.

        A rejected one stays until the next is made; None once it is carried out or given up.
        """
        return self._session.job.asked

    def request(self, more: int, *, timeout_s: float = 0.0) -> m.DynamicAnswer:
        """Ask for `more` processors; ranks join at a coming remap point. Collective, in the loop.

        The answer's `what`: "granted"; "rejected" (a new request may be made at any time);
        "waiting" for up to `timeout_s` (watch `asked`). `reason` gives the cause,
        `available_in_s` the expected time until the processors are there. One request or
        release can be pending at a time. The job must be of the kind evolving.
        """
        if more < 1 or not timeout_s >= 0:
            raise ValueError(
                f"request({more}, timeout_s={timeout_s}): one processor or more, 0 s or more"
            )
        return self._ask(m.DynamicRequest(self._next_request(), more, timeout_s))

    def release(self, which: int | Iterable[int]) -> m.DynamicAnswer:
        """Give processors back at the next remap point. Collective, in the loop.

        which: how many (the last ones leave), or their numbers, any subset of `processors`.
        """
        named = [] if isinstance(which, int) else list(which)
        count = which if isinstance(which, int) else len(named)
        if count < 1 or not set(named) <= set(self.processors):
            raise ValueError(f"release({which}): one or more of the processors {self.processors}")
        return self._ask(m.DynamicRelease(self._next_request(), count, named))

    def _next_request(self) -> int:
        self._session.job.request += 1
        return self._session.job.request

    def _ask(self, body: m.DynamicRequest | m.DynamicRelease) -> m.DynamicAnswer:
        answer = None
        if self.rank == 0:
            if self._session.job.managed:
                answer = self._session.server().ask(body)
            else:
                why = "the program does not run under a DQ server"
                answer = m.DynamicAnswer(request=body.request, what="rejected", more=0, reason=why)
        told: m.DynamicAnswer = idle_bcast(self.comm, answer)
        if told.what != "rejected" or not self._session.asks:
            self._session.job.asked = told
        self._session.points.soon()
        return told

    # --- end --------------------------------------------------------------------------------

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._session.leave(error)


def _plain(count: Any) -> float | None:
    """A number of iterations as Python's own, which copies can keep."""
    if count is None or count == math.inf:
        return None
    return int(count) if isinstance(count, Integral) else float(count)
