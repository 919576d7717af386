"""What `--json` prints and the page's `/api/state` answers, as types: docs/json.md is made of them.

Times are seconds since the epoch, memory is in bytes. Keys may be added in a later version; none
goes away or changes its meaning without a new `schema` number.
"""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from msgspec import Meta


def told(text: str) -> Meta:
    """What a key means."""
    return Meta(description=text)


Grid = Annotated[list[int], told("rows and columns of the process grid")]
Figures = Annotated[dict[str, Any], told("the figures of the sentence, by name")]


class Stay(TypedDict):
    """A job's stay at one size, in `sizes`."""

    processors: Annotated[int, told("the size")]
    grid: Grid
    nodes: Annotated[dict[str, str], told("slots by node, as `0-3,6`; empty: not recorded")]
    since_s: Annotated[float, told("when it began")]
    iterations: Annotated[int, told("iterations on this size")]
    iteration_time_s: Annotated[
        float | None, told("time of an iteration there; null: not measured yet")
    ]
    iteration_spread_s: Annotated[
        list[float] | None,
        told("the middle half of the iteration times lies between these two; null: too few"),
    ]
    redistribution_time_s: Annotated[float, told("what the resize to this size took")]
    decision: Annotated[
        str, told("the last one at this size: `expand`, `shrink`, `regrid`, `continue`")
    ]
    reason: Annotated[str, told("why, with its figures")]


class Place(TypedDict):
    """Where a job was, in `places`."""

    since_s: Annotated[float, told("start")]
    until_s: Annotated[float | None, told("end; null: still there")]
    nodes: Annotated[dict[str, str], told("slots by node, as `0-3,6`")]


class Protection(TypedDict):
    """Protection of a job, and its cost."""

    how: Annotated[str, told("`disk`, `partner`, or `recipe`: the program's own checkpoints")]
    restarts_max: Annotated[int, told("how often the job may be restarted")]
    copies: Annotated[int, told("copies made so far")]
    step: Annotated[int | None, told("the iteration of the newest copy")]
    copy_s: Annotated[float, told("what the newest copy took")]
    copies_total_s: Annotated[float, told("what all copies have taken")]
    bytes: Annotated[int, told("size of the newest copy")]
    error: Annotated[str | None, told("why the last copy failed; null: no failure")]


class Usage(TypedDict):
    """CPU time and memory of a job, as agents have measured them (docs/production.md)."""

    cpu: Annotated[float | None, told("processors kept busy now; null: not known")]
    cpu_s: Annotated[float, told("CPU time of all its processes so far, in seconds")]
    memory: Annotated[int | None, told("resident memory now; null: not running")]
    memory_max: Annotated[int, told("the highest total measured")]


class RankUsage(TypedDict):
    """CPU time and memory of a rank and of the processes that it has started."""

    node: Annotated[str, told("where it runs")]
    world: Annotated[int, told("0: started with the job; a later one joined it, or was spawned")]
    rank: Annotated[int, told("its number in that world")]
    cpu: Annotated[float | None, told("processors kept busy now; null: not known yet")]
    memory: Annotated[int, told("resident memory now")]


class WholeUsage(Usage):
    """`Usage` with the ranks and the history."""

    ranks: Annotated[list[RankUsage], told("the running ones")]
    history: Annotated[
        list[list[float]], told("at most 60 points: time, busy processors, resident memory")
    ]


