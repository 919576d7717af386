"""Reconciliation: what an agent holds is compared with what the state says that it should hold.

Done with every heartbeat. An order that was lost is given again, a start whose processes are gone
is over, and nodes that are new, or were lost, join.
"""

from __future__ import annotations

from collections.abc import Iterator

from dq_client.base import messages as m
from dq_server.core.features.spawning import Spawns, spawned_in
from dq_server.core.model import events as ev
from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.launching import Worlds
from dq_server.core.model.places import LEAST, load_of
from dq_server.core.model.state import State
from dq_server.live import translate
from dq_server.live.agents.registry import AgentLink
from dq_server.live.context import Desk
from dq_server.live.orders.dispatch import (
    launch,
    look_after_copies,
    start_ranks,
    start_workers,
    start_world,
    vacate,
)
from dq_server.live.orders.job_ranks import ranks_run
from dq_server.live.orders.leaving_nodes import leave

# A launch or a kill needs a moment before its lack is worth repeating the order.
REPEAT_AFTER_S = 3.0


def reconcile(desk: Desk, link: AgentLink) -> None:
    """Compare what the agent holds with what it should hold; repeat orders, report losses."""
    state, now = desk.state, desk.now()
    nodes = state.processors.nodes
    mine = {p for n in link.nodes if n.name in nodes for p in nodes[n.name].processors}
    started = {(h.job, h.instance): h for h in link.holdings if h.first}
    # One agent may stand for many nodes of a job (a local cluster): each job once.
    jobs = {job.id: job for node in link.nodes for job in desk.job_nodes.jobs(node.name)}
    for job in jobs.values():
        holding = started.get((job.id, job.instance))
        if job.launching.by_agents:
            _reconcile_ranks(desk, link, job, holding, now)
        else:
            _reconcile_first(desk, link, job, holding, now)
    for holding in link.holdings:
        if holding.running and _shall_end(state, holding):
            desk.order(link, m.KillTree(holding.job, holding.instance))
    _reconcile_vacating(desk, mine)
    leave(desk, link)
    ready = look_after_copies(desk, link)
    # Last: what has been ended above must not be taken for a reason to keep the nodes out.
    if link.leaving_s is None and ready:
        join(desk, link, [n for n in link.nodes if not _is_up_to_date(state, n)])
    _hear_load(desk, link)


def _hear_load(desk: Desk, link: AgentLink) -> None:
    """What processes outside DQ use of its machine, if that is another figure by now."""
    state, nodes = desk.state, desk.state.processors.nodes
    mine = (nodes[node.name] for node in link.nodes if node.name in nodes)
    news = [n.name for n in mine if n.up and abs(link.load - load_of(state, n.name)) >= LEAST]
    if news:
        desk.apply(ev.BackgroundLoad(tuple(news), link.load))


def _over(state: State, holding: m.Holding) -> bool:
    """Whether the instance that the agent has processes of has ended."""
    job = state.active.get(holding.job)
    return job is None or job.instance != holding.instance


def _shall_end(state: State, holding: m.Holding) -> bool:
    return _over(state, holding) or state.active[holding.job].state is JobState.KILLING


def _reconcile_first(
    desk: Desk, link: AgentLink, job: Job, holding: m.Holding | None, now: float
) -> None:
    """This agent started (`holding`), or shall start, the application itself."""
    if job.state is JobState.KILLING:
        if holding is None:  # never started here, or forgotten: nobody else will tell
            desk.apply(ev.JobEnded(job.id, job.instance, -9))
        return
    if holding is not None or now - _since_s(job) < REPEAT_AFTER_S:
        return
    if job.state is JobState.STARTING:
        if not desk.journal.patched:  # it may have ended in a lost event (after_restore.py)
            launch(desk, job)
    else:
        error = f"agent {link.name} has lost the job's processes"
        desk.apply(ev.JobEnded(job.id, job.instance, -9, error))


def _reconcile_ranks(
    desk: Desk, link: AgentLink, job: Job, holding: m.Holding | None, now: float
) -> None:
    """This agent has started (`holding`), or shall start, the ranks of the job on its nodes."""
    if job.state is JobState.KILLING:
        if holding is None:
            desk.apply(ev.JobEnded(job.id, job.instance, -9))
        return
    if holding is not None:
        ranks_run(desk, link, job)
    if job.spec.workers is not None:
        _reconcile_workers(desk, link, job, holding, now)
        return
    mine, node_of = {node.name for node in link.nodes}, desk.state.processors.node_of
    if holding is None and any(node_of[p] in mine for p in job.allocation):
        _miss(desk, link, job, now)
    if holding is not None and not holding.running:
        return  # its ranks have ended, which the agent is about to say: a world would come too late
    if job.spawned or job.resize is not None:
        known = holding.worlds if holding is not None else []
        for world in _expected(job, link, node_of, now):
            if world not in known:
                start_world(desk, job, world, [link])


