"""The node agents the server knows, and what they should be doing.

A hello opens a session and says nothing about jobs that is relied upon: it may have been under way
for long. What an agent holds counts from its first heartbeat in the session on.

Orders to agents follow from the scheduler's state, so a lost order is simply given again: with
every heartbeat an agent says what it holds, and `reconcile` compares that with the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dq_client import messages as m
from dq_server.core.model import events as ev
from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.state import State

if TYPE_CHECKING:
    from dq_server.live.server import Server

# A launch or a kill needs a moment before its lack is worth repeating the order.
REPEAT_AFTER_S = 3.0


@dataclass(slots=True)
class AgentLink:
    """A connected agent."""

    name: str
    identity: bytes
    nodes: list[m.NodeInfo]
    last_seen: float  # monotonic
    pid: int = 0
    session: int = 0
    holdings: list[m.Holding] = field(default_factory=list)


@dataclass(slots=True)
class Agents:
    """All agents, by name and by node."""

    by_name: dict[str, AgentLink] = field(default_factory=dict)
    by_node: dict[str, AgentLink] = field(default_factory=dict)
    _by_identity: dict[bytes, AgentLink] = field(default_factory=dict)

    def hello(self, message: m.AgentHello, identity: bytes, now: float, session: int) -> AgentLink:
        """An agent reports; the newest report under a name counts."""
        link = AgentLink(message.agent, identity, message.nodes, now, message.pid, session)
        self._hang_up(self.by_name.get(message.agent))
        self.by_name[message.agent] = link
        self._by_identity.setdefault(identity, link)  # who speaks is who it said it was first
        for node in message.nodes:
            self.by_node[node.name] = link
        link.holdings = message.holdings
        return link

    def of_identity(self, identity: bytes) -> AgentLink | None:
        """The agent behind a connection."""
        return self._by_identity.get(identity)

    def _hang_up(self, link: AgentLink | None) -> None:
        if link is not None and self._by_identity.get(link.identity) is link:
            del self._by_identity[link.identity]

    def silent(self, now: float, limit_s: float) -> list[AgentLink]:
        """Agents not heard of for longer than `limit_s`."""
        return [a for a in self.by_name.values() if now - a.last_seen > limit_s]

    def forget(self, link: AgentLink) -> list[str]:
        """The agent is lost; a new hello brings it back. Returns the nodes that nobody has now."""
        self.by_name.pop(link.name, None)
        self._hang_up(link)
        lost = [node.name for node in link.nodes if self.by_node.get(node.name) is link]
        for name in lost:
            del self.by_node[name]
        return lost


class Launchers:
    """Which active jobs have their first node, where they are launched, on a node.

    Hundreds of agents ask with every heartbeat, so not all jobs are looked through each time.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._on: dict[str, dict[int, None]] = {}
        for job in state.active.values():
            self.add(job)

    def add(self, job: Job) -> None:
        """The job starts."""
        node = self._state.processors.node_of[job.first_processor]
        self._on.setdefault(node, {})[job.id] = None

    def on(self, node: str) -> list[Job]:
        """Its jobs in the order of starting; those that have ended are forgotten."""
        active, node_of = self._state.active, self._state.processors.node_of
        jobs = [active[i] for i in self._on.get(node, ()) if i in active]
        jobs = [job for job in jobs if node_of[job.first_processor] == node]
        self._on[node] = dict.fromkeys(job.id for job in jobs)
        return jobs


def reconcile(server: Server, link: AgentLink) -> None:
    """Compare what the agent holds with what it should hold; repeat orders, report losses."""
    state, now = server.scheduler.state, server.now()
    nodes = state.processors.nodes
    mine = {p for n in link.nodes if n.name in nodes for p in nodes[n.name].processors}
    started = {(h.job, h.instance): h for h in link.holdings if h.first}
    for node in link.nodes:
        for job in server.launchers.on(node.name):
            _reconcile_first(server, link, job, started.get((job.id, job.instance)), now)
    for holding in link.holdings:
        if holding.running and _shall_end(state, holding):
            server.order(link, m.KillTree(holding.job, holding.instance))
    _reconcile_vacating(server, mine)
    join(server, link, [n for n in link.nodes if not _is_up(state, n.name)])


def _over(state: State, holding: m.Holding) -> bool:
    """Whether the instance that the agent has processes of has ended."""
    job = state.active.get(holding.job)
    return job is None or job.instance != holding.instance


def _shall_end(state: State, holding: m.Holding) -> bool:
    return _over(state, holding) or state.active[holding.job].state is JobState.KILLING


def join_new(server: Server, link: AgentLink) -> None:
    """Nodes that nobody has heard of before have no past that could matter."""
    known = server.scheduler.state.processors.nodes
    join(server, link, [node for node in link.nodes if node.name not in known])


def _is_up(state: State, name: str) -> bool:
    node = state.processors.nodes.get(name)
    return node is not None and node.up


def join(server: Server, link: AgentLink, nodes: list[m.NodeInfo]) -> None:
    """Nodes that are new, or were lost, offer their processors.

    An agent that was lost comes back with processes of jobs that ended for its absence. They are
    killed first: their processors must not be granted while they still run.
    """
    state = server.scheduler.state
    if any(h.running and _over(state, h) for h in link.holdings):
        return
    known, now = state.processors.nodes, server.monotonic()
    for node in nodes:
        if not server.roll.holds(node, known, now):
            _join(server, node)
    join_called(server)


def join_called(server: Server) -> None:
    """Nodes that waited for others join when it is their turn."""
    known = server.scheduler.state.processors.nodes
    for node in server.roll.turn(known, server.monotonic()):
        _join(server, node)


def _join(server: Server, node: m.NodeInfo) -> None:
    server.apply(ev.NodeJoined(node.name, node.processors, node.speed))


def _reconcile_first(
    server: Server, link: AgentLink, job: Job, holding: m.Holding | None, now: float
) -> None:
    """This agent started (`holding`), or shall start, the application itself."""
    if job.state is JobState.KILLING:
        if holding is not None and holding.running:
            server.order(link, m.KillTree(job.id, job.instance))
        elif holding is None:
            server.apply(ev.JobEnded(job.id, job.instance, -9))
        return
    if holding is not None or job.start_s is None or now - job.start_s < REPEAT_AFTER_S:
        return
    if job.state is JobState.STARTING:
        server.launch(job)
    else:
        error = f"agent {link.name} has lost the job's processes"
        server.apply(ev.JobEnded(job.id, job.instance, -9, error))


def _reconcile_vacating(server: Server, mine: set[int]) -> None:
    """Released processors whose vacation is not confirmed yet: ask again."""
    vacating = server.scheduler.state.processors.vacating
    for job_id, processors in _by_job((p, j) for p, j in vacating.items() if p in mine):
        server.vacate(job_id, processors)


def _by_job(pairs: Iterator[tuple[int, int]]) -> list[tuple[int, tuple[int, ...]]]:
    grouped: dict[int, list[int]] = {}
    for processor, job in pairs:
        grouped.setdefault(job, []).append(processor)
    return [(job, tuple(processors)) for job, processors in grouped.items()]
