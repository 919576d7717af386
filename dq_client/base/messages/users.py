"""Requests of users (the command line and programs that use it), and their replies."""

# ruff: noqa: RUF012 - msgspec copies a mutable default for every message

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from dq_client.base.messages.base import (
    USER,
    VIEWER,
    Argv,
    Bytes,
    Count,
    Env,
    Gpus,
    GridText,
    Id,
    Ident,
    Jobs,
    Moment,
    Name,
    Path_,
    Pid,
    ReplyBody,
    RequestBody,
    Seconds,
    Text,
    sent_by,
)


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

    See dq_server.core.model.spec.Protection for the fields.
    """

    how: Name = "disk"
    every_points: Count | None = None
    every_s: Seconds | None = None
    folder: Path_ = ""
    restarts: Count = 3
    budget: Annotated[float, Meta(gt=0, le=1)] | None = None


class Part(Struct, frozen=True, forbid_unknown_fields=True):
    """Ranks of a start of several programs: so many, after those of the parts before."""

    ranks: Annotated[int, Meta(ge=1, le=100_000)]
    argv: Argv


class Workers(Struct, frozen=True, forbid_unknown_fields=True):
    """How the processes of a job of workers are ended (docs/workers.md)."""

    stop_signal: Annotated[int, Meta(ge=1, le=64)] = 15
    grace_s: Seconds = 10.0  # then it is killed


Priority = Annotated[int, Meta(ge=-(2**31), le=2**31)]
ArrayIndices = Annotated[list[Count], Meta(min_length=1, max_length=10_000)]


class Array(Struct, frozen=True, forbid_unknown_fields=True):
    """An array of jobs: one for each index, at most so many at once (0: any number).

    `lines`: what each job is given besides, in the order of the indices; empty: nothing.
    """

    indices: ArrayIndices
    at_most: Count = 0
    lines: Annotated[list[Text], Meta(max_length=10_000)] = []


@sent_by(USER)
class Submit(RequestBody, tag="submit", frozen=True):
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
    priority: Priority = 0
    hold: bool = False
    app_name: Text = ""  # jobs with the same one learn from each other's runs
    reservation: Text = ""  # the advance reservation to run in
    after: Jobs = []  # must have ended successfully first; 0: the last one submitted
    after_any: Jobs = []  # must have ended
    profile: Annotated[list[tuple[Count, Count]], Meta(max_length=10_000)] = []
    # steps (seconds, processors) of an evolving job whose evolution is known
    protect: Protect | None = None
    input: Path_ = ""  # standard input of rank 0; empty: there is none
    label: bool = False  # the rank before each line of output
    exec_only: bool = False  # ranks are executed, not forked from a starter
    parts: Annotated[list[Part], Meta(max_length=1000)] = []  # several programs; `argv`: all words
    watch: Text = ""  # what is done when a rank is missing; empty: as the cluster says
    memory: Bytes = 0  # of its node, for each rank
    gpus: Gpus = 0  # of its node, for each rank
    constraint: Text = ""  # features of the nodes: a&b|c
    output: Path_ = ""  # pattern of the file for its output; empty: in the job's folder
    error: Path_ = ""  # the same for its errors
    retry: Annotated[int, Meta(ge=0, le=1000)] = 0  # how often it starts again when it has failed
    array: Array | None = None
    after_not: Jobs = []  # must have failed, or been killed
    workers: Workers | None = None  # of kind workers
    recipe: Annotated[str, Meta(max_length=60_000)] = ""  # recipes/recipe.py; empty: it has none


class Submitted(ReplyBody, tag="submitted", frozen=True):
    """The job is safe in the journal; of an array its id, and those of its `jobs`."""

    job: int
    jobs: list[int] = []


@sent_by(USER)
class Attach(RequestBody, tag="attach", frozen=True):
    """The ranks of a program that runs, started by somebody's mpiexec, want to be a job.

    Rank r is process `pids[r]` of the machine `machines[machine_of[r]]` (home.machine). The rest is
    as in a submission. Answered by Attached, or by Error: then the program goes on without.
    """

    submission: Submit
    machines: Annotated[list[Text], Meta(min_length=1, max_length=10_000)]
    machine_of: Annotated[list[Id], Meta(min_length=1, max_length=100_000)]
    pids: Annotated[list[Pid], Meta(min_length=1, max_length=100_000)]


class Attached(ReplyBody, tag="attached", frozen=True):
    """They are one: the agents take the ranks in.

    env     what the ranks of a job have in their environment (docs/ranks.md)
    nodes   rank r runs on nodes[r], and is taken in by the keeper of the agent agents[nodes[r]]
    """

    job: int
    instance: int
    env: dict[str, str]
    nodes: list[str]
    agents: dict[str, str]


@sent_by(USER, VIEWER)
class JobQuery(RequestBody, tag="job", frozen=True):
    """One job; 0 stands for the last one submitted."""

    job: Id


@sent_by(USER, VIEWER)
class JobsQuery(RequestBody, tag="jobs", frozen=True):
    """Jobs that the server remembers, oldest first; `active_only` leaves out the ended ones.

    after    those behind this one
    at_most  so many of them, and `Data.more` says after which the rest comes; 0: all
    """

    active_only: bool = False
    after: Id = 0
    at_most: Count = 0


@sent_by(USER, VIEWER)
class NodesQuery(RequestBody, tag="nodes", frozen=True):
    """Nodes in the order in which they joined; see JobsQuery. After one that is gone: all again."""

    after: Text = ""
    at_most: Count = 0


@sent_by(USER, VIEWER)
class PoolQuery(RequestBody, tag="pool", frozen=True):
    """The pool: what it may have, its tickets, its last decisions. Error if there is none."""


@sent_by(USER, VIEWER)
class QuotasQuery(RequestBody, tag="quotas", frozen=True):
    """Quotas: what users and groups may have, and have."""


@sent_by(USER)
class DrainNode(RequestBody, tag="drain", frozen=True):
    """Nothing new runs on a node, and what runs there leaves. Answered by its row of NodesQuery.

    within_s  what is left there then is ended; None: it may stay for as long as it needs
    remove    the node leaves the cluster once it is empty
    """

    node: Name
    within_s: Seconds | None = None
    reason: Text = ""
    remove: bool = False


@sent_by(USER)
class ResumeNode(RequestBody, tag="resume", frozen=True):
    """A node shall not drain any more. Answered by its row of NodesQuery."""

    node: Name


@sent_by(USER, VIEWER)
class WhyQuery(RequestBody, tag="why", frozen=True):
    """Why is the job where it is?"""

    job: Id


@sent_by(USER, VIEWER)
class StatusQuery(RequestBody, tag="status", frozen=True):
    """The server itself."""


@sent_by(USER, VIEWER)
class TimelineQuery(RequestBody, tag="timeline", frozen=True):
    """Sizes of all jobs over time, for reports."""


@sent_by(USER, VIEWER)
class Since(RequestBody, tag="since", frozen=True):
    """What has changed: jobs, nodes and decisions. Answered by Data (dq_server/live/views/feed.py).

    A client asks with what the last answer told it, so that nothing is missed and nothing is sent
    twice; at first, and when the server is another one (epoch), it gets everything.

    epoch   of the last answer; 0: there was none
    seq     of the last answer: the number of the last change
    event   of the last answer: the last event of the journal whose decisions are known; None: only
            the latest decisions are wanted
    wait_s  how long the answer may wait until there is something to say
    job     0: of all jobs, nodes and decisions; else of this job alone
    stories_s   None: of a job what lists have; else all that JobQuery and WhyQuery answer, and of
            its story what was decided after this time
    """

    epoch: Id = 0
    seq: Id = 0
    event: Id | None = None
    wait_s: Annotated[float, Meta(ge=0, le=60)] = 0.0
    job: Id = 0
    stories_s: Moment | None = None


class Data(ReplyBody, tag="data", frozen=True):
    """Answer to any query: plain data, as the command line prints it with --json.

    more  of a list that has not been told in full: the id or the name of its last row
    """

    data: Any
    more: int | str | None = None


@sent_by(USER)
class Kill(RequestBody, tag="kill", frozen=True):
    """Kill a job."""

    job: Id


@sent_by(USER)
class Hold(RequestBody, tag="hold", frozen=True):
    """Keep a queued job from starting."""

    job: Id


@sent_by(USER)
class Release(RequestBody, tag="release", frozen=True):
    """Let a held job start."""

    job: Id


@sent_by(USER)
class Edit(RequestBody, tag="edit", frozen=True):
    """Change a job that waits; None: as it is."""

    job: Id
    walltime_s: Seconds | None = None
    priority: Priority | None = None


@sent_by(USER)
class Resize(RequestBody, tag="resize", frozen=True):
    """Bring a job to this size at its next remap point; `rows`: of the grid, 0: any.

    `hold`: it stays there until ReleaseSize, or until the next Resize. Answered by Ordered.
    """

    job: Id
    size: Count
    rows: Count = 0
    hold: bool = False


class Ordered(ReplyBody, tag="ordered", frozen=True):
    """A Resize was accepted. `replaces`: the size of an order that was not carried out yet;
    `held`: the size that the job was held at so far; 0 each: there was none. `at_once`: of a job of
    workers, which waits for no remap point."""

    replaces: int = 0
    held: int = 0
    at_once: bool = False


@sent_by(USER)
class ReleaseSize(RequestBody, tag="releasesize", frozen=True):
    """The size that a job is held at may change again."""

    job: Id


@sent_by(USER)
class Reserve(RequestBody, tag="reserve", frozen=True):
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


@sent_by(USER)
class CancelReservation(RequestBody, tag="unreserve", frozen=True):
    """The reservation is no more; its jobs go on as ordinary ones."""

    name: Ident


@sent_by(USER)
class PlanMaintenance(RequestBody, tag="maintain", frozen=True):
    """Nodes are to be empty for a while. `request` makes repeats harmless.

    in_s  it begins so long after the server got this
    """

    request: Name
    name: Ident
    nodes: Annotated[list[Ident], Meta(min_length=1, max_length=10_000)]
    in_s: Seconds
    duration_s: Seconds
    reason: Text = ""


@sent_by(USER)
class CancelMaintenance(RequestBody, tag="unmaintain", frozen=True):
    """The window is no more; its nodes are offered again."""

    name: Ident


@sent_by(USER, VIEWER)
class MaintenanceQuery(RequestBody, tag="maintenance", frozen=True):
    """All maintenance windows that are not over."""


@sent_by(USER, VIEWER)
class ReservationsQuery(RequestBody, tag="reservations", frozen=True):
    """All reservations that are not over."""


@sent_by(USER, VIEWER)
class LogsQuery(RequestBody, tag="logs", frozen=True):
    """A piece of a job's output from `offset` on.

    `node`: what lies there; empty: on the node that the job started on. Where nodes share a home
    both are the same file.
    """

    job: Id
    stream: Text = "out"
    offset: Id = 0
    node: Text = ""


class LogPiece(ReplyBody, tag="logpiece", frozen=True):
    """`data` is at most a frame's worth; `end`: the job has ended and this is all there is.

    `home` is the same wherever the output is the same. `elsewhere`: nodes of other agents that have
    started ranks of the job.
    """

    data: bytes
    offset: int
    end: bool
    home: str = ""
    elsewhere: list[str] = []


@sent_by(USER)
class Stop(RequestBody, tag="stop", frozen=True):
    """Stop the server; with `force` its jobs are killed first."""

    force: bool = False
