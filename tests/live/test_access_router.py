"""The server's socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from dq_client import keys
from dq_client import messages as m
from dq_client.errors import UsageError
from dq_server.live.access import Access, bind_router, secure


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    made: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    yield made
    made.destroy(linger=0)


def test_an_answer_to_nobody_is_an_error_and_not_lost_in_silence(
    tmp_path: Path, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    keys.ensure(tmp_path / "keys")
    access = Access(tmp_path / "keys")
    authenticator = secure(context, access)
    router = bind_router(context, authenticator, access, "tcp://127.0.0.1:*")
    with pytest.raises(zmq.ZMQError) as refused:
        router.send_multipart([b"nobody", b"an answer"])
    assert refused.value.errno == zmq.EHOSTUNREACH
    authenticator.stop()
    with pytest.raises(UsageError, match="no authenticator"):
        bind_router(context, authenticator, access, "tcp://127.0.0.1:*")


def test_the_sockets_limits_are_what_the_documentation_says(
    tmp_path: Path, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    """Who gets past one of them is caught later or not at all (live/guard.py)."""
    keys.ensure(tmp_path / "keys")
    access = Access(tmp_path / "keys")
    authenticator = secure(context, access)
    router = bind_router(context, authenticator, access, "tcp://127.0.0.1:*")
    limits = {
        zmq.ZAP_ENFORCE_DOMAIN: 1,  # or who does not ask for our domain is let in
        zmq.MAXMSGSIZE: 2 * m.FRAME_BYTES_MAX,
        zmq.HANDSHAKE_IVL: 5000,
        zmq.SNDHWM: 2000,
        zmq.RCVHWM: 200,
    }
    assert {option: router.getsockopt(option) for option in limits} == limits
    authenticator.stop()