def _reconcile_workers(
    desk: Desk, link: AgentLink, job: Job, holding: m.Holding | None, now: float
) -> None:
    """Order again the workers that the agent should run, and has not heard of or has lost.

    One that has ended is not started again: the agent knows it, and reports its end once more.
    """
    mine, node_of = {node.name for node in link.nodes}, desk.state.processors.node_of
    known = holding.worlds if holding is not None else []
    worlds = Worlds.of(job).started
    if _carried_out(_since_s(job), link, now):
        missing = [p for p, w in worlds.items() if node_of[p] in mine and w not in known]
        start_workers(desk, job, missing, [link])


def _expected(job: Job, link: AgentLink, node_of: list[str], now: float) -> list[int]:
    """Worlds that were ordered from an agent long ago, and have not joined, or were spawned."""
    nodes = {node.name for node in link.nodes}
    pending, worlds = job.resize, Spawns.of(job).worlds
    parts = {w: (s.granted_s, s.processors) for w, s in worlds.items() if spawned_in(job, w)}
    if pending is not None and pending.expand:
        parts[pending.resize_id] = pending.granted_s, pending.processors
    return [
        world
        for world, (granted_s, processors) in parts.items()
        if _carried_out(granted_s, link, now) and any(node_of[p] in nodes for p in processors)
    ]


def _carried_out(ordered_s: float, link: AgentLink, now: float) -> bool:
    """Whether the agent's heartbeat must show what was ordered then, if it got the order."""
    # What was ordered in an earlier session is shown by the first heartbeat of this one, or never:
    # the agent was killed before it could do it, or takes no order of that session any more.
    return ordered_s < link.since_s or now - ordered_s >= REPEAT_AFTER_S


def _miss(desk: Desk, link: AgentLink, job: Job, now: float) -> None:
    """The agent does not hold the job, of which its nodes have processors."""
    if job.state is JobState.STARTING:
        if _carried_out(_since_s(job), link, now) and not desk.journal.patched:  # after_restore.py
            start_ranks(desk, job, [link])
    # Its heartbeat may be older than the ranks of an expansion that has just been committed.
    elif now - _since_s(job) >= REPEAT_AFTER_S:
        error = f"agent {link.name} has lost the job's processes"
        desk.apply(ev.JobEnded(job.id, job.instance, -9, error))


def _since_s(job: Job) -> float:
    """When the job's present ranks were ordered, the latest of them."""
    return max(job.start_s or 0.0, job.stays[-1].since_s if job.stays else 0.0)


def _reconcile_vacating(desk: Desk, mine: set[int]) -> None:
    """Released processors whose vacation is not confirmed yet: ask again."""
    vacating = desk.state.processors.vacating
    for job_id, processors in _by_job((p, j) for p, j in vacating.items() if p in mine):
        vacate(desk, job_id, processors)


def _by_job(pairs: Iterator[tuple[int, int]]) -> list[tuple[int, tuple[int, ...]]]:
    grouped: dict[int, list[int]] = {}
    for processor, job in pairs:
        grouped.setdefault(job, []).append(processor)
    return [(job, tuple(processors)) for job, processors in grouped.items()]


# --- nodes that join ------------------------------------------------------------------------


def join_new(desk: Desk, link: AgentLink) -> None:
    """Let nodes join that are unknown: they have no past that could matter."""
    known = desk.state.processors.nodes
    join(desk, link, [node for node in link.nodes if node.name not in known])


def _is_up_to_date(state: State, said: m.NodeInfo) -> bool:
    """Whether the node is up, and is known to have what its agent says."""
    node = state.processors.nodes.get(said.name)
    if node is None or not node.up:
        return False
    now = translate.node_joined(said)
    known = (len(node.processors), node.speed, node.memory, node.gpus, node.features)
    return known == (now.processors, now.speed, now.memory, now.gpus, now.features)


def join(desk: Desk, link: AgentLink, nodes: list[m.NodeInfo]) -> None:
    """Let nodes join that are new, were lost or have changed, once nothing ended runs there."""
    state = desk.state
    # An agent that was lost comes back with processes of jobs that ended for its absence. They are
    # killed first: their processors must not be granted while they still run.
    if any(h.running and _over(state, h) for h in link.holdings):
        return
    known, now = state.processors.nodes, desk.monotonic()
    for node in nodes:
        if not desk.agents.join_order.must_wait(node, known, now):
            _join(desk, node)
    join_due(desk)


def join_due(desk: Desk) -> None:
    """Let nodes join whose turn in the order has come."""
    known = desk.state.processors.nodes
    for node in desk.agents.join_order.due(known, desk.monotonic()):
        _join(desk, node)


def _join(desk: Desk, node: m.NodeInfo) -> None:
    desk.apply(translate.node_joined(node, desk.off_s()))
