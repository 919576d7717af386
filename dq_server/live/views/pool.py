"""The pool as plain data: `dq pool`, and the nodes in `dq nodes` that have not joined yet."""

from __future__ import annotations

from typing import Any

from dq_server.core.features.draining import state_of
from dq_server.core.model.ends import known
from dq_server.core.model.pool import ON_THE_WAY, Pause, Pool, PoolOptions, Ticket, TicketState
from dq_server.core.model.reasons import Reason
from dq_server.core.model.state import State
from dq_server.core.scheduler import Scheduler


def coming_view(state: State) -> list[dict[str, Any]]:
    """Rows of `dq nodes` for nodes that were asked for; one without a name has its ticket's."""
    if Pool.known(state) is None:
        return []
    return [
        {
            "name": ticket.node or f"ticket-{number}",
            "state": str(ticket.state),
            "processors": ticket.shape.processors,
            "idle": 0,
            "speed": 1.0,
            "memory": None,
            "gpus": 0,
            "features": [],
            "memory_used": 0,
            "gpus_used": 0,
            "processors_gone": 0,
            "load": 0.0,
            "kept": 0,
            "host": ticket.node,
            "jobs": [],
            "owners": [],
            "drain": None,
            "until_s": ticket.until_s,
            "queue": ticket.queue or None,
        }
        for number, ticket in Pool.of(state).tickets.items()
        if ticket.state in ON_THE_WAY
    ]


def until_s(state: State, node: str) -> float | None:
    """When the node's time ends, as far as that is known."""
    ends = known(state)
    return None if ends is None else ends.until_s.get(node)


def queues_of(state: State) -> dict[str, str]:
    """The queues that nodes were requested from, as long as they have tickets."""
    if Pool.known(state) is None:
        return {}
    return {t.node: t.queue for t in Pool.of(state).tickets.values() if t.queue}


def pool_view(scheduler: Scheduler) -> dict[str, Any]:
    """What the pool may do, has, and has done last; times in seconds since the epoch."""
    state, options = scheduler.state, scheduler.config.of(PoolOptions)
    pool = Pool.of(state)
    return {
        "min": options.min,
        "max": options.max,
        "idle_s": options.idle_s,
        "shape": {"processors": options.shape.processors},
        "lasts_s": options.lasts_s,
        "start_s": pool.start_takes_s(options),
        "refused": _refused(pool),
        "queues": [
            {
                "name": q.name,
                "max": q.max,
                "lasts_s": q.lasts_s,
                "nodes": sum(t.queue == q.name for t in pool.tickets.values()),
                "refused": _refused(pool.pause(q.name)),
            }
            for q in options.queues
        ],
        "tickets": [_ticket(state, n, t) for n, t in pool.tickets.items()],
        "decisions": [
            {
                "time_s": note.time_s,
                "what": note.what,
                "ticket": note.ticket,
                **reason_view(note.reason),
            }
            for note in pool.notes
        ],
    }


def _refused(pause: Pause) -> dict[str, Any] | None:
    return {"why": pause.refused, "until_s": pause.retry_s} if pause.refused else None


def reason_view(reason: Reason) -> dict[str, Any]:
    """A sentence with its figures."""
    return {"code": reason.code, "text": reason.text, "figures": reason.figures}


def _ticket(state: State, number: int, ticket: Ticket) -> dict[str, Any]:
    return {
        "ticket": number,
        "queue": ticket.queue or None,
        "state": _state(state, ticket),
        "node": ticket.node or None,
        "processors": ticket.shape.processors,
        "asked_s": ticket.asked_s,
        "granted_s": ticket.granted_s,
        "joined_s": ticket.joined_s,
        "idle_since_s": ticket.idle_s,
        "until_s": ticket.until_s,
        "pending": ticket.pending or None,
        "reason": reason_view(ticket.reason),
    }


def _state(state: State, ticket: Ticket) -> str:
    """As `dq nodes` has it: a node that is up may drain because its agent goes."""
    node = state.processors.nodes.get(ticket.node)
    if node is None or not node.up or ticket.state is TicketState.LEFT:
        return str(ticket.state)
    return str(state_of(state, node)) if ticket.state is not TicketState.STARTING else "starting"
