"""Connections of the live page that ask nothing, or do not read."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

pytest.importorskip("uvicorn", reason="dq web needs the extra web")

import uvicorn

from dq_client.show.web import limits
from dq_client.show.web.gate import Receive, Scope, Send
from dq_client.show.web.process import CONNECTIONS_MAX, PageServer, listen

SILENT, SLOW = 1000, 200
DESCRIPTORS = 2 * (SILENT + SLOW) + 100  # both ends are here
ASK = b"GET / HTTP/1.1\r\nHost: x\r\n"
LARGE = b"x" * (64 << 20)


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    body = LARGE if scope["path"] == "/large" else b"here"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@contextlib.asynccontextmanager
async def served() -> AsyncIterator[tuple[PageServer, tuple[str, int]]]:
    with listen(0) as bound:
        config = uvicorn.Config(
            app, http=limits.LimitedProtocol, log_level="error", lifespan="off", ws="none",
            limit_concurrency=CONNECTIONS_MAX, timeout_graceful_shutdown=1,
        )  # fmt: skip
        server = PageServer(config)
        task = asyncio.create_task(server.serve(sockets=[bound]))
        while not server.started:
            await asyncio.sleep(0.01)
        yield server, bound.getsockname()
        server.should_exit = True
        await task


async def answered(where: tuple[str, int]) -> bytes:
    reader, writer = await asyncio.open_connection(*where)
    writer.write(ASK + b"Connection: close\r\n\r\n")
    found = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    return found


def run(test: Callable[[tuple[str, int]], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with served() as (_, where):
            await test(where)

    asyncio.run(whole())


@pytest.fixture
def descriptors() -> Iterator[None]:
    """Enough of them for all connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard not in (-1, resource.RLIM_INFINITY) and hard < DESCRIPTORS:
        pytest.skip(f"needs {DESCRIPTORS} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, DESCRIPTORS), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("sent", [b"", b"GET / HT", ASK + b"\r\n"], ids=["none", "part", "whole"])
def test_others_are_answered_beside_idle_and_slow_connections(
    sent: bytes, descriptors: None
) -> None:
    """1,000 that ask nothing or nothing more, and 200 whose request does not come to its end."""

    async def test(where: tuple[str, int]) -> None:
        held = []
        for words in [sent] * SILENT + [b"GET / HT"] * SLOW:
            reader, writer = await asyncio.open_connection(*where)
            writer.write(words)
            held.append((reader, writer))
        assert b"200 OK" in await answered(where)
        assert b"200 OK" in await answered(where)
        for _, writer in held:
            writer.close()

    run(test)


def test_the_oldest_of_the_busiest_address_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "IDLE_MAX", 3)

    async def test(where: tuple[str, int]) -> None:
        other = await asyncio.open_connection(*where, local_addr=("127.0.0.2", 0))
        crowd = [await asyncio.open_connection(*where) for _ in range(4)]
        for reader, _ in crowd[:2]:
            assert await asyncio.wait_for(reader.read(), 60) == b""
        other[1].write(ASK + b"\r\n")
        assert b"200 OK" in await asyncio.wait_for(other[0].readline(), 60)
        for _, writer in [*crowd, other]:
            writer.close()

    run(test)


@pytest.mark.parametrize("first", [b"", b"GET / HT", ASK + b"\r\n"], ids=["none", "part", "whole"])
def test_a_request_has_to_be_whole_in_time(first: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REQUEST_WITHIN_S", 0.3)

    async def test(where: tuple[str, int]) -> None:
        reader, writer = await asyncio.open_connection(*where)
        writer.write(first)

        async def drip() -> None:  # each byte alone would keep it open
            with contextlib.suppress(OSError):
                while True:
                    await asyncio.sleep(0.1)
                    writer.write(b"G")
                    await writer.drain()

        dripping = asyncio.create_task(drip())
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), 60)
        dripping.cancel()
        writer.close()

    run(test)


def test_who_does_not_read_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "READ_WITHIN_S", 0.3)

    async def whole() -> None:
        async with served() as (server, where):
            with socket.create_connection(where) as stuck:
                stuck.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
                for there in (True, False):
                    while bool(server.server_state.connections) != there:
                        await asyncio.sleep(0.01)
                read = 0
                with contextlib.suppress(ConnectionError):
                    while piece := stuck.recv(1 << 20):
                        read += len(piece)
                assert read < len(LARGE)

    asyncio.run(asyncio.wait_for(whole(), 120))
