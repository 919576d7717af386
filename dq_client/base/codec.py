"""Messages to bytes (MessagePack) and back, with validation. No other file knows the encoding."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from dq_client.base.errors import DQError
from dq_client.base.messages.base import (
    FRAME_BYTES_MAX,
    FROM_SERVER_BYTES_MAX,
    PROTOCOL,
    Ident,
    ReplyBody,
)
from dq_client.base.messages.frames import FromServer, Order, Reply, Request, with_body

if TYPE_CHECKING:
    from dq_client.base.messages import JobWelcome

T = TypeVar("T")


class MalformedMessage(DQError):
    """Bytes that are no valid message."""


class IdOnly(msgspec.Struct):
    """All that is needed of a malformed request to answer it."""

    id: Ident


class OldNode(msgspec.Struct):
    """All that is needed of a node in a hello of another version."""

    name: str = ""


class OldHello(msgspec.Struct, tag_field="t", tag="agenthello"):
    """What hellos of agents have in every version of the protocol, and may have."""

    protocol: int
    agent: str
    version: str = ""
    nodes: list[OldNode] = []


class OldRequest(msgspec.Struct):
    """A request of another version; so much of it never changes."""

    id: Ident
    body: OldHello


_encoder = msgspec.msgpack.Encoder()
_ids = msgspec.msgpack.Decoder(IdOnly)


# Made when first used: a decoder takes milliseconds and imports the modules of its messages.
@cache
def _requests() -> msgspec.msgpack.Decoder[Request]:
    from dq_client.base.messages.bodies import REQUESTS

    return msgspec.msgpack.Decoder(with_body(Request, REQUESTS))


@cache
def _old_requests() -> msgspec.msgpack.Decoder[OldRequest]:
    return msgspec.msgpack.Decoder(OldRequest)


@cache
def from_server() -> msgspec.msgpack.Decoder[FromServer]:
    """The decoder for agents, applications and standbys, which processes may make beforehand."""
    from dq_client.base.messages.bodies import ORDERS, REPLIES

    both: Any = with_body(Reply, REPLIES) | with_body(Order, ORDERS)
    return msgspec.msgpack.Decoder(both)


@cache
def _to_users() -> msgspec.msgpack.Decoder[Reply]:
    from dq_client.base.messages import base, users

    mine = (base.__name__, users.__name__)
    bodies = [body for body in ReplyBody.__subclasses__() if body.__module__ in mine]
    return msgspec.msgpack.Decoder(with_body(Reply, bodies))


def encode(message: Request | FromServer) -> bytes:
    """One frame; DQError if it would be larger than the other side accepts."""
    # Checked by the sender: ZeroMQ would drop the connection of a frame that is too large, and the
    # reason with it.
    frame = _encoder.encode(message)
    limit = FRAME_BYTES_MAX if isinstance(message, Request) else FROM_SERVER_BYTES_MAX
    if len(frame) > limit:
        raise DQError(f"a message of {len(frame)} bytes exceeds the limit of {limit}")
    return frame


def decode_request(frame: bytes) -> Request:
    """For the server; MalformedMessage for anything that is not a valid request."""
    return _decoded(_requests(), frame)


def request_id(frame: bytes) -> str | None:
    """The id of a malformed request, if it has at least that."""
    try:
        return _ids.decode(frame).id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def hello_of_another_version(frame: bytes) -> OldRequest | None:
    """A malformed request, if it is the hello of an agent that speaks another protocol."""
    try:
        found = _old_requests().decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if found.body.protocol != PROTOCOL else None


def decode_from_server(frame: bytes) -> FromServer:
    """For agents, applications and standbys; MalformedMessage for anything else."""
    return _decoded(from_server(), frame)


def decode_to_user(frame: bytes) -> FromServer:
    """For clients with a user's or a viewer's key, which get no orders."""
    return _decoded(_to_users(), frame)


def _decoded(decoder: msgspec.msgpack.Decoder[T], frame: bytes) -> T:
    try:
        return decoder.decode(frame)
    # Not DecodeError alone: text that is no UTF-8 and values nested too deep raise errors of their
    # own, and no bytes of a peer may end the server.
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        from dq_client.base.text_files import explained  # only for what should not come

        raise MalformedMessage(explained(str(e))) from e


def welcome_text(welcome: JobWelcome) -> str:
    """A welcome that travels as a variable of the environment."""
    return msgspec.json.encode(welcome).decode()


def welcome_of(text: str) -> JobWelcome:
    """The welcome of such a variable, which this job's server has made."""
    from dq_client.base.messages import JobWelcome

    return msgspec.json.decode(text, type=JobWelcome)
