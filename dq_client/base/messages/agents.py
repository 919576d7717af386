"""Requests of node agents, and the orders that the server gives them.

Requests come first. Orders repeat what the server's state wants, so one that is lost is given
again after the next heartbeat.
"""

# ruff: noqa: RUF012 - msgspec copies a mutable default for every message

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from dq_client.base.messages.applications import RankPlace
from dq_client.base.messages.base import (
    AGENT,
    FRAME_BYTES_MAX,
    JOB_MAX,
    NODE_PROCESSORS_MAX,
    NODE_SPEED_MAX,
    USAGE_JOBS_MAX,
    Argv,
    Bytes,
    Env,
    Epoch,
    ExitCode,
    Feature,
    Gpus,
    Id,
    Ident,
    JobUsage,
    Moment,
    Name,
    Numbers,
    OrderBody,
    Pid,
    Protocol,
    RequestBody,
    Seconds,
    Term,
    Text,
    sent_by,
)

Pace = Annotated[float, Meta(ge=0, le=1e12)]


class NodeInfo(Struct, frozen=True, forbid_unknown_fields=True):
    """A node an agent stands for.

    memory     in bytes; 0: not known
    gpus       how many it offers, and the number of its first one: nodes of one machine share them
    until_s  its time ends then (seconds since the epoch): it drains before; None: that is not known
    ticket   of the pool, under which it was asked for; 0: it was not asked for
    """

    name: Name
    processors: Annotated[int, Meta(ge=1, le=NODE_PROCESSORS_MAX)]
    host: Name
    speed: Annotated[float, Meta(gt=0, le=NODE_SPEED_MAX)] = 1.0
    core_share: Pace | None = None  # emulated by pacing: share of a core of the machine
    link_mbit: Pace | None = None  # emulated by pacing: rate of its link
    link_latency_us: Pace | None = None
    link_duplex: Name = "full"
    memory: Bytes = 0
    gpus: Gpus = 0
    first_gpu: Gpus = 0
    features: Annotated[list[Feature], Meta(max_length=1000)] = []
    until_s: Moment | None = None
    ticket: Id = 0


class Holding(Struct, frozen=True, forbid_unknown_fields=True):
    """One job instance an agent has processes of."""

    job: Id
    instance: Id
    first: bool  # this agent started the application itself (mpiexec, ranks), not only a proxy
    pid: Pid
    create_time: Moment
    running: bool
    # Worlds other than 0 of which ranks are here, joined or waiting: an order for another is lost.
    worlds: Annotated[list[Id], Meta(max_length=10_000)] = []


class Trouble(Struct, frozen=True, forbid_unknown_fields=True):
    """What goes wrong on an agent's disk without ending a job; job 0: nothing can be started."""

    job: Id
    text: Text


class CopiesHeld(Struct, frozen=True, forbid_unknown_fields=True):
    """Copies of a job's data that an agent looks after; `in_memory`: some are not on disk."""

    job: Id
    in_memory: bool


@sent_by(AGENT)
class AgentHello(RequestBody, tag="agenthello", frozen=True):
    """An agent reports for duty, with everything it holds."""

    protocol: Protocol
    agent: Name
    nodes: Annotated[list[NodeInfo], Meta(min_length=1, max_length=10_000)]
    holdings: Annotated[list[Holding], Meta(max_length=10_000)] = []
    pid: Pid = 0
    life: Text = ""  # tells this process from earlier ones of the same name
    machine: Text = ""  # where it takes in ranks that others have started (home.machine); or not
    home: Text = ""  # tells whether it shares the server's DQ_HOME (Home.identity)
    version: Text = ""  # of DQ


@sent_by(AGENT)
class Heartbeat(RequestBody, tag="heartbeat", frozen=True):
    """Still here, with everything it holds: sent after the welcome to `session`.

    `load`: processors of its machine that processes outside DQ keep busy; 0: none, or not known.
    `leaving_s`: the agent was told to go: its nodes are to be empty after so long, because of
    `leaving_why`. It waits for the order Retire. `promised`, `term`: as in a Ballot.
    `usage`: of all jobs here, in the heartbeats for which it was measured; else empty.
    """

    session: Id
    holdings: Annotated[list[Holding], Meta(max_length=10_000)] = []
    load: Annotated[float, Meta(ge=0, le=NODE_PROCESSORS_MAX)] = 0.0
    leaving_s: Seconds | None = None
    leaving_why: Text = ""
    troubles: Annotated[list[Trouble], Meta(max_length=10_000)] = []
    promised: Epoch = 0
    term: Term = 0
    copies: Annotated[list[CopiesHeld], Meta(max_length=10_000)] = []
    usage: Annotated[list[JobUsage], Meta(max_length=USAGE_JOBS_MAX)] = []


