"""Agents that were told to go: their nodes drain, and each agent ends when nothing is left there.

An agent says so in its heartbeats, so nothing of it can get lost. What follows from it is compared
with the state at each heartbeat, as all that agents say (reconciliation.py).
"""

from __future__ import annotations

from dq_server.core.features.draining import Drains
from dq_server.core.model import events as ev
from dq_server.live.agents.registry import AgentLink
from dq_server.live.context import Desk
from dq_server.live.orders.dispatch import let_go

TOLD_TO_GO = "its agent was told to go"


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
        if link.leaving_s is not None and (drain is None or not drain.life):
            event = ev.DrainRequested(
                name,
                link.leaving_s,
                TOLD_TO_GO,
                f"agent {link.name}",
                leaves=True,
                life=link.life,
            )
            desk.apply(event)
    let_go(desk, link)
