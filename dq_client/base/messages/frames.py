"""The frames on the wire: a request, a reply or an order round its body.

msgspec decodes closed unions of bodies only, and a union needs the modules of all its bodies. So
the types here have open bodies, for whoever makes a frame; `with_body` closes one for a decoder.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Any, TypeVar

from msgspec import Struct, defstruct

from dq_client.base.messages.base import Ident, OrderBody, ReplyBody, RequestBody

__all__ = ["FromServer", "Order", "Reply", "Request", "with_body"]


class Request(Struct, frozen=True, forbid_unknown_fields=True):
    """From a client."""

    id: Ident
    body: RequestBody


class Reply(Struct, frozen=True, tag="reply", tag_field="k"):
    """To the client that asked."""

    id: str
    body: ReplyBody


class Order(Struct, frozen=True, tag="order", tag_field="k"):
    """To an agent, unasked. Orders of another session than the last welcome's are ignored.

    So nothing counts that was on its way when the server gave the agent up, or was another one.
    """

    session: int
    body: OrderBody


FromServer = Reply | Order
F = TypeVar("F", Request, Reply, Order)


def with_body(frame: type[F], bodies: Iterable[type]) -> type[F]:
    """A subclass of `frame` whose body is one of `bodies`, for a decoder."""
    union: Any = reduce(or_, bodies)
    config = frame.__struct_config__
    made: Any = defstruct(
        frame.__name__,
        [("body", union)],
        bases=(frame,),
        frozen=True,
        tag=config.tag,
        tag_field=config.tag_field,
    )
    return made  # type: ignore[no-any-return]
