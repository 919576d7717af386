"""The process of `dq web`: one socket on this machine's own address, a token, and its end.

It ends on SIGTERM or Ctrl-C, with `dq web stop` or `dq down`, and when the cluster is gone.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Iterator

import uvicorn

from dq_client.base.errors import DQError, UsageError
from dq_client.base.home import Home
from dq_client.base.process import rename
from dq_client.deploy import sidecars
from dq_client.show.feed.follower import Asker, Follower
from dq_client.show.feed.model import Model
from dq_client.show.web.gate import Gate
from dq_client.show.web.limits import LimitedProtocol
from dq_client.show.web.site import Site

ADDRESS = "127.0.0.1"
CONNECTIONS_MAX = 200


class PageServer(uvicorn.Server):
    """Leaves signals to us: uvicorn raises them again at its end, before we have tidied up."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen(port: int) -> socket.socket:
    """A socket on this machine's own address; UsageError if the port cannot be used."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((ADDRESS, port))
    except (OSError, OverflowError) as e:
        bound.close()
        raise UsageError(f"port {port} of {ADDRESS} cannot be used ({e}): choose another") from e
    bound.listen(128)
    return bound


def serve(home: Home, port: int, ready: Callable[[str], None]) -> None:
    """Serve until told to end; `ready` gets the address once requests are taken."""
    with listen(port) as bound:
        port = bound.getsockname()[1]
        token = secrets.token_urlsafe(32)
        asyncio.run(_serve(home, bound, token, lambda: ready(_announce(home, port, token))))


def _announce(home: Home, port: int, token: str) -> str:
    url = f"http://{ADDRESS}:{port}/?token={token}"
    sidecars.announce(home, "web", port=port, url=url)
    return url


async def _serve(home: Home, bound: socket.socket, token: str, ready: Callable[[], None]) -> None:
    model, asker = Model(), Asker(home)
    site = Site(model, asker, home)
    config = uvicorn.Config(
        Gate(site.app(), token, bound.getsockname()[1]),
        http=LimitedProtocol,
        log_level="warning",
        access_log=False,  # it would have the token in it
        server_header=False,
        ws="none",
        limit_concurrency=CONNECTIONS_MAX,
        timeout_graceful_shutdown=1,  # pages that follow never hang up by themselves
    )
    server, loop = PageServer(config), asyncio.get_running_loop()

    def end() -> None:
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    announced = False

    def news() -> None:
        nonlocal announced
        site.changed()
        if model.complete and not announced:
            announced = True
            ready()

    follower = Follower(home, model, lambda: _in(loop, news), lambda: _in(loop, end))
    follower.start()
    try:
        await server.serve(sockets=[bound])
    finally:
        sidecars.file_of(home, "web").unlink(missing_ok=True)
        await asyncio.to_thread(follower.stop)
        asker.close()


def _in(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # it has ended meanwhile
        loop.call_soon_threadsafe(call)


def main() -> int:
    """Of the process that `dq web --detach` starts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    rename(["dq-web"])
    try:
        serve(Home.default(), options.port, lambda _: None)
    except DQError as e:
        print(f"dq web: {e}", file=sys.stderr)  # noqa: T201
        return e.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
