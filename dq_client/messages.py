"""Every message on the wire, in one module. Encoded with msgspec (codec.py); no pickle anywhere.

A client (user, agent or application) sends a `Request` and gets the `Reply` with the same id; it
may send the same request again until the reply comes: every request is safe to repeat. To agents
the server also sends `Order`s unasked; orders repeat what the server's state wants, so a lost one
comes again with the next heartbeat. Lists and strings are bounded: a request cannot be larger than
`FRAME_BYTES_MAX`.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

PROTOCOL = 1
FRAME_BYTES_MAX = 1 << 20  # of a request
FROM_SERVER_BYTES_MAX = 64 << 20  # lists of many jobs are long
NAME_MAX = 200  # characters
COUNT_MAX, SECONDS_MAX = 10_000_000, 1e10
NODE_PROCESSORS_MAX, NODE_SPEED_MAX = 100_000, 1e9

Name = Annotated[str, Meta(min_length=1, max_length=NAME_MAX)]
Text = Annotated[str, Meta(max_length=4000)]
Ident = Annotated[str, Meta(min_length=1, max_length=NAME_MAX, pattern=r"\A[A-Za-z0-9._:@+-]+\Z")]
Path_ = Annotated[str, Meta(max_length=4000)]
Argv = Annotated[list[Annotated[str, Meta(max_length=32_000)]], Meta(min_length=1, max_length=2000)]
Env = Annotated[dict[Name, Annotated[str, Meta(max_length=32_000)]], Meta(max_length=500)]
Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
GridText = Annotated[str, Meta(max_length=13, pattern=r"\A[0-9]{1,6}x[0-9]{1,6}\Z")]
Id = Annotated[int, Meta(ge=0, le=2**53)]
Seconds = Annotated[float, Meta(ge=0, le=SECONDS_MAX)]
Jobs = Annotated[list[Id], Meta(max_length=1000)]
Numbers = Annotated[list[Count], Meta(max_length=100_000)]


class Body(Struct, frozen=True, tag_field="t", forbid_unknown_fields=True):
    """Base of all bodies: the tag is the class name in lower case."""


# --- anybody ---------------------------------------------------------------------------------


class Hello(Body, tag="hello", frozen=True):
    """First message: which protocol the client speaks."""

    protocol: int
    program: Text = ""


class Welcome(Body, tag="welcome", frozen=True):
    """The server's answer; `epoch` grows with every start of the server.

    `session`: an agent's own, from this hello to its next; 0 for others.
    """

    protocol: int
    version: str
    epoch: int
    role: str
    session: int = 0


# --- users -----------------------------------------------------------------------------------


class Sizes(Struct, frozen=True, forbid_unknown_fields=True):
    """Legal sizes as the user gave them; the server makes configurations of them.

    `listed`: numbers, or grids of rows by columns, as "2x4".
    """

    listed: Annotated[list[Count | GridText], Meta(max_length=10_000)] = []
    min: Count | None = None
    max: Count | None = None
    chain: str = "square"
    multiple: Count = 1


class Protect(Struct, frozen=True, forbid_unknown_fields=True):
    """How the job's data is copied, so that it survives a loss (docs/protection.md).

    See dq_server.core.protection.Protection for the fields.
    """

    how: Name = "disk"
    every_points: Count | None = None
    every_s: Seconds | None = None
    folder: Path_ = ""
    restarts: Count = 3


class Submit(Body, tag="submit", frozen=True):
    """A new job. `request` makes repeats harmless."""

    request: Name
    name: Name
    argv: Argv
    cwd: Path_
    kind: Name = "malleable"
    initial: Count | None = None
    sizes: Sizes = Sizes()
    env: Env = {}  # set for this job
    inherited: Env = {}  # the submitter's environment; the server takes what it allows
    walltime_s: Seconds | None = None
    estimate_s: Seconds | None = None
    group: Text = ""
    account: Text = ""
    qos: Text = ""
    job_class: Text = ""
    priority: int = 0
    hold: bool = False
    app_name: Text = ""  # jobs with the same one learn from each other's runs
    reservation: Text = ""  # the advance reservation to run in
    after: Jobs = []  # must have ended successfully first; 0: the last one submitted
    after_any: Jobs = []  # must have ended
    profile: Annotated[list[tuple[Count, Count]], Meta(max_length=10_000)] = []
    # steps (seconds, processors) of an evolving job whose evolution is known
    protect: Protect | None = None


class Submitted(Body, tag="submitted", frozen=True):
    """The job is safe in the journal."""

    job: int


class JobQuery(Body, tag="job", frozen=True):
    """One job; 0 stands for the last one submitted."""

    job: Id


class JobsQuery(Body, tag="jobs", frozen=True):
    """All jobs the server remembers; `active_only` leaves out the ended ones."""

    active_only: bool = False


class NodesQuery(Body, tag="nodes", frozen=True):
    """All nodes."""


class WhyQuery(Body, tag="why", frozen=True):
    """Why is the job where it is?"""

    job: Id


class StatusQuery(Body, tag="status", frozen=True):
    """The server itself."""


class TimelineQuery(Body, tag="timeline", frozen=True):
    """Sizes of all jobs over time, for reports."""


class Data(Body, tag="data", frozen=True):
    """Answer to any query: plain data, as the command line prints it with --json."""

    data: Any


class Kill(Body, tag="kill", frozen=True):
    """Kill a job."""

    job: Id


class Hold(Body, tag="hold", frozen=True):
    """Keep a queued job from starting."""

    job: Id


class Release(Body, tag="release", frozen=True):
    """Let a held job start."""

    job: Id


class Resize(Body, tag="resize", frozen=True):
    """Bring a job to this size at its next remap point; `rows`: of the grid, 0: any."""

    job: Id
    size: Count
    rows: Count = 0


class Reserve(Body, tag="reserve", frozen=True):
    """Keep processors for jobs that name this reservation. `request` makes repeats harmless.

    in_s  it begins so long after the server got this
    user  whose jobs may run in it; empty: anybody's
    """

    request: Name
    name: Ident
    processors: Count
    in_s: Seconds
    duration_s: Seconds
    user: Text = ""


class CancelReservation(Body, tag="unreserve", frozen=True):
    """The reservation is no more; its jobs go on as ordinary ones."""

    name: Ident


class ReservationsQuery(Body, tag="reservations", frozen=True):
    """All reservations that are not over."""


class LogsQuery(Body, tag="logs", frozen=True):
    """A piece of a job's output from `offset` on."""

    job: Id
    stream: str = "out"
    offset: Id = 0