class JobRow(TypedDict):
    """A job in a list: `dq jobs --json`."""

    id: Annotated[int, told("its number")]
    name: Annotated[str, told("its name")]
    kind: Annotated[str, told("`rigid`, `moldable`, `malleable`, `evolving` or `workers`")]
    state: Annotated[
        str,
        told(
            "`held`, `waiting` (for other jobs or a quota), `queued`, `starting`, `running`,"
            " `killing`, `restarting`, `done`, `failed` or `killed`"
        ),
    ]
    submit_s: Annotated[float, told("when it was submitted")]
    start_s: Annotated[float | None, told("when it last started; null: not yet")]
    end_s: Annotated[float | None, told("when it ended; null: not yet")]
    processors: Annotated[int, told("held now, last held, or asked for; of workers also 0")]
    grid: Grid
    sweet_spot: Annotated[int | None, told("the size past which growing does not pay, if found")]
    nodes: Annotated[list[str], told("where it runs now")]
    user: Annotated[str, told("submitting user")]
    walltime_s: Annotated[float | None, told("its limit")]
    remap_points: Annotated[int, told("number reached so far")]
    exit_code: Annotated[int | None, told("null: not ended, or killed")]
    reason: Annotated[str | None, told("why it ended")]
    memory: Annotated[int, told("requested per processor; 0: none")]
    gpus: Annotated[int, told("requested per processor")]
    constraint: Annotated[str, told("requested features of nodes")]
    attached: Annotated[bool, told("started by mpiexec, and attached")]
    after: Annotated[list[int], told("jobs that must have ended successfully before")]
    after_any: Annotated[list[int], told("jobs that must have ended before")]
    after_not: Annotated[list[int], told("jobs that must have failed before")]
    array: Annotated[int | None, told("the array that it belongs to")]
    array_index: Annotated[int | None, told("its index there")]
    application: Annotated[str, told("`--app-name`; jobs of one name share measurements")]
    spawned: Annotated[list[int], told("processors of ranks that its program has spawned itself")]
    reservation: Annotated[str, told("the advance reservation that it runs in")]
    resizes_by_restart: Annotated[bool, told("a resize ends all ranks and starts others")]
    restarts: Annotated[int, told("how often it was interrupted and queued again")]
    protection: Annotated[Protection | None, told("null: not protected")]
    retries: Annotated[int, told("how often it was started again after a failure")]
    retries_max: Annotated[int, told("`--retry`")]
    output_lost_bytes: Annotated[int, told("output that could not be written")]
    held_size: Annotated[int | None, told("`dq resize --hold`")]
    ordered_size: Annotated[int | None, told("ordered by `dq resize`, not reached yet")]
    usage: Annotated[
        Usage | None, told("CPU time and memory, or null before the first measurement")
    ]


class JobInfo(JobRow):
    """Everything about one job: `dq job ID --json`, under `job`."""

    usage: Annotated[WholeUsage | None, told("as `Usage`, with ranks and history")]  # type: ignore[misc]
    sizes: Annotated[list[Stay], told("its stays, in order")]
    legal_sizes: Annotated[list[int], told("sizes allowed for the job")]
    legal_grids: Annotated[list[Grid], told("the process grids of these sizes")]
    argv: Annotated[list[str], told("its command line")]
    cwd: Annotated[str, told("the folder that it runs in")]
    output: Annotated[str | None, told("`--output`; null: DQ keeps it")]
    error: Annotated[str | None, told("`--error`; null: DQ keeps it")]
    profile: Annotated[list[list[float]] | None, told("`--profile`: seconds and processors")]
    scheduled: Annotated[dict[str, Any] | None, told("what a job with a profile was promised")]
    ran_on: Annotated[list[str], told("nodes that may hold its output, the first node first")]
    places: Annotated[list[Place], told("its nodes over time")]


class FollowedJob(JobRow):
    """A job on the web page: a row, and its latest stays."""

    sizes: Annotated[list[Stay], told("the latest of its stays")]
    places: Annotated[list[Place], told("its nodes during these")]


class Drain(TypedDict):
    """Why a node drains."""

    asked_s: Annotated[float, told("when the drain was requested")]
    deadline_s: Annotated[float | None, told("when the remaining jobs are killed")]
    by: Annotated[str, told("requesting user")]
    reason: Annotated[str, told("the reason given")]
    leaves: Annotated[bool, told("true: the node leaves when it is empty")]


class KnownNode(TypedDict):
    """A node on the web page, without values that change often."""

    name: Annotated[str, told("its name")]
    state: Annotated[str, told("`asked`, `starting`, `up`, `draining`, `empty`, `left` or `lost`")]
    processors: Annotated[int, told("ranks at a time")]
    speed: Annotated[float, told("relative to other nodes")]
    memory: Annotated[int | None, told("available to jobs; null: not known")]
    gpus: Annotated[int, told("available to jobs")]
    features: Annotated[list[str], told("names that jobs may ask for")]
    host: Annotated[str, told("the machine")]
    drain: Annotated[Drain | None, told("null: not draining")]
    until_s: Annotated[float | None, told("when its time ends, if that is known")]
    queue: Annotated[str | None, told("queue of the pool that it was requested from")]


class NodeRow(KnownNode):
    """A node: `dq nodes --json`."""

    idle: Annotated[int, told("processors without a job")]
    memory_used: Annotated[int, told("granted to jobs")]
    gpus_used: Annotated[int, told("granted to jobs")]
    processors_gone: Annotated[int, told("former processors that are missing")]
    load: Annotated[
        float, told("processors of its machine that processes outside DQ keep busy; 0: none known")
    ]
    kept: Annotated[int, told("idle processors kept for one job")]
    jobs: Annotated[list[int], told("those with processors there")]
    owners: Annotated[list[int], told("the job of each processor; 0: none")]


