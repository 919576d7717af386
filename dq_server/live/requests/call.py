"""A request with its sender, the table of handlers, and what the handlers of all roles share.

A handler is a function of one message, registered where it is defined:

    @handles(m.Kill)
    def kill(desk: Desk, call: Call[m.Kill]) -> m.ReplyBody: ...

It returns the body of the reply, or None if the reply comes later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from dq_client import __version__
from dq_client.base import messages as m
from dq_server.live.access import Principal
from dq_server.live.context import Desk

VERSION = __version__

B = TypeVar("B", bound=m.RequestBody)


@dataclass(frozen=True, slots=True)
class Call(Generic[B]):
    """A request and who sent it; `identity` is that of the connection it came by."""

    body: B
    principal: Principal
    identity: bytes
    request_id: str


Handler = Callable[[Desk, Call[B]], m.ReplyBody | None]
TABLE: dict[type[m.RequestBody], Handler[Any]] = {}


def handles(message: type[B]) -> Callable[[Handler[B]], Handler[B]]:
    """Register the handler of a message; TypeError for what is no request, or has a handler."""
    if message not in m.REQUESTS or message in TABLE:
        raise TypeError(f"{message.__name__} is no request, or has a handler already")

    def register(handler: Handler[B]) -> Handler[B]:
        TABLE[message] = handler
        return handler

    return register


def check_complete() -> None:
    """TypeError if a request has no handler: found at import, not when somebody sends it."""
    if missing := m.REQUESTS.keys() - TABLE.keys():
        raise TypeError(f"requests without a handler: {sorted(c.__name__ for c in missing)}")


def other_protocol(spoken: int) -> m.Error | None:
    """The refusal of a peer that speaks another version of the protocol."""
    if spoken == m.PROTOCOL:
        return None
    return m.Error(
        "refused",
        f"this server speaks protocol {m.PROTOCOL}, the client {spoken}:"
        " install the same version of dq on both sides",
    )
