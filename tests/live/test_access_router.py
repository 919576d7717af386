"""The server's socket."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq
from zmq.auth.thread import ThreadAuthenticator

from dq_client.base import keys
from dq_client.base import messages as m
from dq_client.base.connection import ALIVE_EVERY_MS
from dq_client.base.errors import UsageError
from dq_server.live import access as access_module
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
    """Who gets past one of them is caught later or not at all (live/connection_limits.py)."""
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


@pytest.mark.parametrize(("frames", "address"), [(3, ""), (4, "10.1.2.3"), (9, "10.1.2.3")])
def test_where_a_stranger_came_from_is_told(
    tmp_path: Path,
    context: zmq.Context[zmq.Socket[bytes]],
    monkeypatch: pytest.MonkeyPatch,
    frames: int,
    address: str,
) -> None:
    async def asks(authenticator: access_module._Authenticator, _: list[bytes]) -> None:
        authenticator.callback("DQ", b"k" * 40)

    told = list[tuple[str, str]]()
    monkeypatch.setattr(ThreadAuthenticator, "handle_zap_message", asks)
    keys.ensure(tmp_path / "keys")
    authenticator = access_module._Authenticator(
        context, Access(tmp_path / "keys"), lambda *who: told.append(who)
    )
    message = [b"1.0", b"1", b"DQ", b"10.1.2.3", *[b"x"] * 5][:frames]
    asyncio.run(authenticator.handle_zap_message(message))
    assert told == [(address, "k" * 40)]


@pytest.mark.parametrize(
    ("address", "every_ms"), [("tcp://127.0.0.1:*", 0), ("tcp://0.0.0.0:*", ALIVE_EVERY_MS)]
)
def test_a_line_over_a_network_is_looked_after_and_one_in_the_machine_is_not(
    tmp_path: Path, context: zmq.Context[zmq.Socket[bytes]], address: str, every_ms: int
) -> None:
    keys.ensure(tmp_path / "keys")
    access = Access(tmp_path / "keys")
    authenticator = secure(context, access)
    router = bind_router(context, authenticator, access, address)
    assert router.getsockopt(zmq.HEARTBEAT_IVL) == every_ms
    authenticator.stop()
