"""The node agents that have reported to this server, and the nodes they stand for.

A hello opens a session. What it says about jobs is not relied upon: it may have been under way for
long. What an agent holds counts from its first heartbeat in the session on (reconciliation.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from dq_client.base import codec
from dq_client.base import messages as m
from dq_server.core.model.state import State
from dq_server.live.agents.heartbeats import Heartbeats
from dq_server.live.agents.join_order import JoinOrder

OTHERS_MAX = 10_000


@dataclass(slots=True)
class AgentLink:
    """A connected agent."""

    name: str
    identity: bytes  # of its connection
    nodes: list[m.NodeInfo]
    last_seen_s: float  # monotonic
    period_s: float  # between its heartbeats, as it was last told
    pid: int = 0
    session: int = 0
    since_s: float = 0.0  # when the session began, in the scheduler's time
    life: str = ""
    machine: str = ""  # empty: it takes in no ranks that others have started
    home: str = ""  # identity of its DQ_HOME; empty: not known
    leaving_s: float | None = None  # as of its last heartbeat, like `holdings`
    leaving_why: str = ""
    load: float = 0.0  # of processes outside DQ, as of its last heartbeat
    heard: bool = False  # a heartbeat has come in this session
    holdings: list[m.Holding] = field(default_factory=list)
    troubles: list[m.Trouble] = field(default_factory=list)
    copies: list[m.CopiesHeld] = field(default_factory=list)
    promised: int = 0  # epoch and term that it has agreed to, as of its last heartbeat (leader.py)
    term: int = 0

    def order(self, body: m.OrderBody) -> bytes:
        """An order for this session, as it travels."""
        return codec.encode(m.Order(self.session, body))


@dataclass(frozen=True, slots=True)
class Other:
    """An agent of another version, whose hello was refused."""

    nodes: list[str]
    why: str


class Agents:
    """All agents, by name and by node. `expected`: new nodes join in the order of these names."""

    def __init__(self, epoch: int, expected: Sequence[str], heartbeats: Heartbeats) -> None:
        self.by_name: dict[str, AgentLink] = {}
        self.by_node: dict[str, AgentLink] = {}
        self.join_order = JoinOrder(expected)
        self.heartbeats = heartbeats
        self.others: dict[str, Other] = {}  # by name; agents of another protocol
        self._by_identity: dict[bytes, AgentLink] = {}
        # Never used again, by no later server either: an order for another session is ignored.
        self._sessions = count((epoch << 24) + 1)

    def hello(self, message: m.AgentHello, identity: bytes, now: float) -> AgentLink:
        """An agent reports; the newest report under a name counts."""
        self.others.pop(message.agent, None)
        link = AgentLink(
            name=message.agent,
            identity=identity,
            nodes=message.nodes,
            last_seen_s=now,
            period_s=self.heartbeats.least_s,
            pid=message.pid,
            session=next(self._sessions),
            life=message.life,
            machine=message.machine,
            home=message.home,
            holdings=message.holdings,
        )
        before = self.by_name.get(message.agent)
        if before is not None:
            self._hang_up(before)
            self.drop(before, [node.name for node in before.nodes])
        self.by_name[message.agent] = link
        self._by_identity.setdefault(identity, link)  # who speaks is who it said it was first
        for node in message.nodes:
            self.by_node[node.name] = link
        return link

    def refuse(self, name: str, nodes: list[str], why: str) -> None:
        """An agent reports that speaks another protocol."""
        if name in self.others or len(self.others) < OTHERS_MAX:
            self.others[name] = Other(nodes, why)

    def why_away(self, node: str) -> str:
        """Why the agent of a node is not here; empty: that is not known."""
        return next((each.why for each in self.others.values() if node in each.nodes), "")

    def of_identity(self, identity: bytes) -> AgentLink | None:
        """The agent behind a connection."""
        return self._by_identity.get(identity)

    def of_processors(self, processors: Sequence[int], state: State) -> list[AgentLink]:
        """The agents of the processors' nodes, each once; those that are away are left out."""
        links: dict[str, AgentLink] = {}
        for p in processors:
            link = self.by_node.get(state.processors.node_of[p])
            if link is not None:
                links[link.name] = link
        return list(links.values())

    def drop(self, link: AgentLink, nodes: list[str]) -> list[str]:
        """The agent has these nodes no more. Returns those that nobody has now."""
        link.nodes = [node for node in link.nodes if node.name not in nodes]
        lost = [name for name in nodes if self.by_node.get(name) is link]
        for name in lost:
            del self.by_node[name]
        return lost

    def _hang_up(self, link: AgentLink) -> None:
        if self._by_identity.get(link.identity) is link:
            del self._by_identity[link.identity]

    def apart(self) -> tuple[str, ...]:
        """Two nodes that do not share one DQ_HOME, by name; empty: all nodes share it."""
        nodes = {link.home: link.nodes[0].name for link in self.by_name.values() if link.nodes}
        nodes.pop("", None)
        return tuple(nodes.values())[:2] if len(nodes) > 1 else ()

    def heard(self, link: AgentLink, now: float) -> float:
        """Record a heartbeat; return after how many seconds the next one is due."""
        link.heard, link.last_seen_s = True, now
        link.period_s = self.heartbeats.period_s(len(self.by_name))
        return link.period_s

    def silent(self, now: float) -> list[tuple[AgentLink, float]]:
        """Agents whose heartbeats are missing, and how long (s) they were allowed to be silent."""
        limits = (
            (link, self.heartbeats.patience_s(link.period_s)) for link in self.by_name.values()
        )
        return [(link, limit_s) for link, limit_s in limits if now - link.last_seen_s > limit_s]

    def forgive(self, silence_s: float, until_s: float = float("inf")) -> None:
        """So much of their silence is not theirs; nobody is heard of later than `until_s`."""
        for link in self.by_name.values():
            link.last_seen_s = min(link.last_seen_s + silence_s, until_s)

    def forget(self, link: AgentLink) -> list[str]:
        """The agent is lost; a new hello brings it back. Returns the nodes that nobody has now."""
        if self.by_name.get(link.name) is link:
            del self.by_name[link.name]
        self._hang_up(link)
        return self.drop(link, [node.name for node in link.nodes])
