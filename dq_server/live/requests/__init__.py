"""What each request does. One function per message, one module per role; `answer` finds it.

A function returns the body of the reply, or None if the reply comes later (or none is owed).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dq_client import messages as m
from dq_server.core.errors import SchedulerError, UnknownJob, UnknownNode, UnknownReservation
from dq_server.live.access import Principal
from dq_server.live.requests import agents, applications, users
from dq_server.live.requests.asked import VERSION, Asked, Table, other_protocol

if TYPE_CHECKING:
    from dq_server.live.server import Server


def answer(
    server: Server, identity: bytes, principal: Principal, request: m.Request
) -> m.ReplyBody | None:
    """Carry out a request; a refusal becomes an Error with one clear line."""
    try:
        return TABLE[type(request.body)](server, Asked(identity, principal, request), request.body)
    except (UnknownJob, UnknownNode, UnknownReservation) as e:
        return m.Error("not_found", str(e))
    except SchedulerError as e:
        return m.Error("refused", str(e))


def hello(server: Server, asked: Asked, body: m.Hello) -> m.ReplyBody:
    """Agree on the protocol: the one message of everybody."""
    welcome = m.Welcome(m.PROTOCOL, VERSION, server.epoch, asked.principal.role)
    return other_protocol(body.protocol) or welcome


TABLE: Table = {m.Hello: hello, **users.TABLE, **applications.TABLE, **agents.TABLE}
