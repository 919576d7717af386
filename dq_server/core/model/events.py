"""Everything that can happen to the scheduler. Events are what the journal keeps: facts only.

Time is handed to `Scheduler.handle` beside them."""

from __future__ import annotations

from dataclasses import dataclass, field

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import JobSpec

EVENTS: dict[str, type[Event]] = {}  # by name, as a journal has them


class Event:
    """Base of all events."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        EVENTS[cls.__name__] = cls  # @dataclass(slots=True) makes it twice: the later one counts


@dataclass(frozen=True, slots=True)
class StartEvent(Event):
    """Base of what concerns one start of a job."""

    job: int
    instance: int


del EVENTS["StartEvent"]


@dataclass(frozen=True, slots=True)
class Configured(Event):
    """From now on the scheduler follows this configuration."""

    config: SchedulerConfig


@dataclass(frozen=True, slots=True)
class NodeJoined(Event):
    """A node offers processors. Joining again under the same name brings it back.

    One that is up has what it says from now on; what ran on processors that are gone is lost.
    """

    node: str
    processors: int
    speed: float = 1.0  # relative to the others
    memory: int = 0  # bytes; 0: not known
    gpus: int = 0
    features: tuple[str, ...] = ()
    until_s: float | None = None  # its time ends then; None: not known, or an engine says so


@dataclass(frozen=True, slots=True)
class NodeLost(Event):
    """A node no longer answers: its processors are gone, jobs on it must end everywhere."""

    node: str
    why: str = "no heartbeat"


@dataclass(frozen=True, slots=True)
class BackgroundLoad(Event):
    """Processes outside DQ keep so many processors of a machine busy, others than before.

    nodes  of the machine
    """

    nodes: tuple[str, ...]
    processors: float


@dataclass(frozen=True, slots=True)
class DrainRequested(Event):
    """Nothing new shall run on a node, and what runs there shall leave it.

    within_s  what is left there then is ended; None: it may stay for as long as it needs
    reason    why, for people
    by        who asks, for people
    leaves    the node leaves the cluster once nothing is left there
    life      of the agent that says so itself, because it was told to go; empty: a user asks
    """

    node: str
    within_s: float | None = None
    reason: str = ""
    by: str = ""
    leaves: bool = False
    life: str = ""


@dataclass(frozen=True, slots=True)
class ResumeRequested(Event):
    """A node shall not drain any more.

    life  of another agent that has taken over from the one that was told to go; empty: a user asks
    """

    node: str
    life: str = ""


@dataclass(frozen=True, slots=True)
class NodeLeft(Event):
    """An empty node that was to leave has left.

    life  of its agent, so that this one is not taken for one that comes back
    """

    node: str
    life: str = ""


@dataclass(frozen=True, slots=True)
class TicketPending(Event):
    """The engine has taken the request for a node in, and cannot say when it is granted."""

    ticket: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class TicketStarted(Event):
    """A node that was asked for is granted: it starts, and will join under this name."""

    ticket: int
    node: str  # empty: not known yet; said when it is
    until_s: float | None = None  # its time ends then; said again when it moves. None: not known


@dataclass(frozen=True, slots=True)
class TicketRefused(Event):
    """A node that was asked for will not come."""

    ticket: int
    why: str


@dataclass(frozen=True, slots=True)
class TicketRevoked(Event):
    """The engine takes a node back: within so many seconds nothing may be left there."""

    ticket: int
    within_s: float
    why: str = ""


@dataclass(frozen=True, slots=True)
class TicketEnded(Event):
    """There is no node under this ticket any more: it was given back, or has gone by itself."""

    ticket: int
    why: str = ""
    withdrawn: bool = False  # the cluster goes down: the engine has not failed


@dataclass(frozen=True, slots=True)
class JobSubmitted(Event):
    """A new job. A spec whose `request_id` was seen before yields the same job again."""

    spec: JobSpec


@dataclass(frozen=True, slots=True)
class ArraySubmitted(Event):
    """New jobs of one description, told from each other by an index (features/arrays.py).

    at_most  so many of them are in the queue or active at once; 0: any number
    lines    what each is given besides; empty: nothing
    A spec whose `request_id` was seen before yields the same array again.
    """

    spec: JobSpec
    indices: tuple[int, ...]
    at_most: int = 0
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ArrayRequested(Event):
    """A user wants all jobs of an array that can be killed, held or released to be so (`what`)."""

    array: int
    what: str
    user: str = ""


@dataclass(frozen=True, slots=True)
class JobAttached(Event):
    """Somebody has started a program by other means, and it wants to be a job.

    Its ranks run already: rank r, process `pids[r]`, on one of the nodes `places[place_of[r]]`.
    A spec whose `request_id` was seen before yields the same job again.
    """

    spec: JobSpec
    places: tuple[tuple[str, ...], ...]
    place_of: tuple[int, ...]
    pids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class JobStarted(StartEvent):
    """The application's processes run."""


