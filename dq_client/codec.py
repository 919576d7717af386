"""Bytes to messages and back, with validation. The only place that knows the encoding."""

from __future__ import annotations

import msgspec

from dq_client.errors import DQError
from dq_client.messages import (
    FRAME_BYTES_MAX,
    FROM_SERVER_BYTES_MAX,
    FromServer,
    Ident,
    Request,
)


class MalformedMessage(DQError):
    """Bytes that are no message of ours."""


class Envelope(msgspec.Struct):
    """What a malformed request can still be answered by."""

    id: Ident


_encoder = msgspec.msgpack.Encoder()
_requests = msgspec.msgpack.Decoder(Request)
_envelopes = msgspec.msgpack.Decoder(Envelope)
_from_server: msgspec.msgpack.Decoder[FromServer] = msgspec.msgpack.Decoder(FromServer)


def encode(message: Request | FromServer) -> bytes:
    """One frame; DQError if it would be larger than the other side accepts."""
    frame = _encoder.encode(message)
    limit = FRAME_BYTES_MAX if isinstance(message, Request) else FROM_SERVER_BYTES_MAX
    if len(frame) > limit:
        raise DQError(f"a message of {len(frame)} bytes exceeds the limit of {limit}")
    return frame


def decode_request(frame: bytes) -> Request:
    """For the server; MalformedMessage for anything that is not a valid request."""
    try:
        return _requests.decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise MalformedMessage(str(e)) from e


def request_id(frame: bytes) -> str | None:
    """Who asks, if a malformed request says at least that."""
    try:
        return _envelopes.decode(frame).id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def decode_from_server(frame: bytes) -> FromServer:
    """For clients."""
    try:
        return _from_server.decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise MalformedMessage(str(e)) from e
