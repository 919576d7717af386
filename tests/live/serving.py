"""A real server in a thread of the test: sockets, keys and journal, no agents unless played."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, TypeVar

import zmq

from dq_client.base import keys
from dq_client.base import messages as m
from dq_client.base.connection import Connection
from dq_client.base.home import Home
from dq_client.base.keys import KeyPair
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.launching import Launching
from dq_server.core.model.state import State
from dq_server.live.loop import Front
from harness.sockets import dealer


class Serving:
    """The server, and a connection for anybody who asks. Its agents are played by the test."""

    def __init__(
        self,
        root: Path,
        *,
        heartbeat_s: float = 60.0,
        launching: Launching = Launching.MPIEXEC,
    ) -> None:
        self.home = Home(root / "home")
        self.home.create()
        keys.ensure(self.home.keys)
        self._heartbeat_s, self._launching = heartbeat_s, launching
        self._up = threading.Event()
        self.open: list[Connection] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        assert self._up.wait(20), "the server does not start"
        self.public = self.front.server.access.server.public

    def _serve(self) -> None:  # all of it in one thread: SQLite insists
        config = SchedulerConfig(samples=1, launching=self._launching)
        self.front = Front(self.home, config=config, heartbeat_s=self._heartbeat_s)
        self._up.set()
        self.front.run()

    @property
    def state(self) -> State:
        return self.front.server.scheduler.state

    def connect(self, pair: KeyPair) -> Connection:
        self.open.append(Connection(self.front.address, self.public, pair))
        return self.open[-1]

    def role(self, name: str) -> Connection:
        return self.connect(keys.load(self.home.keys, name))

    def job_key(self, job: int, instance: int) -> Connection:
        secret = self.front.server.access.server.secret
        return self.connect(keys.job_keys(secret, job, instance))

    def agent(self, name: str, *nodes: str, processors: int = 2) -> Connection:
        """An agent that has reported."""
        line = self.role("agent")
        infos = [m.NodeInfo(node, processors, node) for node in nodes]
        line.call(m.AgentHello(m.PROTOCOL, name, infos))
        return line

    def raw(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        pair: KeyPair,
        *,
        name: bytes = b"",
        through: str = "",
    ) -> zmq.Socket[bytes]:
        """A bare socket with a good key: the caller does what it likes with it."""
        return dealer(context, through or self.front.address, self.public, pair, name=name)

    def close(self) -> None:
        for connection in self.open:
            connection.close()
        self.front.stop()
        self._thread.join(10)
        assert not self._thread.is_alive(), "the server does not stop"


Kind = TypeVar("Kind", bound=m.ReplyBody)


def answer_of(kind: type[Kind], body: m.ReplyBody) -> Kind:
    """An answer, which must be of this kind."""
    assert isinstance(body, kind), body
    return body


def submission(request: str, size: int = 1, **more: Any) -> m.Submit:
    """A job that nobody will run: the agents are played."""
    return m.Submit(request, "job", ["true"], "/", initial=size, **more)