@sent_by(AGENT)
class AppStarted(RequestBody, tag="appstarted", frozen=True):
    """The application's processes run."""

    job: Id
    instance: Id
    pid: Pid


@sent_by(AGENT)
class AppEnded(RequestBody, tag="appended", frozen=True):
    """The application has ended; `error`: why it could not be started, or has lost ranks.

    DQ's own ranks: all of them on this agent's nodes have ended well (exit code 0, no error), or
    one of them has failed, and the others, wherever they are, shall end. The server answers "later"
    to the first until the ranks on all of the job's nodes have ended; until it is acknowledged, the
    agent goes on to list the start among its holdings. Ranks that still wait to join do not count.
    `world`: the newest world of this start of which ranks here were part of the job; a report that
    was under way while another world joined says nothing about that one, and the agent withdraws
    or replaces it. `cpu_s`: as in JobUsage; 0: not measured.
    """

    job: Id
    instance: Id
    exit_code: ExitCode
    error: Text = ""
    world: Id = 0
    cpu_s: Seconds = 0.0


@sent_by(AGENT)
class WorldEnded(RequestBody, tag="worldended", frozen=True):
    """All ranks of a spawned world on this agent's nodes have ended, and the job goes on.

    The server answers "later" until those on all nodes of the world have; then it takes the world's
    processors back. It changes nothing for a world that joined the job.
    """

    job: Id
    instance: Id
    world: Id


@sent_by(AGENT)
class OutputLost(RequestBody, tag="outputlost", frozen=True):
    """So much of what ranks on `node` have written in this start could not be kept, in all.

    Said once no more of it can be saved; a repeat changes nothing.
    """

    job: Id
    instance: Id
    node: Name
    lost_bytes: Bytes
    why: Text = ""


@sent_by(AGENT)
class RankLost(RequestBody, tag="ranklost", frozen=True):
    """Ranks on this agent's nodes ended without leaving their job, which goes on without them."""

    job: Id
    instance: Id
    why: Text


@sent_by(AGENT)
class Vacated(RequestBody, tag="vacated", frozen=True):
    """No process of this start of the job is left on these processors.

    `pids`, `world`: of the order (Vacate) that this confirms.
    """

    job: Id
    instance: Id
    processors: Numbers
    pids: Annotated[list[Pid], Meta(max_length=100_000)] = []
    world: Annotated[int, Meta(ge=-1, le=JOB_MAX)] = -1


@sent_by(AGENT)
class RemoteRun(RequestBody, tag="remoterun", frozen=True):
    """MPI's launcher wants `argv` run on `host` for this job: a proxy on another node.

    `run` names this proxy: the same RemoteRun again starts nothing, but tells its end again.
    """

    run: Ident
    job: Id
    instance: Id
    host: Name
    argv: Argv
    env: Env = {}


@sent_by(AGENT)
class RemoteEnded(RequestBody, tag="remoteended", frozen=True):
    """The proxy `run` has ended; `asker`: the agent that asked for it."""

    run: Ident
    exit_code: ExitCode
    error: Text = ""
    asker: Text = ""


EVERYBODY = "*"  # as the node of a Relay: all other agents with ranks of the job


@sent_by(AGENT)
class Relay(RequestBody, tag="relay", frozen=True):
    """Hand this to the agent of `node`, whose ranks belong to the same start of the job.

    `data` is between the two agents' keepers (docs/ranks.md): the keys and barriers of an MPI world
    that spans nodes, and who has come up. It may be lost with a server; who needs it says it again.
    """

    job: Id
    instance: Id
    node: Name
    data: Annotated[bytes, Meta(max_length=FRAME_BYTES_MAX)]


@sent_by(AGENT)
class SpawnRanks(RequestBody, tag="spawnranks", frozen=True):
    """A rank calls MPI_Comm_spawn: where may `len(program_of)` ranks run?

    `world`: the resize whose ranks these are, if the resize library calls it (growth by spawn);
    0: the program itself calls it. Answered by Done, and the order StartRanks follows, or by Error.
    Repeated until it is answered: the same ticket gets the same answer. After Done the server sees
    to it that the ranks are started.
    """

    job: Id
    instance: Id
    ticket: Id  # counts the spawns of this start; a repeat starts nothing twice
    world: Id
    programs: Annotated[list[Argv], Meta(min_length=1, max_length=1000)]
    program_of: Annotated[list[Id], Meta(min_length=1, max_length=100_000)]
    cwd: Text = ""
    keys: Env = {}


@sent_by(AGENT)
class AgentRetired(RequestBody, tag="retired", frozen=True):
    """The order Retire was carried out: nothing is left here, and the agent ends now."""


