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

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from mpi4py import MPI

from dq_client.base import messages as m
from resize_lib import world
from resize_lib.declared.packed import Packed, Value
from resize_lib.declaring import Declaring, Dense
from resize_lib.emulation import pacing
from resize_lib.emulation.node import Emulation
from resize_lib.grid import Grid
from resize_lib.job_comm import JobComm, follow
from resize_lib.joining import Joining, first_state
from resize_lib.legal import check_size
from resize_lib.loops import Loops
from resize_lib.on_resize import OnResize
from resize_lib.processes import choose_backend, idle_barrier, idle_bcast
from resize_lib.protection import protector_of, recovery_of
from resize_lib.protection.state import ProtectionError
from resize_lib.recording import recorder_of
from resize_lib.redistribution import Arena
from resize_lib.redistribution.handshake import know_this_process
from resize_lib.remap_point import RemapPoints
from resize_lib.resize import JobPosition
from resize_lib.server_link import ServerLink, say
from resize_lib.session_end import SessionEnd, mark_presence
from resize_lib.session_options import Options
from resize_lib.setup_calls import CALLS
from resize_lib.solver import Solver
from resize_lib.stale_parts import StaleParts
from resize_lib.state.carry import Carry
from resize_lib.state.copies import Copies
from resize_lib.succession import succession_of
from resize_lib.taskfarm import Farms
from resize_lib.turns import TurnMethods
from resize_lib.watch import Watch

if TYPE_CHECKING:
    from resize_lib.protection.generations import Copy


class Session(Declaring, TurnMethods):
    """The connection of a program to DQ; one per program, made by `resize_lib.session()`.

    A resize changes the attributes `comm`, `grid`, `rank` and `size`.

    checksums, max_extra_bytes: see `redistribution.redistribute`. connect: opens the connection to
    whatever decides on resizes; called in every process that becomes rank 0, when it is first
    needed. Default: the DQ server that launched the program, if one did. legal: the sizes that the
    program can run on (legal.py): the server orders no other; default: any.
    report_interval_s: seconds between remap points; with 0 every iteration is one; default:
    DQ_REPORT_INTERVAL in the environment, or else pace.REPORT_S (docs/programs.md).
    """

    def __init__(self, **options: Any) -> None:
        self.options = Options.of(**options)
        world.install()
        mark = mark_presence()
        know_this_process()
        self.backend = choose_backend()
        self.arena = Arena()
        self.declared: dict[str, Dense | Packed] = {}
        self.values: dict[str, Value[Any]] = {}
        self.legal_sizes = self.options.legal
        self.ended = False  # by the end of a `with` block
        self._comm: MPI.Intracomm = JobComm()
        self.link: ServerLink | None = None
        self.spawned = self.backend.spawned  # this rank joined a running job
        self.watch = Watch(lambda: self.grid.rank)
        self.joining = Joining(self) if self.spawned else None
        if self.joining is None:
            CALLS.start()
        else:
            CALLS.joins(lambda: self.loops.meet())
        self.job: JobPosition
        if self.joining is None:
            comm = self.backend.start(self.arena.reserve)
            rank, self.job = comm.rank, first_state(self, comm)
        else:
            rank, self.job = self.joining.begin()
        places = self.job.places
        mine = places[rank] if places else None
        self.emulation = Emulation.on(mine, self.job.link)
        self._pacer = self.emulation.pacer if self.emulation is not None else None
        self.grid = self.joining.grid(rank) if self.joining else self.make_grid(comm)
        check_size(self)
        self.protector = protector_of(self)
        self.succession = succession_of(self)
        self._copy = None if self.spawned else self._restart(comm)
        # Until it has its share of the data.
        target = self.job.loops if self._copy is not None else None
        self.loops = Loops(self, self.joining.target() if self.joining else target, CALLS)
        self.hooks, self.solver, self.farms = OnResize(self), Solver(self), Farms(self)
        self.points = RemapPoints(self, self.options.report_interval_s)
        self.carry = Carry(self)
        self.copies = Copies(self, self.carry)
        self.in_place = recovery_of(self)
        self.recorder = recorder_of(self)
        self._end = SessionEnd(self, mark)
        self.stale = StaleParts(self._end.give_up)
        if self.joining is None and self.job.managed:
            self.watch.start()
        if not self.spawned and not (self.backend.can_resize and self.points.active):
            CALLS.stop()

    def set_options(self, options: Options) -> None:
        """The program opens the session, which a rank that joins has needed before."""
        self.options, self.legal_sizes = options, options.legal
        self.points.interval_s = options.report_interval_s
        check_size(self)

    def _restart(self, comm: MPI.Intracomm) -> Copy | None:
        """The copy of its data from which an interrupted job goes on; collective."""
        if self.protector is None:
            return None
        try:
            copy = self.protector.begin(comm)
        except ProtectionError as e:
            self.give_up(str(e))
        if copy is not None:
            self.job.loops, self.job.lengths = copy.loops, copy.lengths
        return copy

    def give_up(self, why: str) -> NoReturn:
        """Abort the job with a reason for its owner; called on all ranks."""
        if self.rank == 0:
            say(why)
            self.server().report(m.GaveUp(why[:4000]))
        idle_barrier(self.grid.own_comm)  # ranks may have begun different things on the other
        self.backend.abort(1)

    def make_grid(self, comm: MPI.Intracomm) -> Grid:
        """The present process grid on `comm` (collective); emulated where the nodes are."""
        job = self.job
        if job.managed:
            self.watch.prepare(comm)
        if self.emulation is None:
            return Grid(comm, job.rows, job.cols)
        return self.emulation.grid(comm, job.rows, job.cols, job.places)

    # --- what the application sees ----------------------------------------------------------

    @property
    def comm(self) -> MPI.Intracomm:
        """The job's communicator: one object, which always stands for the present communicator.

        `comm = rs.comm` may be kept. Ranks, sizes and communicators taken from it (Split, Dup,
        Create_cart) may not; make them in a function marked @rs.setup. Not collective.
        """
        return self._comm

    @property
    def grid(self) -> Grid:
        """The process grid now."""
        return self._grid

    @grid.setter
    def grid(self, grid: Grid) -> None:
        if self.spawned or hasattr(self, "_grid"):  # until a resize COMM_WORLD stays as it is
            world.follow_job(grid.comm)
        self._grid = grid
        follow(self._comm, grid.comm)

    @property
    def arriving(self) -> bool:
        """Whether this rank joins and has not reached the job's loop, so it has no data yet."""
        return self.spawned and not self.loops.arrived

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

    def compute(self) -> AbstractContextManager[None]:
        """Mark a stretch of computing, for clusters that are emulated (see pacing)."""
        return pacing.compute()

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
        if told.what != "rejected" or not self.asks:
            self.job.asked = told
        self.points.soon()
        return told

    @property
    def asks(self) -> bool:
        """Whether a request or release is still to be decided or carried out."""
        asked = self.job.asked
        return asked is not None and asked.what != "rejected"

    @property
    def protects(self) -> bool:
        """Whether copies are made, because the job is protected or a resize is a restart."""
        return self.protector is not None and self.protector.protects

    @property
    def connects(self) -> bool:
        """Whether there is a server to ask."""
        return self.options.connect is not None

    def server(self) -> ServerLink:
        """Rank 0's connection to the server; a process that becomes rank 0 opens one."""
        if self.link is None:
            assert self.options.connect is not None, "only a managed job asks"
            self.link = self.options.connect()
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
        self.ended = True
        self._end.leave(error)
