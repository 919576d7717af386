"""The inside of a session: the parts of the library that one rank has, and what an iteration does.

`Session` (jobsession.py) is what programs see of it. The modules of the library call it `session`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from mpi4py import MPI

from dq_client.base import messages as m
from resize_lib import world
from resize_lib.declared.cartesian import Cartesian
from resize_lib.declared.packed import Packed, Value
from resize_lib.emulation.node import Emulation
from resize_lib.grid import Grid
from resize_lib.job import JobPosition
from resize_lib.job_comm import JobComm, follow
from resize_lib.joining import Joining, first_state
from resize_lib.legal import check_size
from resize_lib.loops import LoopError, Loops, Position
from resize_lib.on_resize import OnResize
from resize_lib.processes import choose_backend, idle_barrier
from resize_lib.protection import protector_of, recovery_of
from resize_lib.protection.state import ProtectionError
from resize_lib.recording import recorder_of
from resize_lib.redistribution import Arena
from resize_lib.redistribution.handshake import know_this_process
from resize_lib.remap_point import RemapPoints
from resize_lib.server_link import ServerLink, say
from resize_lib.session_end import SessionEnd, mark_presence
from resize_lib.session_options import Options
from resize_lib.setup_calls import CALLS
from resize_lib.solver import Solver
from resize_lib.stale_parts import StaleParts
from resize_lib.state.carry import Carry
from resize_lib.state.copies import Copies
from resize_lib.state.iterators import go_on
from resize_lib.state.program import LoopItems
from resize_lib.succession import succession_of
from resize_lib.taskfarm import Farms
from resize_lib.watch import Watch

if TYPE_CHECKING:
    from resize_lib.declaring import Dense
    from resize_lib.jobsession import Session
    from resize_lib.protection.chosen import Chosen


class Runtime:
    """One per process. `job` is what all ranks know alike; `comm` and `grid` are those of now.

    public: the session as the program has it. ended: by the end of a `with` block.
    """

    @property
    def grid(self) -> Grid:
        """The process grid now."""
        return self._grid

    @grid.setter
    def grid(self, grid: Grid) -> None:
        if self.spawned or hasattr(self, "_grid"):  # until a resize COMM_WORLD stays as it is
            world.follow_job(grid.comm)
        self._grid = grid
        follow(self.comm, grid.comm)

    def __init__(self, public: Session, options: Options) -> None:
        self.public = public
        self.options = options
        world.install()
        mark = mark_presence()
        know_this_process()
        self.backend = choose_backend()
        self.arena = Arena()
        self.declared: dict[str, Dense | Packed] = {}
        self.values: dict[str, Value[Any]] = {}
        self.legal_sizes = self.options.legal
        self.ended = False
        self.comm: MPI.Intracomm = JobComm()
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
        self.pacer = self.emulation.pacer if self.emulation is not None else None
        self.grid = self.joining.grid(rank) if self.joining else self.make_grid(comm)
        check_size(self)
        self.protector = protector_of(self)
        self.succession = succession_of(self)
        self.copy = None if self.spawned else self._restart(comm)
        # Until it has its share of the data.
        target = self.job.loops if self.copy is not None else None
        self.loops = Loops(self, self.joining.target() if self.joining else target, CALLS)
        self.hooks, self.solver, self.farms = OnResize(self), Solver(self), Farms(self)
        self.points = RemapPoints(self, self.options.report_interval_s)
        self.carry = Carry(self)
        self.copies = Copies(self, self.carry)
        self.in_place = recovery_of(self)
        self.recorder = recorder_of(self)
        self.end = SessionEnd(self, mark)
        self.stale = StaleParts(self.end.give_up)
        if self.joining is None and self.job.managed:
            self.watch.start()
        if not self.spawned and not (self.backend.can_resize and self.points.active):
            CALLS.stop()

    def set_options(self, options: Options) -> None:
        """The program opens the session, which a rank that joins has needed before."""
        self.options, self.legal_sizes = options, options.legal
        self.points.interval_s = options.report_interval_s
        check_size(self)

    def _restart(self, comm: MPI.Intracomm) -> Chosen | None:
        """The copy of its data from which an interrupted job goes on; collective."""
        if self.protector is None:
            return None
        try:
            found = self.protector.begin(comm)
        except ProtectionError as e:
            self.give_up(str(e))
        if found is not None:
            self.job.loops, self.job.lengths = found.copy.loops, found.copy.lengths
        return found

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

    @property
    def arriving(self) -> bool:
        """Whether this rank joins and has not come to the job's loop: its data are on their way."""
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
    def places(self) -> Sequence[m.RankPlace]:
        """Where each rank runs; without a DQ server equal places of this machine."""
        job = self.job
        return job.places or [m.RankPlace(r, "", "") for r in range(job.rows * job.cols)]

    @property
    def step(self) -> int:
        """The iteration of the innermost loop that is running or comes next."""
        return self.loops.iteration

    @property
    def asks(self) -> bool:
        """Whether a request or release is still to be decided or carried out."""
        asked = self.job.asked
        return asked is not None and asked.what != "rejected"

    @property
    def protects(self) -> bool:
        """Whether the job is protected; one that is resized by restart has a protector, too."""
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

    def leave(self, error: BaseException | None) -> None:
        """The `with` block ends, with this error if any."""
        self.ended = True
        self.end.leave(error)

    # --- what loops.py calls --------------------------------------------------------------------

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

    def skips(self, iterations: Iterator[int], count: int) -> None:
        """This rank begins a loop in the midst of it: what stands around it goes on there, too."""
        go_on(iterations, count)

    def meet(self) -> Position:
        """Where the job is; asked by a rank that joins, at its first loop. Collective."""
        assert self.joining is not None, "only ranks that join do not know where the job is"
        return self.joining.meet()

    def arrive(self) -> None:
        """This rank is where the job is: take its share of the data. Collective."""
        if self.copy is None:
            assert self.joining is not None, "who begins with the job is there"
            self.joining.arrive()
            if self.job.managed:
                self.watch.start()
        else:
            assert self.protector is not None, "copies are for protected jobs"
            try:
                self.protector.restore(self.copy)
            except ProtectionError as e:
                self.give_up(str(e))
            if self.succession is not None:
                self.succession.arrived()

    def length(self, level: int, count: float | None, items: LoopItems | None) -> float | None:
        """How many iterations the loop has that the job is in at this level (0: outermost).

        `count`: what the program says in a rank that is not there yet; `items`: what it is over.
        Items that do not travel are after a restart those of the program. None: no limit.
        LoopError if this rank cannot make the job's iterations.
        """
        told = self.job.lengths
        if level >= len(told) or told[level] == count:
            return count
        over = items is not None and items.sequence is not None
        inner = level == len(told) - 1 or (count or 0) > (told[level] or 0)
        if items is not None and items.travels and self.carry.active and inner:
            return told[level]  # and gets the job's items where it arrives
        here, there = (
            f"{'no limit of' if n is None else format(n, 'g')} iterations"
            for n in (count, told[level])
        )
        if self.copy is None or (over and self.carry.active):
            if over:
                raise LoopError(f"its loop is over a sequence of {here}, the job's of {there}")
            return told[level]
        kept = count if over else told[level]
        if self.rank == 0:
            say(f"a loop has {here} in the program and {there} in the copy")
        return kept

    def has_arrived(self) -> None:
        """It has its share. Collective with the end of a remap point of the others."""
        self.farms.arrived()
        self.remapped(stays=True)

    def iteration_begins(self) -> None:
        """An innermost iteration is about to begin; its time runs from here."""
        self.call_hooks()
        self.watch.iteration_begins()
        if self.pacer is not None:
            self.pacer.begin_iteration()

    def iteration_ends(self, elapsed_s: float, *, last: bool) -> None:
        """An iteration is done, perhaps the last one. Retired in ranks that leave the job."""
        if self.pacer is not None:
            self.pacer.end_iteration()
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
        """An outermost loop is over; may be called when an exception ends it."""
        self.end.loop_ends()

    def note_position(self) -> None:
        """At a remap point: the job is where this rank is."""
        self.job.loops, self.job.lengths = self.loops.position, self.loops.lengths

    def remapped(self, *, stays: bool) -> None:
        """A remap point is over, all data have moved. Retired in ranks that leave the job.

        The order is part of docs/spec/resize.md, "After the move".
        """
        if not stays:
            raise self.end.retired()
        self.loops.agreed()
        self.watch.remap_ends()
        self.renew_ghosts()
        self.call_hooks()
        if self.recorder is not None:
            self.recorder.remap_ends()
        self.points.go_on()

    def renew_ghosts(self) -> None:
        """Fill those that were filled before; collective."""
        for item in self.declared.values():
            if isinstance(item, Cartesian):
                item.renew_ghosts()

    def call_hooks(self) -> None:
        """Build anew what does not fit the present communicator; collective."""
        if self.hooks.due:
            self.hooks.call()
            self.points.go_on()

    # --- tasks of a farm ------------------------------------------------------------------------

    def task_begins(self) -> None:
        """This rank begins one."""
        if self.pacer is not None:
            self.pacer.begin_iteration()

    def task_ends(self) -> None:
        """It has done it."""
        if self.pacer is not None:
            self.pacer.end_iteration()
