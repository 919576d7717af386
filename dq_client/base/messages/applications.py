"""Requests of running applications, and their replies.

Rank 0 sends them; GaveUp and RankReport come from any rank, JobJoining from ranks that will join.
"""

# ruff: noqa: RUF012 - msgspec copies a mutable default for every message

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from dq_client.base.messages.base import (
    JOB,
    Count,
    Id,
    Numbers,
    OrderBody,
    Pid,
    Protocol,
    ReplyBody,
    RequestBody,
    Seconds,
    Text,
    sent_by,
)

PASSED_MAX = 100  # times at remap points that one report has


class RankPlace(Struct, frozen=True, forbid_unknown_fields=True):
    """One processor of a job: rank r runs at places[r]."""

    processor: int
    node: str
    host: str  # what MPI calls the node
    speed: float = 1.0
    core_share: float | None = None  # emulated nodes: share of a real core


@sent_by(JOB)
class JobHello(RequestBody, tag="jobhello", frozen=True):
    """The application's first rank reports.

    `legal`: the sizes that its program can run on, ascending; empty: all.
    """

    protocol: Protocol
    processors: Count
    legal: Numbers = []


@sent_by(JOB)
class JobJoining(RequestBody, tag="jobjoining", frozen=True):
    """Ranks that were started for the resize `resize_id` ask where they will be in the job.

    Answered by a JobWelcome with the grid and the places that the job has once they have joined.
    """

    protocol: Protocol
    resize_id: Id


class JobWelcome(ReplyBody, tag="jobwelcome", frozen=True):
    """Where the application runs and on which grid it should."""

    job: int
    instance: int
    epoch: int
    places: list[RankPlace]
    rows: int
    cols: int
    link_mbit: float | None = None
    link_latency_us: float | None = None
    link_duplex: str = "full"
    reports: bool = True  # False: nobody needs the remap points of this job


@sent_by(JOB)
class RemapPoint(RequestBody, tag="remap", frozen=True):
    """Iterations are done. See dq_server.core.model.events.RemapPoint for the fields.

    step    iterations done; for people who read the messages, the server does not use it
    rests   it may be told to rest: RemapAnswer.rest
    silent  remap points passed without a report, because the job rests (RemapAnswer.rest)
    passed  iteration times (s) at the last of them, oldest first
    """

    seq: Id
    processors: Count
    resize_id: Id
    iteration_time_s: Seconds
    redistribution_time_s: Seconds = 0.0
    step: Id = 0
    preparing: Id = 0  # a granted expansion whose ranks are still starting
    iterations: Count = 1
    loop: Text = ""
    rests: bool = False
    silent: Id = 0
    passed: Annotated[list[Seconds], Meta(max_length=PASSED_MAX)] = []


class Ring(OrderBody, tag="ring", frozen=True):
    """To a job that rests: report your next remap point, its answer may be another one now."""


@sent_by(JOB)
class DynamicRequest(RequestBody, tag="dynrequest", frozen=True):
    """An evolving application asks for processors.

    See dq_server.core.model.events.DynamicRequested for the fields.
    """

    request: Id
    more: Count
    timeout_s: Seconds = 0.0


@sent_by(JOB)
class DynamicRelease(RequestBody, tag="dynrelease", frozen=True):
    """It gives some back: these, or `count` that the scheduler chooses."""

    request: Id
    count: Count = 0
    processors: Numbers = []


class DynamicAnswer(ReplyBody, tag="dynanswer", frozen=True):
    """granted, rejected, waiting, or accepted (a release): carried out at the next remap point.

    `available_in_s`: when the processors are expected to be there; None: nobody knows.
    """

    request: int
    what: str
    more: int
    available_in_s: float | None = None
    reason: str = ""


class RemapAnswer(ReplyBody, tag="remapanswer", frozen=True):
    """continue, expand (by `places`), shrink (off `places`) or regrid (same places).

    The new grid is rows x cols.

    `asked`: how the application's latest dynamic request stands.
    `rest`: so many remap points need no report, unless iterations take other than `usual_s`, or the
    server rings (Ring).
    """

    what: str
    resize_id: int = 0
    places: list[RankPlace] = []
    rows: int = 0
    cols: int = 0
    reason: str = ""
    asked: DynamicAnswer | None = None
    rest: int = 0
    usual_s: float = 0.0


@sent_by(JOB)
class Committed(RequestBody, tag="committed", frozen=True):
    """The resize is done.

    pids: the processes that leave, one per released processor. carried: which of the program's own
    variables travelled to ranks that joined, for people
    """

    resize_id: Id
    redistribution_time_s: Seconds = 0.0
    pids: Annotated[list[Pid], Meta(max_length=100_000)] = []
    carried: Annotated[str, Meta(max_length=1000)] = ""


@sent_by(JOB)
class ResizesByRestart(RequestBody, tag="byrestart", frozen=True):
    """No rank can join this program or leave it: a resize ends all of them (docs/mpi.md)."""


@sent_by(JOB)
class RestartReady(RequestBody, tag="restartready", frozen=True):
    """What is declared is in a complete copy; if that is accepted, all ranks end for the resize."""

    resize_id: Id


@sent_by(JOB)
class CopyMade(RequestBody, tag="copymade", frozen=True):
    """The data of a protected job was copied. See dq_server.core.model.events.CopyMade."""

    step: Id
    took_s: Seconds
    nbytes: Id
    error: Text = ""


@sent_by(JOB)
class RanksLost(RequestBody, tag="rankslost", frozen=True):
    """Ranks of a protected job died, the others have regrouped: on what may they go on?

    Answered by a RemapAnswer: `shrink` off the dead processors and those that are not needed, to be
    committed as any other; or `continue`: not in place.
    """

    processors: Numbers


@sent_by(JOB)
class GaveUp(RequestBody, tag="gaveup", frozen=True):
    """A rank says why it ends: the program's own failure, not a loss."""

    why: Text


@sent_by(JOB)
class RankReport(RequestBody, tag="rankreport", frozen=True):
    """A rank that does not get on, or has left the others, says where it is.

    See dq_server.core.model.events.RankReported for the fields.
    """

    rank: Id
    what: Literal["left", "stays", "goes on"]
    turns: Id = 0
    where: Text = ""
    waits: bool = False
    for_s: Seconds = 0.0
    usual_s: Seconds = 0.0
    over: bool = False


@sent_by(JOB)
class WorkDone(RequestBody, tag="workdone", frozen=True):
    """The program of a resized or protected job has left its session in order: its end follows.

    resize_id: the last resize that it carried out, 0 if there was none
    """

    resize_id: Id = 0


@sent_by(JOB)
class Aborted(RequestBody, tag="aborted", frozen=True):
    """The resize did not happen; the application goes on at its old size.

    mistake: of the program, so that another try would end as this one has.
    """

    resize_id: Id
    why: Text
    mistake: bool = False