@dataclass(frozen=True, slots=True)
class JobEnded(StartEvent):
    """The application ended by itself, crashed or was killed; `error`: why it could not be started,
    or, once it runs, how its processes were lost."""

    exit_code: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class JobGaveUp(StartEvent):
    """The application says why it is about to end without success."""

    why: str


@dataclass(frozen=True, slots=True)
class WorkDone(StartEvent):
    """The program of a resized or protected job has left its session in order.

    MPICH 5.0.2's launcher ends with code 0 when a rank that joined later is killed, so that an exit
    code of 0 alone does not say that a job is done.

    resize_id: the last resize that it carried out, 0 if there was none
    """

    resize_id: int = 0


@dataclass(frozen=True, slots=True)
class SizesDeclared(StartEvent):
    """The program says on which sizes it can run; the job has no others from then on."""

    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ResizesByRestart(StartEvent):
    """The program runs under an MPI that takes no ranks into a running job, and lets none leave."""


@dataclass(frozen=True, slots=True)
class RestartReady(StartEvent):
    """All that is declared is in a complete copy: all ranks end, for others on the new size."""

    resize_id: int


@dataclass(frozen=True, slots=True)
class CopyMade(StartEvent):
    """A protected job has copied its data, or tried to (`error`).

    step     iterations of its loop that the copy holds
    took_s   how long all ranks stood still for it
    nbytes   of the whole copy
    """

    step: int
    took_s: float
    nbytes: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class OutputLost(StartEvent):
    """So many bytes of what a start's ranks on a node have written could not be kept, in all."""

    node: str
    lost_bytes: int
    why: str


@dataclass(frozen=True, slots=True)
class UsageMeasured(Event):
    """A part of a job, its ranks on one agent's nodes, has ended; `cpu_s`: what it has used.

    memory_max   of the job, the most bytes that were measured at one time
    """

    job: int
    cpu_s: float
    memory_max: int


@dataclass(frozen=True, slots=True)
class ProcessorsVacated(Event):
    """No process of the job is left on these processors; without a list: on any of its own."""

    job: int
    processors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RemapPoint(StartEvent):
    """The application finished an iteration and asks what to do (thesis, 3.3.1).

    seq                   counts the job's remap points in this instance; a repeat gets the same
                          answer
    processors            how many the application runs on now: tells whether a resize happened
    resize_id             the last resize it carried out (0: none)
    iteration_time_s      computing time of an iteration, the slowest rank's: the mean of those
                          since the remap point before
    redistribution_time_s of the resize that came before this iteration, 0 if none did
    preparing             the granted expansion whose new ranks are still starting (0: none): it
                          stays granted, and the iteration, slowed by their start, does not count
    iterations            done since the remap point before: a job does not ask after each of its
                          short iterations
    loop                  which of the program's loops they were of: times of one loop say nothing
                          about another
    silent                remap points since the last one that was reported, on the same processors
                          and in the same loop: the job rested (core/resting.py)
    passed                iteration times at the last of these, oldest first
    """

    seq: int
    processors: int
    resize_id: int
    iteration_time_s: float
    redistribution_time_s: float = 0.0
    preparing: int = 0
    iterations: int = 1
    loop: str = ""
    silent: int = 0
    passed: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class PointsPassed(StartEvent):
    """Remap points that the application passed without asking, on the processors that it has now.

    A simulated job reports so those at which it would have been told to continue and nothing would
    have been learned but the time (sim/resting.py). Live ones report theirs with a RemapPoint.

    count             how many
    iteration_time_s  of the iteration before each of them
    """

    count: int
    iteration_time_s: float


@dataclass(frozen=True, slots=True)
class RanksLost(StartEvent):
    """Ranks of a protected job have died; the others are free to go on in the same processes."""

    processors: tuple[int, ...]  # of the dead


@dataclass(frozen=True, slots=True)
class ResizeCommitted(StartEvent):
    """The application runs on its new size.

    On what it gave up ranks may still be ending: ProcessorsVacated says when they have.
    carried: which variables of the program travelled to ranks that joined, for people
    """

    resize_id: int
    redistribution_time_s: float = 0.0
    carried: str = ""


@dataclass(frozen=True, slots=True)
class ResizeAborted(StartEvent):
    """The resize could not be carried out; the application goes on at its old size.

    mistake: of the program; see Job.cannot_grow.
    """

    resize_id: int
    why: str
    mistake: bool = False


@dataclass(frozen=True, slots=True)
class KillRequested(Event):
    """A user wants the job gone."""

    job: int
    user: str = ""


@dataclass(frozen=True, slots=True)
class HoldRequested(Event):
    """A queued job shall not be started."""

    job: int


@dataclass(frozen=True, slots=True)
class ReleaseRequested(Event):
    """A held job may be started again."""

    job: int


