"""What every message is made of: limits, field types, the three directions, and who may send what.

A message declares its direction by its base class (request, reply or order) and, if it is a
request, the roles that may send it by `@sent_by`. The unions that the codec decodes (bodies.py),
the server's access check (dq_server/live/access.py) and the completeness check of its handlers
(dq_server/live/requests) follow from these declarations; there is no second list to keep.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

from msgspec import Meta, Struct

PROTOCOL = 2
FRAME_BYTES_MAX = 1 << 20  # of a request
FROM_SERVER_BYTES_MAX = 64 << 20  # lists of many jobs are long
NAME_MAX = 200  # characters
COUNT_MAX, SECONDS_MAX = 10_000_000, 1e10
NODE_PROCESSORS_MAX, NODE_SPEED_MAX = 100_000, 1e9
CLUSTER_PROCESSORS_MAX = 2_000_000  # each has its place in the server's memory
MEMORY_BYTES_MAX, GPUS_MAX = 2**50, 1024
JOB_MAX = 2**53  # and of all else that has a number: exact as a float, too
TIME_S_MAX = 1e11  # since 1970
EPOCH_MAX = 2**29 - 1  # an agent's session is (epoch << 24) + n, and has 53 bits
TERM_OF_EPOCH = 20  # bits: terms of a later server are higher
TERM_MAX = (EPOCH_MAX + 1) << TERM_OF_EPOCH
USAGE_JOBS_MAX, USAGE_RANKS_MAX = 2000, 2000  # of a heartbeat, of a job in it
KEPT_OUTPUT_BYTES_MAX = 17 << 20  # of one job on one node that has left

# Every string, list and number of a request is bounded here, because a request comes from outside:
# what passes the decoder cannot fill the server's memory or overflow its arithmetic.
Name = Annotated[str, Meta(min_length=1, max_length=NAME_MAX)]
Text = Annotated[str, Meta(max_length=4000)]
Ident = Annotated[str, Meta(min_length=1, max_length=NAME_MAX, pattern=r"\A[A-Za-z0-9._:@+-]+\Z")]
Path_ = Annotated[str, Meta(max_length=4000)]
Argv = Annotated[list[Annotated[str, Meta(max_length=32_000)]], Meta(min_length=1, max_length=2000)]
Env = Annotated[dict[Name, Annotated[str, Meta(max_length=32_000)]], Meta(max_length=500)]
Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
GridText = Annotated[str, Meta(max_length=13, pattern=r"\A[0-9]{1,6}x[0-9]{1,6}\Z")]
Id = Annotated[int, Meta(ge=0, le=JOB_MAX)]
Bytes = Annotated[int, Meta(ge=0, le=MEMORY_BYTES_MAX)]
Gpus = Annotated[int, Meta(ge=0, le=GPUS_MAX)]
Feature = Annotated[str, Meta(max_length=NAME_MAX, pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_.:-]*\Z")]
HEARTBEAT_S_MAX = 3600.0  # between two of an agent
Seconds = Annotated[float, Meta(ge=0, le=SECONDS_MAX)]
Jobs = Annotated[list[Id], Meta(max_length=1000)]
Numbers = Annotated[list[Count], Meta(max_length=100_000)]
Moment = Annotated[float, Meta(ge=0, le=TIME_S_MAX)]
Protocol = Annotated[int, Meta(ge=0, le=10**6)]
Pid = Annotated[int, Meta(ge=0, le=2**31 - 1)]
ExitCode = Annotated[int, Meta(ge=-(2**31), le=2**32 - 1)]
# Of servers, and of copies of the journal (messages/standby.py). A server also refuses a step that
# is too large (dq_server/live/store/checksums.py, highest_plausible).
Epoch = Annotated[int, Meta(ge=0, le=EPOCH_MAX)]
Term = Annotated[int, Meta(ge=-1, le=TERM_MAX)]


class RankSample(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """CPU time and resident memory of a rank and of all that it has started, until now."""

    node: Name
    world: Id
    rank: Id
    cpu_s: Seconds
    memory: Bytes


class JobUsage(Struct, frozen=True, forbid_unknown_fields=True):
    """CPU time and resident memory of a start of a job on an agent's nodes.

    at_s   when it was measured, by the agent's clock
    cpu_s  of all of its processes there since its start, those that have ended included
    """

    job: Id
    instance: Id
    at_s: Seconds
    cpu_s: Seconds
    memory: Bytes
    ranks: Annotated[list[RankSample], Meta(max_length=USAGE_RANKS_MAX)] = []


class Body(Struct, frozen=True, tag_field="t", forbid_unknown_fields=True):
    """Base of all bodies. Each names its tag: the class may be renamed, its tag is on the wire."""


class RequestBody(Body, frozen=True):
    """From a client to the server; needs `@sent_by`. Answered by one ReplyBody."""


class ReplyBody(Body, frozen=True):
    """From the server to the client that asked."""


class OrderBody(Body, frozen=True):
    """From the server to an agent, unasked."""


# A viewer may look at what a user sees, and change nothing (docs/web.md).
# A standby gets all that the server has, its keys included (docs/standby.md).
USER, AGENT, JOB, VIEWER, STANDBY = ROLES = ("user", "agent", "job", "viewer", "standby")
DECLARED: dict[type[RequestBody], frozenset[str]] = {}  # `bodies.REQUESTS` is complete
R = TypeVar("R", bound=RequestBody)


def sent_by(*roles: str) -> Callable[[type[R]], type[R]]:
    """Declare which roles may send a request; the server refuses it from any other key."""
    if not roles or not set(roles) <= set(ROLES):
        raise TypeError(f"roles {roles}: one or more of {', '.join(ROLES)} are needed")

    def declare(request: type[R]) -> type[R]:
        DECLARED[request] = frozenset(roles)
        return request

    return declare


@sent_by(USER, AGENT, JOB, VIEWER, STANDBY)
class Hello(RequestBody, tag="hello", frozen=True):
    """First message: which protocol the client speaks."""

    protocol: Protocol
    program: Text = ""


class Welcome(ReplyBody, tag="welcome", frozen=True):
    """The server's answer; `epoch` grows with every start of the server.

    `session`: an agent's own, from this hello to its next; 0 for others. `term`: of the server's
    copy of the journal (messages/standby.py); -1: it does not know whether it is the newest.
    """

    protocol: int
    version: str
    epoch: int
    role: str
    session: int = 0
    term: Term = 0


class Done(ReplyBody, tag="done", frozen=True):
    """Carried out (or, for what needs a remap point or an agent, accepted)."""


class Heard(ReplyBody, tag="heard", frozen=True):
    """A heartbeat has arrived; the next is due after `next_s`."""

    next_s: Annotated[float, Meta(gt=0, le=HEARTBEAT_S_MAX)]


class Error(ReplyBody, tag="error", frozen=True):
    """`code` is one of errors.BY_CODE; `text` one line for people."""

    code: str
    text: str
