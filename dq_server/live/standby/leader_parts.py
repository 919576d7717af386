"""What a pairing keeps of its standby, what it uses of the server, and when a reply may leave."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from dq_client.base import codec
from dq_client.base import messages as m
from dq_server.live.agents.registry import AgentLink, Agents
from dq_server.live.store import checksums
from dq_server.live.store.interface import Store

FREE_REPLIES = (m.Welcome, m.Followed, m.Standing)  # they follow from no event
ACKNOWLEDGEMENTS = (m.Submitted, m.Attached)
VOTERS_NUMBER_MAX = 2**40  # lists of voters: one for each change of the nodes

What = Literal["free", "acknowledgement", "other"]  # free: it follows from no event


class PairingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a standby, so that a server that starts again knows of it.

    term    of its copy, or a newer one that most agents have agreed to
    tried   the highest that any agent may have agreed to for this server
    void    agents may have agreed to that, too: the standby tried to become the server, and gave up
    voters  lists of nodes, counted: the one that the standby had when it followed last, and those
            since; it may have any of them
    """

    name: str
    address: str
    sync: bool
    term: int
    tried: int
    void: int
    voters: list[tuple[int, list[str]]]


@dataclass(slots=True, kw_only=True)
class Surroundings:
    """What the pairing may use of the server."""

    journal: Store
    epoch: int
    agents: Agents
    monotonic: Callable[[], float]
    off_s: Callable[[], float]
    send: Callable[[bytes, bytes], None]  # to a connection, at once
    nodes: Callable[[], Iterable[str]]  # that are up
    files: Callable[[], tuple[str, Mapping[str, bytes]]] = lambda: ("", {})
    options: tuple[str, ...] = ()

    def order(self, link: AgentLink, body: m.OrderBody) -> None:
        """It follows from no event: at once."""
        self.send(link.identity, link.order(body))

    def reply(self, identity: bytes, request_id: str, body: m.ReplyBody) -> None:
        """The same."""
        self.send(identity, codec.encode(m.Reply(request_id, body)))


@dataclass(slots=True)
class WaitingFollow:
    """A Follow that is not answered yet."""

    body: m.Follow
    identity: bytes
    request_id: str
    since_s: float


def implausible(body: m.Follow, epoch: int, record: PairingRecord | None) -> str:
    """Which number of a Follow no honest standby of this epoch's server can have; empty: none.

    The server counts on from these: from the highest there are, nothing could be counted.
    """
    term = (checksums.highest_plausible(epoch) + 1) << m.TERM_OF_EPOCH
    number = VOTERS_NUMBER_MAX
    if record is not None:  # it may have counted on past the limits
        term = max(term, record.term, record.tried, record.void)
        number = max(number, record.voters[-1][0])
    said = (("void", body.void, term), ("term", body.term, term), ("voters", body.voters, number))
    for name, value, most in said:
        if value > most:
            return (
                f"standby {body.name} says {name} {value}, and no standby of this server can have"
                f" one above {most}: make a new standby, in another DQ_HOME"
            )
    return ""


def what_is(body: m.ReplyBody, *, question: bool) -> What:
    """When a reply may leave; `question`: to a request that changes nothing."""
    later = isinstance(body, m.Error) and body.code == "later"
    if question or later or isinstance(body, FREE_REPLIES):
        return "free"
    return "acknowledgement" if isinstance(body, ACKNOWLEDGEMENTS) else "other"
