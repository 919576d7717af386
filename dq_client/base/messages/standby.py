"""What a standby, the server that it follows, and the agents say to each other (docs/standby.md).

`epoch` counts servers, `term` counts copies of the journal: who has the copy of the newest term may
become the server. An agent keeps the highest of both that it has agreed to.
"""

# ruff: noqa: RUF012 - msgspec copies a mutable default for every message

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from dq_client.base.messages.base import (
    AGENT,
    STANDBY,
    USER,
    Epoch,
    Id,
    Name,
    OrderBody,
    ReplyBody,
    RequestBody,
    Term,
    Text,
    sent_by,
)

Checksum = Annotated[bytes, Meta(max_length=64)]


@sent_by(STANDBY)
class Follow(RequestBody, tag="follow", frozen=True):
    """A standby has the journal up to event `seq`, safely: what comes after it?

    Answered by Followed once there is more, or after a moment. It is the standby's only request,
    and its acknowledgement of all before.
    """

    name: Name
    address: Text  # where it will serve
    seq: Id
    chain: Checksum  # of that event
    term: Term  # of its copy; -1: it has never been complete
    ended: Annotated[int, Meta(ge=-1, le=2**53)]  # jobs up to this one are archived; -1: all are
    snapshot: Id  # the event of its newest snapshot
    void: Term  # it has given up becoming the server by this term, and all before
    voters: Id  # the number of its list of voters
    sync: bool = False
    files: Text = ""  # digest of the home's files that it has


class Line(Struct, frozen=True, array_like=True):
    """An event of the journal as it was written, and what was archived with it."""

    seq: int
    time: float
    kind: str
    body: str
    actions: str
    archived: list[tuple[int, bytes]] = []


class Base(Struct, frozen=True):
    """A snapshot after event `seq`, whose checksum is `chain`: `line` without what was before it.

    A copy that does not have that event begins with it, and forgets all that it has. Event 0: there
    is no snapshot, and a copy begins with nothing.
    """

    seq: int
    chain: bytes
    body: bytes
    line: Line | None = None


class Followed(ReplyBody, tag="followed", frozen=True):
    """What a standby takes in, all of it or nothing.

    `term`: of the copy with this; if it is not Follow.term, the copy is whole, and the standby may
    become the server from now on. `voters`: the nodes of which most have to agree to that, and
    the number of this list; None: as before. `rests`: the server is stopped on purpose, alone or
    with the cluster. `files`: of the home, if they are others than the standby's.
    """

    epoch: int
    term: int
    lines: list[Line] = []
    base: Base | None = None
    ended: list[tuple[int, bytes]] = []  # archived jobs
    ended_to: int = -1  # as Follow.ended
    voters: tuple[int, list[str]] | None = None
    rests: Literal["", "stopped", "down"] = ""
    off_s: float = 0.0  # how far the system clock is ahead of the cluster's time
    files: dict[str, bytes] | None = None
    digest: str = ""
    options: list[str] = []  # of the server's command line


@sent_by(USER)
class ForgetStandby(RequestBody, tag="forgetstandby", frozen=True):
    """The standby is gone for good: the server has none any more. Error if it has none."""


@sent_by(AGENT)
class Ballot(RequestBody, tag="ballot", frozen=True):
    """An agent that hears nothing of its server asks the other address that it knows.

    `promised`, `term`: the highest epoch and term that it has agreed to.
    """

    agent: Name
    nodes: Annotated[list[Name], Meta(min_length=1, max_length=10_000)]
    promised: Epoch
    term: Term


class Standing(ReplyBody, tag="standing", frozen=True):
    """What a standby, or a server, says to a Ballot.

    waits    nothing is to be done
    promise  agree to obey no server of an earlier epoch than this, if no copy is newer than `term`
    install  agree that the copy of this term is the newest
    serves   here is a server, of this epoch; if there is an `address`: not here, but there
    """

    stage: Literal["waits", "promise", "install", "serves"]
    epoch: int = 0
    term: int = 0
    address: str = ""


class Recognize(OrderBody, tag="recognize", frozen=True):
    """There is a standby at `address`; agree that the copy of `term` is the newest.

    An empty address: there is none any more. Confirmed by the next heartbeat.
    """

    address: str
    term: int
