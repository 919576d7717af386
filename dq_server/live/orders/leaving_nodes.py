"""Agents that were told to go: their nodes drain, and each agent ends when nothing is left there.

An agent says so in its heartbeats, so nothing of it can get lost. What follows from it is compared
with the state at each heartbeat, as all that agents say (reconciliation.py).
"""

from __future__ import annotations

from dq_server.core.features.draining import Drain, Drains
from dq_server.core.model import events as ev
from dq_server.core.model.pool import Pool, TicketState
from dq_server.live.agents.registry import AgentLink
from dq_server.live.context import Desk
from dq_server.live.orders.dispatch import let_go

TOLD_TO_GO = "its agent was told to go"
SOONER_S = 0.5  # by less an end has not moved: its word takes time


def leave(desk: Desk, link: AgentLink) -> None:
    """Drain the nodes of an agent that goes; not any more those that another agent has now."""
    nodes = desk.state.processors.nodes
    for name in [node.name for node in link.nodes]:
        node, drain = nodes.get(name), Drains.of(desk.state).nodes.get(name)
        if node is None or not node.up:
            continue
        if drain is not None and drain.life and drain.life != link.life:
            desk.apply(ev.ResumeRequested(name, link.life))
            drain = Drains.of(desk.state).nodes.get(name)
        if link.leaving_s is None or not _is_news(drain, link, desk.now()):
            continue
        why = link.leaving_why or TOLD_TO_GO
        _revoke(desk, name, link.leaving_s, why)
        by = f"agent {link.name}"
        desk.apply(ev.DrainRequested(name, link.leaving_s, why, by, leaves=True, life=link.life))
    let_go(desk, link)


def leave_with_cluster(desk: Desk, node: str) -> None:
    """Record that a node whose agent was stopped by `dq down` has left: it is not missed.

    Not if a user has asked for it to be drained, which holds when the node is back.
    """
    known, drains = desk.state.processors.nodes.get(node), Drains.of(desk.state)
    if known is not None and not known.up and node not in {*drains.nodes, *drains.gone}:
        desk.apply(ev.DrainRequested(node, reason="the cluster was taken down", leaves=True))


def _is_news(drain: Drain | None, link: AgentLink, now: float) -> bool:
    """Whether the agent has not said so before, or is to go sooner than it has said."""
    if drain is None or not drain.life:
        return True
    assert link.leaving_s is not None
    return drain.deadline_s is None or now + link.leaving_s < drain.deadline_s - SOONER_S


def _revoke(desk: Desk, node: str, left_s: float, why: str) -> None:
    """The word of a node that is borrowed is its engine's."""
    found = Pool.of(desk.state).of_node(node) if Pool.known(desk.state) is not None else None
    if found is not None and found[1].state is TicketState.UP:
        desk.apply(ev.TicketRevoked(found[0], left_s, why))
