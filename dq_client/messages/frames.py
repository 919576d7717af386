"""The frames on the wire: a request, a reply or an order round its body."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

# Imported first: the unions below are made of the bodies that these modules declare.
from dq_client.messages import agents, applications, standby, users  # noqa: F401
from dq_client.messages.base import REQUESTS, Ident, OrderBody, ReplyBody, RequestBody

__all__ = ["ORDERS", "REPLIES", "FromServer", "Order", "Reply", "Request"]

REPLIES = tuple(ReplyBody.__subclasses__())
ORDERS = tuple(OrderBody.__subclasses__())
if undeclared := set(RequestBody.__subclasses__()) - REQUESTS.keys():
    raise TypeError(f"requests without @sent_by: {sorted(c.__name__ for c in undeclared)}")

if TYPE_CHECKING:
    AnyRequest: TypeAlias = RequestBody
    AnyReply: TypeAlias = ReplyBody
    AnyOrder: TypeAlias = OrderBody
else:
    # msgspec decodes closed unions only; a type checker cannot follow one that is made at run time.
    AnyRequest, AnyReply, AnyOrder = (reduce(or_, bodies) for bodies in (REQUESTS, REPLIES, ORDERS))


class Request(Struct, frozen=True, forbid_unknown_fields=True):
    """From a client."""

    id: Ident
    body: AnyRequest


class Reply(Struct, frozen=True, tag="reply", tag_field="k"):
    """To the client that asked."""

    id: str
    body: AnyReply


class Order(Struct, frozen=True, tag="order", tag_field="k"):
    """To an agent, unasked. Orders of another session than the last welcome's are ignored.

    So nothing counts that was on its way when the server gave the agent up, or was another one.
    """

    session: int
    body: AnyOrder


FromServer = Reply | Order
