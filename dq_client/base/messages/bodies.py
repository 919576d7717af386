"""All bodies of the wire by direction: what a server decodes, and what its tables must cover."""

from __future__ import annotations

# Imported first: these modules declare the bodies.
from dq_client.base.messages import agents, applications, standby, users  # noqa: F401
from dq_client.base.messages.base import DECLARED, OrderBody, ReplyBody, RequestBody

__all__ = ["ORDERS", "REPLIES", "REQUESTS"]

REQUESTS = DECLARED  # every request -> roles that may send it
REPLIES = tuple(ReplyBody.__subclasses__())
ORDERS = tuple(OrderBody.__subclasses__())
if undeclared := set(RequestBody.__subclasses__()) - REQUESTS.keys():
    raise TypeError(f"requests without @sent_by: {sorted(c.__name__ for c in undeclared)}")