@sent_by(AGENT)
class LogAnswer(RequestBody, tag="loganswer", frozen=True):
    """An agent's answer to the order ReadLog."""

    ticket: Id
    data: Annotated[bytes, Meta(max_length=FRAME_BYTES_MAX)]
    offset: Id
    end: bool
    home: Text = ""  # Home.identity: agents with the same one read the same files


@sent_by(AGENT)
class KeepLog(RequestBody, tag="keeplog", frozen=True):
    """What ranks of a job have written on a node that leaves: a piece, for the server to keep.

    Answered by Done, or by Error if it is not wanted; said again until one of them comes.
    """

    job: Id
    node: Name
    stream: Name  # of ranks/marks.py, FILES
    offset: Id
    data: Annotated[bytes, Meta(max_length=FRAME_BYTES_MAX)]
    last: bool  # there is no more of it


class Launch(OrderBody, tag="launch", frozen=True):
    """Start the application: `places` in rank order."""

    job: int
    instance: int
    argv: list[str]
    cwd: str
    env: dict[str, str]
    places: list[RankPlace]


class StartRanks(OrderBody, tag="startranks", frozen=True):
    """Start an MPI world of the job, or this agent's part of it: rank r runs at `places[r]`.

    Every agent with one of the places gets the same order. A world that was started, or ended, is
    not started again.
    """

    job: int
    instance: int
    world: int  # 0: the job's start; the id of the resize whose ranks these are; or of a spawn
    programs: list[list[str]]
    program_of: list[int]  # rank r runs programs[program_of[r]]; empty: all run the first
    cwd: str
    env: dict[str, str]
    places: list[RankPlace]
    root: str = ""  # the node of the job's rank 0, which is told when the ranks are ready to join
    input: str = ""  # rank 0's standard input; empty: there is none
    label: bool = False  # put the rank before each line of output
    exec_only: bool = False  # no starter
    spawned: bool = False  # by MPI_Comm_spawn
    keys: dict[str, str] = {}  # of MPI_Comm_spawn, for the new world
    adopted: list[int] = []  # its ranks run already, with these pids: they are taken in (Attach)
    out: str = ""  # the file for what the ranks write; empty: in the job's folder
    err: str = ""
    gpus: list[list[int]] = []  # rank r may use gpus[r] of its machine; empty: nothing was granted
    worker: bool = False  # a process without MPI, the only one of its world (docs/workers.md)


class Relayed(OrderBody, tag="relayed", frozen=True):
    """What the agent of `node` said by Relay."""

    job: int
    instance: int
    node: str
    data: bytes


class KillTree(OrderBody, tag="killtree", frozen=True):
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


class SaveCopies(OrderBody, tag="savecopies", frozen=True):
    """Write what this agent's nodes hold in memory of the job's copies to disk."""

    job: int
    instance: int
    places: CopyPlaces


class ForgetCopies(OrderBody, tag="forgetcopies", frozen=True):
    """The job has ended: its copies are of no use any more."""

    job: int
    places: CopyPlaces


class Vacate(OrderBody, tag="vacate", frozen=True):
    """Make these processors empty, and report `Vacated`.

    `pids` are processes about to leave: the agent waits for them, and kills them after 30 s.
    Without any, it ends all of the job's processes. `save`: the job will be restarted; copies held
    in memory shall be on disk before the report. `world`: if that is 0 or more, the job goes on,
    and it is this world whose ranks end here (its expansion was aborted, or it was spawned and has
    ended); no order that comes later may start it.
    """

    job: int
    instance: int
    processors: list[int]
    pids: list[int]
    save: CopyPlaces | None = None
    world: int = -1
    stop_signal: int = 0  # for the ranks of `world`; 0: they are killed at once
    grace_s: float = 0.0  # after it they are killed


class RunProxy(OrderBody, tag="runproxy", frozen=True):
    """Run MPI's proxy for this job; report RemoteEnded with `run` when it ends."""

    run: str
    job: int
    instance: int
    argv: list[str]
    env: dict[str, str]
    asker: str = ""  # the agent that wants to hear of the end


class ProxyEnded(OrderBody, tag="proxyended", frozen=True):
    """To the agent that asked for a RemoteRun: it has ended."""

    run: str
    exit_code: int
    error: str = ""


class ReadLog(OrderBody, tag="readlog", frozen=True):
    """Answer with LogAnswer."""

    ticket: int
    job: int
    stream: str
    offset: int


class Retire(OrderBody, tag="retire", frozen=True):
    """The agent does not have these nodes any more: nothing is left there, and they have left.

    Without any: the cluster goes down; the agent says AgentRetired and ends (its jobs are gone
    already). An agent without nodes ends.
    """

    nodes: list[str] = []