@dataclass(frozen=True, slots=True)
class JobEdited(Event):
    """A user changes a job that waits; None: as it is. `walltime_s`: seconds."""

    job: int
    walltime_s: float | None = None
    priority: int | None = None
    user: str = ""


@dataclass(frozen=True, slots=True)
class ResizeRequested(Event):
    """A user wants the job on this many processors, at its next remap point.

    `rows`: of the grid, which must be one of the job's; 0: the one that is used at this size.
    `hold`: the size stays until the user releases it, or orders another one.
    """

    job: int
    size: int
    rows: int = 0
    hold: bool = False


@dataclass(frozen=True, slots=True)
class SizeReleased(Event):
    """The user does not hold the job's size any more: the scheduler may resize it again."""

    job: int


@dataclass(frozen=True, slots=True)
class SessionOpened(StartEvent):
    """The program of a job has opened its session: it can be resized, if its kind allows."""


@dataclass(frozen=True, slots=True)
class RankReported(StartEvent):
    """One rank says where it is, because the others do not come, or it does not get on itself.

    what     "left": it has left its session; "stays": it is in a turn, or at its end; "goes on"
    turns    whose remap points it has passed
    where    in its program, for people
    waits    for other ranks, as far as it can know
    for_s    how long it has been there
    usual_s  how long a turn has taken at most; 0: it knows none
    over     that is longer than the limit of [watch]
    """

    rank: int
    what: str
    turns: int = 0
    where: str = ""
    waits: bool = False
    for_s: float = 0.0
    usual_s: float = 0.0
    over: bool = False


@dataclass(frozen=True, slots=True)
class DynamicRequested(StartEvent):
    """An evolving application asks for more processors (Prabhakaran et al. 2014, tm_dynget).

    request    counts the job's requests and releases in this instance, from 1; a repeat gets the
               same answer
    timeout_s  how long the request may wait; 0: granted or rejected at once
    """

    request: int
    more: int
    timeout_s: float = 0.0


@dataclass(frozen=True, slots=True)
class DynamicReleased(StartEvent):
    """An evolving application gives processors back (tm_dynfree): these, or `count` of its choice.

    The scheduler chooses which if none are named. `request`: see DynamicRequested.
    """

    request: int
    count: int
    processors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SpawnRequested(StartEvent):
    """A rank calls MPI_Comm_spawn: where may the new ones run?

    ticket      counts what `agent` has asked in this start of the job; a repeat gets the same
                answer
    world       the granted expansion whose ranks these are; 0: the program itself wants them
    programs    rank r of them runs programs[program_of[r]] in `cwd` (empty: the job's)
    keys        of MPI_Comm_spawn, for the new world
    """

    agent: str
    ticket: int
    world: int
    programs: tuple[tuple[str, ...], ...]
    program_of: tuple[int, ...]
    cwd: str = ""
    keys: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorldEnded(StartEvent):
    """All ranks of a world that the job's program spawned have ended."""

    world: int


@dataclass(frozen=True, slots=True)
class WorkerEnded(StartEvent):
    """A worker of a worker job has ended by itself, with exit code 0. `world`: which one."""

    world: int


@dataclass(frozen=True, slots=True)
class AdvanceReservation:
    """`processors` are kept from `start_s` to `end_s` for jobs that name it.

    user  whose jobs may; empty: anybody's
    """

    name: str
    processors: int
    start_s: float
    end_s: float
    user: str = ""
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class ReservationMade(Event):
    """Processors shall be kept for somebody (features/reservations.py)."""

    reservation: AdvanceReservation


@dataclass(frozen=True, slots=True)
class ReservationCancelled(Event):
    """They need not be kept any more."""

    name: str


@dataclass(frozen=True, slots=True)
class MaintenanceWindow:
    """`nodes` are to be empty from `start_s` to `end_s`; `reason` and `by` are for people."""

    name: str
    nodes: tuple[str, ...]
    start_s: float
    end_s: float
    reason: str = ""
    by: str = ""
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class MaintenancePlanned(Event):
    """Nodes shall be empty for a while (features/maintenance.py)."""

    window: MaintenanceWindow


@dataclass(frozen=True, slots=True)
class MaintenanceCancelled(Event):
    """They need not be empty any more."""

    name: str


@dataclass(frozen=True, slots=True)
class GrantsPaused(Event):
    """From now on no processor is granted to anybody, until the same event says otherwise.

    A shell pauses when it cannot carry grants out: it has just started and does not know yet
    which nodes still answer, or it is about to leave.
    """

    paused: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class EventsLost(Event):
    """Others may have happened before, which nobody knows any more: the journal was mended, or
    restored from a backup.

    epoch    of the server, larger than any before: what it numbers is told by that from what an
             earlier one has; 0: it has been said
    unknown  jobs that start as far as is known, and of whose starts no agent knows: they are over
    """

    epoch: int = 0
    unknown: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Tick(Event):
    """Time passed: walltimes and other limits are looked at."""