class Reason(TypedDict):
    """A sentence with its figures."""

    code: Annotated[str, told("identifier of the sentence, for programs")]
    text: Annotated[str, told("the sentence, for people")]
    figures: Figures


class Told(Reason):
    """An entry of a job's story."""

    time_s: Annotated[float, told("when")]
    what: Annotated[str, told("`start`, `expand`, `shrink`, `continue`, `committed`, `done` ...")]


class Why(TypedDict):
    """Why a job is where it is."""

    job: Annotated[int, told("its number")]
    state: Annotated[str, told("its state")]
    now: Annotated[list[Reason], told("why it is there")]
    story: Annotated[list[Told], told("decisions, in order")]


class WhyAnswer(Why):
    """`dq why ID --json`."""

    schema: Annotated[int, told("1")]


class Decision(Reason):
    """A decision on the web page."""

    event: Annotated[int, told("number in the journal")]
    time_s: Annotated[float, told("when")]
    what: Annotated[str, told("as in a story; also `submit`, `node up`, `node lost` ...")]
    job: Annotated[int, told("the job; 0: none")]
    node: Annotated[str, told("the node; empty: none")]
    processors: Annotated[int | None, told("the size decided, if there was one")]


class Status(TypedDict):
    """The cluster as a whole, on the web page."""

    up: Annotated[bool, told("a server answers")]
    why: Annotated[str, told("why not")]
    epoch: Annotated[int, told("of the server; a newer one has a larger one")]
    processors: Annotated[int, told("of all nodes that are up")]
    idle: Annotated[int, told("of these, without a job")]
    paused: Annotated[str, told("why grants are paused; empty: not paused")]


class JobsAnswer(TypedDict):
    """`dq jobs --json`."""

    schema: Annotated[int, told("1")]
    jobs: Annotated[list[JobRow], told("oldest first")]


class NodesAnswer(TypedDict):
    """`dq nodes --json`."""

    schema: Annotated[int, told("1")]
    nodes: Annotated[list[NodeRow], told("by number")]


class Quota(TypedDict):
    """Limits and usage of one user or group."""

    kind: Annotated[str, told("`user` or `group`")]
    name: Annotated[str, told("of the user or group; `*`: any user without a table")]
    table: Annotated[str, told("the table of the configuration file with the limits")]
    members: Annotated[list[str], told("of a group; empty: a user")]
    processors: Annotated[int, told("held by jobs that run or restart, reserved ones included")]
    processors_next: Annotated[int, told("needed by jobs in the queue, which may start any time")]
    processors_max: Annotated[int | None, told("the limit for both together; null: none")]
    jobs: Annotated[int, told("jobs that run or restart")]
    jobs_next: Annotated[int, told("jobs in the queue, which may start any time")]
    jobs_max: Annotated[int | None, told("the limit for both together; null: none")]
    waiting: Annotated[int, told("jobs in state `waiting`, for a quota or for other jobs")]
    queued: Annotated[int, told("jobs in the system, without ended ones")]
    queued_max: Annotated[int | None, told("the limit on that; null: none")]
    hours: Annotated[float | None, told("processor-hours used in the window; null: not limited")]
    hours_max: Annotated[float | None, told("the limit on that; null: none")]
    window_s: Annotated[float | None, told("the length of the window; null: hours not limited")]
    free_s: Annotated[
        float | None, told("hours used up: when the next job may start; null: not so, or never")
    ]


class QuotasAnswer(TypedDict):
    """`dq quotas --json`."""

    schema: Annotated[int, told("1")]
    quotas: Annotated[list[Quota], told("users, then groups")]


class JobNumber(TypedDict):
    """A job that was submitted."""

    id: Annotated[int, told("its number, or the number of its array")]


class _Submitted(TypedDict):
    schema: Annotated[int, told("1")]
    job: Annotated[JobNumber, told("the job, or the array")]


class SubmitAnswer(_Submitted, total=False):
    """`dq submit --json`."""

    jobs: Annotated[list[int], told("of an array: the numbers of its jobs")]


class State(TypedDict):
    """The web page's `/api/state`, and each event of `/api/events`."""

    schema: Annotated[int, told("1")]
    now_s: Annotated[float, told("the time of the answer")]
    place: Annotated[str, told("for `/api/events?place=`, which sends the changes after it")]
    whole: Annotated[bool, told("true: discard what was received before")]
    status: Status
    jobs: Annotated[list[FollowedJob], told("new and changed ones")]
    nodes: Annotated[list[KnownNode], told("new and changed ones")]
    gone: Annotated[list[int | str], told("jobs and nodes that were removed")]
    decisions: Annotated[list[Decision], told("made since the last answer")]
