"""The session: what an application links against.

    with resize_lib.session() as rs:
        A = rs.matrix("A", n, n, block=64, init=fill)
        for step in rs.iterations(100):     # remap point at the end of each turn
            work(rs.grid, A)

Rules for the application. Ranks that join later run the same program from its start: what stands
before the loop must not communicate, and must declare the same data. After the loop only the ranks
that are in the job then go on. Inside the loop, `rs.comm`, `rs.grid` and every `local` may differ
from turn to turn, nothing else does. Loops may follow one another and nest (loops.py): what stands
between them, up to the turn that the job has reached, counts as before the loop in ranks that join.
Without a DQ server the same program is a plain MPI program.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike

from dq_client import messages as m
from resize_lib.declarations import Array, Init1D, Init2D, Matrix, Parcel, Value, Weights, weighted
from resize_lib.descriptors import (
    Block1D,
    BlockCyclic,
    Custom,
    Cyclic1D,
    DescriptorError,
    Pack,
    Unpack,
)
from resize_lib.emulation import pacing
from resize_lib.emulation.node import Emulation, LinkRate
from resize_lib.grid import Grid
from resize_lib.loops import Loops
from resize_lib.processes import choose_backend, idle_barrier, idle_bcast
from resize_lib.protection.state import ProtectionError
from resize_lib.redistribution import Arena
from resize_lib.resize import JobPosition, Step, advise, carry_out, join
from resize_lib.server_link import ServerLink, say
from resize_lib.session_end import SessionEnd, mark_presence
from resize_lib.waiting import wait_all

if TYPE_CHECKING:
    from resize_lib.protection.generations import Copy
    from resize_lib.protection.protector import Protector
    from resize_lib.recovery_in_place import InPlace

T = TypeVar("T")

# While new ranks start, poll for them at most every QUIET_S: each poll is a collective that waits
# for the slowest rank, and while few cores both start ranks and compute, some rank is always slow.
QUIET_S = 0.05
QUIET_TURNS_MAX = 10


class Session:
    """One per program. Attributes that change at a resize: `comm`, `grid`, `rank`, `size`.

    checksums, max_extra_bytes: see `redistribution.redistribute`. connect: opens the connection to
    whatever decides on resizes; called in every process that becomes rank 0, when it is first
    needed. Default: the DQ server that launched the program, if one did.
    """

    def __init__(
        self,
        *,
        checksums: bool = False,
        max_extra_bytes: int | None = None,
        connect: Callable[[], ServerLink] | None = None,
    ) -> None:
        mark = mark_presence()
        self.backend = choose_backend()
        self.arena = Arena()
        self.checksums, self.max_extra_bytes = checksums, max_extra_bytes
        self.declared: dict[str, Matrix | Array | Parcel] = {}
        self.values: dict[str, Value[Any]] = {}
        if connect is None and ServerLink.configured():
            connect = ServerLink.from_environment
            ServerLink.load()  # any rank may become rank 0, and others wait then
        self._connect = connect
        self.link: ServerLink | None = None
        self.spawned = self.backend.spawned  # this rank joined a running job
        comm = self.backend.start(self.arena.reserve)
        self.job: JobPosition = idle_bcast(comm) if self.spawned else self._first_state(comm)
        places = self.job.places
        mine = places[comm.rank] if places else None
        self.emulation = Emulation.on(mine, self.job.link)
        self._pacer = self.emulation.pacer if self.emulation is not None else None
        self.grid = self.make_grid(comm)
        self.protector = self._protector()
        self._copy = None if self.spawned else self._restart(comm)
        # Until it has its share of the data.
        joining = self.spawned or self._copy is not None
        self.loops = Loops(self, self.job.loops if joining else None)
        self._turns = self._quiet_turns = 0  # since the last remap point; without one
        self.granted = 0  # the last resize that the server spoke of, carried out or not
        self._in_place = self._recovery()
        self._end = SessionEnd(self, mark)

    def _first_state(self, comm: MPI.Intracomm) -> JobPosition:
        """The job's state at its start: grid and places from the server, or a grid from MPI."""
        rows, cols = sorted(MPI.Compute_dims(comm.size, 2))
        state = JobPosition(rows, cols)
        if comm.rank == 0 and self._connect is not None:
            self.link = self._connect()
            welcome = self.link.hello(comm.size)
            if welcome is not None and welcome.rows * welcome.cols == comm.size:
                state = JobPosition(welcome.rows, welcome.cols, welcome.places, managed=True)
                if welcome.link_mbit is not None:
                    latency_us = welcome.link_latency_us or 0.0
                    duplex = welcome.link_duplex
                    state.link = LinkRate(welcome.link_mbit, latency_us, duplex)
        found: JobPosition = idle_bcast(comm, state)
        return found

    def _protector(self) -> Protector | None:
        """As the launch said; None if the job is not protected."""
        if not os.environ.get("DQ_PROTECT"):
            return None
        from resize_lib.protection.protector import Protector  # most jobs do without

        return Protector(self)

    def _recovery(self) -> InPlace | None:
        """For jobs that can go on without ranks that they have lost."""
        if self.protector is None:
            return None
        from resize_lib.recovery_in_place import in_place

        return in_place(self)

    def _restart(self, comm: MPI.Intracomm) -> Copy | None:
        """The copy of its data from which an interrupted job goes on; collective."""
        if self.protector is None:
            return None
        try:
            copy = self.protector.begin(comm)
        except ProtectionError as e:
            self._give_up(str(e))
        if copy is not None:
            self.job.loops = copy.loops
        return copy

    def _give_up(self, why: str) -> NoReturn:
        """Abort the job with a reason for its owner; called on all ranks."""
        if self.rank == 0:
            say(why)
            self.server().report(m.GaveUp(why[:4000]))
        idle_barrier(self.comm)
        self.backend.abort(1)

    def make_grid(self, comm: MPI.Intracomm) -> Grid:
        """The present process grid on `comm` (collective); emulated where the nodes are."""
        job = self.job
        if self.emulation is None:
            return Grid(comm, job.rows, job.cols)
        return self.emulation.grid(comm, job.rows, job.cols, job.places)

    # --- what the application sees ----------------------------------------------------------

    @property
    def comm(self) -> MPI.Intracomm:
        """The job's communicator now."""
        return self.grid.comm

    @property
    def rank(self) -> int:
        """This process's rank now."""
        return self.grid.rank

    @property
    def size(self) -> int:
        """Number of ranks now."""
        return self.grid.size

    @property
    def places(self) -> Sequence[m.Place]:
        """Where each rank runs; without a DQ server equal places of this machine."""
        job = self.job
        return job.places or [m.Place(r, "", "") for r in range(job.rows * job.cols)]

    @property
    def step(self) -> int:
        """The turn of the innermost loop that is running or comes next."""
        return self.loops.turn

    def matrix(
        self,
        name: str,
        m_: int,
        n: int,
        *,
        block: int | tuple[int, int] = 64,
        init: Init2D | float = 0.0,
        dtype: DTypeLike = np.float64,
    ) -> Matrix:
        """Declare an `m_` x `n` matrix, block-cyclic in `block` (square, or rows by columns).

        `init`: a number, or a function of global row indices (k x 1) and column indices (1 x l)
        that returns the k x l values.
        """
        mb, nb = (block, block) if isinstance(block, int) else block
        matrix = Matrix(self, self._fresh(name), BlockCyclic(m_, n, mb, nb), dtype)
        if self.loops.arrived:
            matrix.initialise(init)
        self.declared[name] = matrix
        return matrix

    def array(
        self,
        name: str,
        n: int,
        trailing: tuple[int, ...] = (),
        *,
        layout: Literal["block", "cyclic", "weighted"] = "block",
        block: int = 1,
        weights: Weights = (),
        init: Init1D | float = 0.0,
        dtype: DTypeLike = np.float64,
    ) -> Array:
        """Declare an array of `n` items (each of shape `trailing`), its first axis distributed.

        `init`: a number, or a function of the global indices that returns their items.
        `weights` of a weighted layout: one number for each rank 0, 1, ... of the largest size the
        job may have, or a function of the ranks' places (with their `processor`, `node`, `speed`)
        that returns one number each, the same on every rank; without, the speeds of the nodes.
        """
        if layout == "weighted":
            array = Array(self, self._fresh(name), weighted(n, trailing, weights), dtype)
        elif layout in ("block", "cyclic"):
            desc = Block1D(n, trailing) if layout == "block" else Cyclic1D(n, block, trailing)
            array = Array(self, self._fresh(name), lambda _: desc, dtype)
        else:
            raise DescriptorError(f"unknown layout {layout!r}; known: block, cyclic, weighted")
        if self.loops.arrived:
            array.initialise(init)
        self.declared[name] = array
        return array

    def value(self, name: str, value: T) -> Value[T]:
        """Declare a Python value that is the same on all ranks; joining ranks get rank 0's."""
        held = Value(self._fresh(name), value)
        self.values[name] = held
        return held

    def parcel(self, name: str, value: Any, pack: Pack, unpack: Unpack) -> Parcel:
        """Declare data that `pack` cuts and `unpack` joins (see descriptors.Custom)."""
        parcel = Parcel(self._fresh(name), Custom(pack, unpack, name), value)
        self.declared[name] = parcel
        return parcel

    def _fresh(self, name: str) -> str:
        if name in self.declared or name in self.values:
            raise DescriptorError(f"{name!r} is declared twice: names must differ")
        return name

    def compute(self) -> AbstractContextManager[None]:
        """Mark a stretch of computing, for clusters that are emulated (see pacing)."""
        return pacing.compute()

    def iterations(self, count: int | None = None) -> Iterator[int]:
        """Turns of a loop, with a remap point at the end of each; endless without `count`.

        A rank that joins starts at the turn that the job has reached (see loops.py).
        """
        return self.loops.run(count)

    def arrive(self) -> None:
        """See loops.Turns."""
        if self._copy is None:
            join(self)
        else:
            self._restore(self._copy)

    def turn_begins(self) -> None:
        """See loops.Turns."""
        if self._pacer is not None:
            self._pacer.begin_iteration()

    def turn_ends(self, elapsed_s: float, *, last: bool) -> None:
        """See loops.Turns. Retired in ranks that leave the job."""
        if self._pacer is not None:
            self._pacer.end_iteration()
        self.job.loops = self.loops.position
        if not self.job.managed:
            return
        act = partial(self._remap_point, elapsed_s, last=last)
        stays = act() if self._in_place is None else self._in_place.remap_point(act)
        if not stays:
            raise self._end.retired()

    def _restore(self, copy: Copy) -> None:
        assert self.protector is not None, "copies are for protected jobs"
        try:
            self.protector.restore(copy)
        except ProtectionError as e:
            self._give_up(str(e))

    # --- evolving -------------------------------------------------------------------------------

    @property
    def processors(self) -> tuple[int, ...]:
        """The server's numbers of the job's processors: rank r runs on processors[r]."""
        return tuple(self.job.processors)

    @property
    def asked(self) -> m.DynamicAnswer | None:
        """The state of the pending request or release, updated at every remap point.

        A rejected one stays until the next is made; None once it is carried out or given up.
        """
        return self.job.asked

    def request(self, more: int, *, timeout_s: float = 0.0) -> m.DynamicAnswer:
        """Ask for `more` processors; ranks join at a coming remap point. Collective, in the loop.

        The answer's `what`: "granted"; "rejected" (a new request may be made at any time);
        "waiting" for up to `timeout_s` (watch `asked`). `reason` says why, `available_in_s` when
        the processors are expected to be there. One request or release can be pending at a time.
        The job must be of the kind evolving.
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
        self.job.request += 1
        return self.job.request

    def _ask(self, body: m.DynamicRequest | m.DynamicRelease) -> m.DynamicAnswer:
        answer = None
        if self.rank == 0:
            if self.job.managed:
                answer = self.server().ask(body)
            else:
                why = "the program does not run under a DQ server"
                answer = m.DynamicAnswer(request=body.request, what="rejected", more=0, reason=why)
        told: m.DynamicAnswer = idle_bcast(self.comm, answer)
        if told.what != "rejected" or not self._pending():
            self.job.asked = told
        return told

    def _pending(self) -> bool:
        """Whether a request or release is still to be decided or carried out."""
        asked = self.job.asked
        return asked is not None and asked.what != "rejected"

    # --- remap points -----------------------------------------------------------------------

    def _remap_point(self, elapsed_s: float, *, last: bool) -> bool:
        """Report the iteration, and do what the server says. Collective. False: this rank leaves.

        A rank may be lost meanwhile: then every wait here ends with RankLost.
        """
        self._turns += 1
        if self._turns <= self._quiet_turns and not last:
            return True
        slowest = self._slowest(elapsed_s)
        job = self.job
        job.seq += 1
        told: tuple[m.RemapAnswer, Step, bool, int] | None = None
        if self.rank == 0:
            preparing = job.expanding.resize_id if job.expanding is not None else 0
            point = m.RemapPoint(
                seq=job.seq,
                processors=self.size,
                resize_id=job.resize_id,
                iteration_time_s=slowest,
                redistribution_time_s=job.redistribution_s,
                step=self.step,
                preparing=preparing,
                iterations=self._turns,
            )
            answer, step = advise(self, self.server().remap(point), slowest, last=last)
            moves = step in (Step.COMPLETE, Step.EXPAND, Step.SHRINK)
            due = self.protector is not None and not last and self.protector.due(resizing=moves)
            told = answer, step, due, self._quiet(step, slowest)
        told = idle_bcast(self.comm, told)
        assert told is not None
        answer, step, due, self._quiet_turns = told
        self._turns = 0
        self.granted = answer.resize_id or self.granted
        if self.protector is not None:
            self.protector.remap_point(make=due)
        job.redistribution_s = 0.0
        known, stands = job.asked, answer.asked
        if known is not None and stands is not None and stands.request == known.request:
            job.asked = stands
        settles = step not in (Step.CONTINUE, Step.BEGIN)
        if settles and self._pending():
            job.asked = None  # joining ranks hear of it, too
        return carry_out(self, answer, step)

    def _quiet(self, step: Step, iteration_s: float) -> int:
        """For how many turns no rank polls for the new ones (see QUIET_S)."""
        begun = step is Step.BEGIN or (step is Step.CONTINUE and self.job.expanding is not None)
        if not begun or self.protector is not None:
            return 0
        return min(QUIET_TURNS_MAX, int(QUIET_S / max(iteration_s, 1e-9)))

    def _slowest(self, elapsed_s: float) -> float:
        """The longest time any rank took (collective)."""
        value = np.array([elapsed_s])
        requests = [self.comm.Iallreduce(MPI.IN_PLACE, value, MPI.MAX)]
        if self._in_place is not None:
            wait_all(requests)  # a grid's ranks may block where nothing but MPI can wake them
        self.grid.wait(requests)
        return float(value[0])

    def server(self) -> ServerLink:
        """Rank 0's connection to the server; a process that becomes rank 0 opens one."""
        if self.link is None:
            assert self._connect is not None, "only a managed job asks"
            self.link = self._connect()
        return self.link

    # --- end --------------------------------------------------------------------------------

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._end.leave(error)