class LogPiece(Body, tag="logpiece", frozen=True):
    """`data` is at most a frame's worth; `end`: the job has ended and this is all there is."""

    data: bytes
    offset: int
    end: bool


class Stop(Body, tag="stop", frozen=True):
    """Stop the server; with `force` its jobs are killed first."""

    force: bool = False


class Done(Body, tag="done", frozen=True):
    """Carried out (or, for what needs a remap point or an agent, accepted)."""


class Error(Body, tag="error", frozen=True):
    """`code` is one of errors.BY_CODE; `text` one line for people."""

    code: str
    text: str


# --- applications ----------------------------------------------------------------------------


class Place(Struct, frozen=True, forbid_unknown_fields=True):
    """One processor of a job: rank r runs at places[r]."""

    processor: int
    node: str
    host: str  # what MPI calls the node
    speed: float = 1.0
    core_share: float | None = None  # emulated nodes: share of a real core


class JobHello(Body, tag="jobhello", frozen=True):
    """The application's first rank reports."""

    protocol: int
    processors: Count


class JobWelcome(Body, tag="jobwelcome", frozen=True):
    """Where the application runs and on which grid it should."""

    job: int
    instance: int
    epoch: int
    places: list[Place]
    rows: int
    cols: int
    link_mbit: float | None = None
    link_latency_us: float | None = None
    link_duplex: str = "full"


class RemapPoint(Body, tag="remap", frozen=True):
    """An iteration is done. See dq_server.core.events.RemapPoint for the fields."""

    seq: Id
    processors: Count
    resize_id: Id
    iteration_time_s: Seconds
    redistribution_time_s: Seconds = 0.0
    step: Id = 0
    preparing: Id = 0  # a granted expansion whose ranks are still starting
    iterations: Count = 1


class DynamicRequest(Body, tag="dynrequest", frozen=True):
    """An evolving application asks for processors. See dq_server.core.events.DynamicRequested."""

    request: Id
    more: Count
    timeout_s: Seconds = 0.0


