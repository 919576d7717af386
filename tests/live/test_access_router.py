"""The server's socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from dq_client import keys
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
