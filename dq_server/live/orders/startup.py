"""What comes first in the life of a server, and again if that could not be saved.

Nothing is granted before each node that was up has its agent again.
"""

from __future__ import annotations

from dq_server.core.model import events as ev
from dq_server.core.model.config import SchedulerConfig
from dq_server.live.context import Desk
from dq_server.live.orders import after_restore

WAITS_FOR_AGENTS = "the server has just started and waits for its agents"


def begin(desk: Desk, config: SchedulerConfig) -> None:
    """Before any other event: the configuration, a loss of events, and if there are nodes, wait."""
    if desk.scheduler.config != config:
        desk.apply(ev.Configured(config))
    if desk.journal.patched:
        desk.apply(ev.EventsLost(desk.epoch))
    if any(node.up for node in desk.state.processors.nodes.values()):
        desk.apply(ev.GrantsPaused(True, WAITS_FOR_AGENTS))


def resume(desk: Desk) -> None:
    """Grants go on, if nothing is to be waited for any more."""
    nodes, journal = desk.state.processors.nodes.values(), desk.journal
    up = {node.name for node in nodes if node.up}
    if desk.draining or desk.stall or not up <= desk.agents.by_node.keys():
        return
    if journal.patched and (
        desk.state.next_instance < desk.epoch or not after_restore.cleared(desk)
    ):
        return  # not said yet, or not settled
    if desk.state.paused:
        desk.apply(ev.GrantsPaused(False))
    if journal.patched:
        journal.clear()