class DynamicRelease(Body, tag="dynrelease", frozen=True):
    """It gives some back: these, or `count` that the scheduler chooses."""

    request: Id
    count: Count = 0
    processors: Numbers = []


class DynamicAnswer(Body, tag="dynanswer", frozen=True):
    """granted, rejected, waiting, or accepted (a release): carried out at the next remap point.

    `available_in_s`: when the processors are expected to be there; None: nobody knows.
    """

    request: int
    what: str
    more: int
    available_in_s: float | None = None
    reason: str = ""


class RemapAnswer(Body, tag="remapanswer", frozen=True):
    """continue, expand (by `places`), shrink (off `places`) or regrid (same places).

    The new grid is rows x cols.

    `asked`: how the application's latest dynamic request stands.
    """

    what: str
    resize_id: int = 0
    places: list[Place] = []
    rows: int = 0
    cols: int = 0
    reason: str = ""
    asked: DynamicAnswer | None = None


class Committed(Body, tag="committed", frozen=True):
    """The resize is done. `pids`: the processes that leave, one per released processor."""

    resize_id: Id
    redistribution_time_s: Seconds = 0.0
    pids: Annotated[list[Id], Meta(max_length=100_000)] = []


class CopyMade(Body, tag="copymade", frozen=True):
    """The data of a protected job was copied. See dq_server.core.events.CopyMade."""

    step: Id
    took_s: Seconds
    nbytes: Id
    error: Text = ""


class GaveUp(Body, tag="gaveup", frozen=True):
    """A rank of a protected job says why it ends: the program's own failure, not a loss."""

    why: Text


class WorkDone(Body, tag="workdone", frozen=True):
    """The program of a protected job has left its session in order: what follows is its end."""


class Aborted(Body, tag="aborted", frozen=True):
    """The resize did not happen; the application goes on at its old size."""

    resize_id: Id
    why: Text


# --- agents ----------------------------------------------------------------------------------


class NodeInfo(Struct, frozen=True, forbid_unknown_fields=True):
    """A node an agent stands for."""

    name: Name
    processors: Annotated[int, Meta(ge=1, le=NODE_PROCESSORS_MAX)]
    host: Name
    speed: Annotated[float, Meta(gt=0, le=NODE_SPEED_MAX)] = 1.0
    core_share: float | None = None  # emulated by pacing: share of a core of the machine
    link_mbit: float | None = None  # emulated by pacing: rate of its link
    link_latency_us: float | None = None
    link_duplex: str = "full"


class Holding(Struct, frozen=True, forbid_unknown_fields=True):
    """One job instance an agent has processes of."""

    job: Id
    instance: Id
    first: bool  # this agent started the application itself (mpiexec), not only a proxy
    pid: Id
    create_time: float
    running: bool


class AgentHello(Body, tag="agenthello", frozen=True):
    """An agent reports for duty, with everything it holds."""

    protocol: int
    agent: Name
    nodes: Annotated[list[NodeInfo], Meta(min_length=1, max_length=10_000)]
    holdings: Annotated[list[Holding], Meta(max_length=10_000)] = []
    pid: Id = 0


class Heartbeat(Body, tag="heartbeat", frozen=True):
    """Still here, with everything it holds: sent after the welcome to `session`."""

    session: Id
    holdings: Annotated[list[Holding], Meta(max_length=10_000)] = []
    load: float = 0.0


class AppStarted(Body, tag="appstarted", frozen=True):
    """The application's processes run."""

    job: Id
    instance: Id
    pid: Id


class AppEnded(Body, tag="appended", frozen=True):
    """The application has ended; `error`: why it could not be started, or has lost ranks."""

    job: Id
    instance: Id
    exit_code: int
    error: Text = ""


class RankLost(Body, tag="ranklost", frozen=True):
    """Ranks on this agent's nodes ended without leaving their job, which goes on without them."""

    job: Id
    instance: Id
    why: Text


class Vacated(Body, tag="vacated", frozen=True):
    """No process of this start of the job is left on these processors."""

    job: Id
    instance: Id
    processors: Numbers


class RemoteRun(Body, tag="remoterun", frozen=True):
    """MPI's launcher wants `argv` run on `host` for this job: a proxy on another node.

    `run` names this proxy: the same RemoteRun again starts nothing, but tells its end again.
    """

    run: Ident
    job: Id
    instance: Id
    host: Name
    argv: Argv
    env: Env = {}


