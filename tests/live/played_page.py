"""The live page over a model that a test fills: no server, no agents."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from dq_client.base.errors import NoServer
from dq_client.show.feed.model import Model
from dq_client.show.web.gate import Gate
from dq_client.show.web.site import Site


def node(n: int, processors: int = 4, **more: Any) -> dict[str, Any]:
    fixed = {"state": "up", "processors": processors, "speed": 1.0, "memory": None, "gpus": 0}
    rest: dict[str, Any] = {"features": [], "host": "h", "drain": None, "until_s": None}
    return {"name": f"n{n}", **fixed, **rest, **more}


def answer(**news: Any) -> dict[str, Any]:
    fixed = {"whole": False, "more": False, "epoch": 1, "processors": 4000, "idle": 0}
    return {**fixed, "paused": "", "jobs": [], "nodes": [], "gone": [], "decisions": [], **news}


class Nobody:
    """Stands for an Asker without a server."""

    def data(self, _: object) -> Any:
        raise NoServer("there is no server")


@contextmanager
def served(model: Model) -> Iterator[tuple[str, Callable[[], None]]]:
    """The site over a model that no server has filled: its address, and what to call after news."""
    loops = list[asyncio.AbstractEventLoop]()

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            loops.append(asyncio.get_running_loop())
            await super().startup(sockets)

    def told() -> None:
        for loop in loops:
            loop.call_soon_threadsafe(site.changed)

    with socket.create_server(("127.0.0.1", 0)) as bound:
        port, site = bound.getsockname()[1], Site(model, Nobody(), None)  # type: ignore[arg-type]
        config = uvicorn.Config(Gate(site.app(), "t", port), log_level="warning")
        config.timeout_graceful_shutdown = 1
        server = Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{port}/?token=t", told
        finally:
            server.should_exit = True
            thread.join(20)
