"""What each request does: one handler per message, one module per role (call.py has the table)."""

from __future__ import annotations

from dq_client.base import messages as m
from dq_server.core.model.errors import SchedulerError, UnknownJob, UnknownNode, UnknownReservation
from dq_server.live.access import Principal
from dq_server.live.context import Desk

# Imported for their handlers.
from dq_server.live.requests import (  # noqa: F401
    agents,
    applications,
    attaching,
    output,
    standby,
    users,
)
from dq_server.live.requests.call import (
    TABLE,
    VERSION,
    Call,
    check_complete,
    handles,
    other_protocol,
)
from dq_server.live.store.journal import JournalError
from dq_server.live.store.read_only import Stalled

__all__ = ["TABLE", "answer"]


def answer(
    desk: Desk, identity: bytes, principal: Principal, request: m.Request
) -> m.ReplyBody | None:
    """Carry out a request; a refusal becomes an Error with one clear line.

    None if the reply comes later. Whether the principal may send it has been checked (server.py).
    """
    try:
        call = Call(request.body, principal, identity, request.id)
        return TABLE[type(request.body)](desk, call)
    except Stalled as e:
        return m.Error("later", str(e))
    except (UnknownJob, UnknownNode, UnknownReservation) as e:
        return m.Error("not_found", str(e))
    except (SchedulerError, JournalError) as e:
        return m.Error("refused", str(e))


@handles(m.Hello)
def hello(desk: Desk, call: Call[m.Hello]) -> m.ReplyBody:
    """Agree on the protocol: the one message of every role."""
    welcome = m.Welcome(
        protocol=m.PROTOCOL,
        version=VERSION,
        epoch=desk.epoch,
        role=call.principal.role,
        term=desk.pairing.term,
    )
    return other_protocol(call.body.protocol) or welcome


check_complete()