class RemoteEnded(Body, tag="remoteended", frozen=True):
    """The proxy `run` has ended; `asker`: the agent that asked for it."""

    run: Ident
    exit_code: int
    error: Text = ""
    asker: Text = ""


class LogAnswer(Body, tag="loganswer", frozen=True):
    """An agent's answer to the order ReadLog."""

    ticket: Id
    data: Annotated[bytes, Meta(max_length=FRAME_BYTES_MAX)]
    offset: Id
    end: bool


# --- orders to agents ------------------------------------------------------------------------


class Launch(Body, tag="launch", frozen=True):
    """Start the application: `places` in rank order."""

    job: int
    instance: int
    argv: list[str]
    cwd: str
    env: dict[str, str]
    places: list[Place]


class KillTree(Body, tag="killtree", frozen=True):
    """End every process of this job instance; an instance never started stays unstarted."""

    job: int
    instance: int


class CopyPlaces(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the copies of a protected job are.

    memory  folder for what nodes hold in memory, below it HOST/JOB; empty: nothing is held there
    folder  on disk; empty: `copies` in the job's folder of DQ_HOME
    """

    memory: str = ""
    folder: str = ""


class SaveCopies(Body, tag="savecopies", frozen=True):
    """Write what this agent's nodes hold in memory of the job's copies to disk."""

    job: int
    instance: int
    places: CopyPlaces


class ForgetCopies(Body, tag="forgetcopies", frozen=True):
    """The job has ended: its copies are of no use any more."""

    job: int
    places: CopyPlaces


class Vacate(Body, tag="vacate", frozen=True):
    """Report `Vacated` once these processors are empty.

    `pids` are processes about to leave; without any, all of the job's processes must go. `save`:
    the job will be restarted; copies held in memory shall be on disk before the report.
    """

    job: int
    instance: int
    processors: list[int]
    pids: list[int]
    save: CopyPlaces | None = None


class RunProxy(Body, tag="runproxy", frozen=True):
    """Run MPI's proxy for this job; report RemoteEnded with `run` when it ends."""

    run: str
    job: int
    instance: int
    argv: list[str]
    env: dict[str, str]
    asker: str = ""  # the agent that wants to hear of the end


class ProxyEnded(Body, tag="proxyended", frozen=True):
    """To the agent that asked for a RemoteRun: it has ended."""

    run: str
    exit_code: int
    error: str = ""


class ReadLog(Body, tag="readlog", frozen=True):
    """Answer with LogAnswer."""

    ticket: int
    job: int
    stream: str
    offset: int


class Retire(Body, tag="retire", frozen=True):
    """The cluster goes down: the agent ends (its jobs are gone already)."""


RequestBody = (
    Hello
    | Submit
    | JobQuery
    | JobsQuery
    | NodesQuery
    | WhyQuery
    | StatusQuery
    | TimelineQuery
    | Kill
    | Hold
    | Release
    | Resize
    | Reserve
    | CancelReservation
    | ReservationsQuery
    | LogsQuery
    | Stop
    | JobHello
    | RemapPoint
    | Committed
    | Aborted
    | CopyMade
    | GaveUp
    | WorkDone
    | DynamicRequest
    | DynamicRelease
    | AgentHello
    | Heartbeat
    | AppStarted
    | AppEnded
    | RankLost
    | Vacated
    | RemoteRun
    | RemoteEnded
    | LogAnswer
)
ReplyBody = (
    Welcome | Submitted | Data | Done | Error | LogPiece | JobWelcome | RemapAnswer | DynamicAnswer
)
OrderBody = (
    Launch
    | KillTree
    | Vacate
    | SaveCopies
    | ForgetCopies
    | RunProxy
    | ProxyEnded
    | ReadLog
    | Retire
)


class Request(Struct, frozen=True, forbid_unknown_fields=True):
    """From a client."""

    id: Ident
    body: RequestBody


class Reply(Struct, frozen=True, tag="reply", tag_field="k"):
    """To the client that asked."""

    id: str
    body: ReplyBody


class Order(Struct, frozen=True, tag="order", tag_field="k"):
    """To an agent, unasked. Orders of another session than the last welcome's are ignored.

    So nothing counts that was on its way when the server gave the agent up, or was another one.
    """

    session: int
    body: OrderBody


FromServer = Reply | Order
