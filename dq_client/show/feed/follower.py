"""A thread that asks the server what has changed, and comes back to it when it was away."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

from dq_client.base import messages as m
from dq_client.base.connection import Connection
from dq_client.base.errors import DQError, NoServer
from dq_client.base.home import Home
from dq_client.deploy import batch_settings
from dq_client.deploy.ssh.bringup import noted_hosts
from dq_client.node import local_agents
from dq_client.show.feed.cursor import FeedCursor
from dq_client.show.feed.model import Model

WAIT_S = 2.0  # the server answers then, if nothing happens
WITHIN_S = 2.0  # after that it is away
ANSWER_WITHIN_S = 4.0
RETRY_S = 0.3
GONE_AFTER_S = 10.0  # without a server and agents: somebody has taken the cluster down


class Follower(threading.Thread):
    """`news` is called after each change of the model, `end` when the cluster is gone."""

    def __init__(
        self, home: Home, model: Model, news: Callable[[], None], end: Callable[[], None]
    ) -> None:
        super().__init__(daemon=True, name="follower")
        self._home, self._model, self._news, self._end = home, model, news, end
        self._stopped = threading.Event()
        self._place = FeedCursor()

    def stop(self) -> None:
        """Ask for nothing more, and wait until the connection is closed."""
        self._stopped.set()
        self.join(ANSWER_WITHIN_S + 1)

    def run(self) -> None:
        away_since_s = time.monotonic()
        while not self._stopped.is_set():
            try:
                with contextlib.closing(Connection.to(self._home, "viewer")) as connection:
                    while not self._stopped.is_set():
                        self._look(connection)
                        away_since_s = time.monotonic()
            except (DQError, OSError) as e:
                if self._model.away(str(e)):
                    self._news()
            if time.monotonic() - away_since_s > GONE_AFTER_S and self._is_gone():
                self._end()
                return
            self._stopped.wait(RETRY_S)

    def _look(self, connection: Connection) -> None:
        self._model.take(self._place.look(connection, wait_s=WAIT_S, within_s=WITHIN_S))
        self._news()

    def _is_gone(self) -> bool:
        """Neither a server nor agents, of which those on other machines are not seen from here."""
        home = self._home
        if not home.root.exists():
            return True
        with contextlib.suppress(NoServer):
            home.server()
            return False
        elsewhere = bool(noted_hosts(home)) or batch_settings.noted(home) is not None
        return not elsewhere and not local_agents.running_agents(home)


class Asker:
    """Asks the server single questions, from any thread."""

    def __init__(self, home: Home) -> None:
        self._home, self._lock = home, threading.Lock()
        self._connection: Connection | None = None

    def ask(self, body: m.RequestBody) -> m.ReplyBody:
        """The answer; a DQError says why there is none."""
        with self._lock:
            if self._connection is None:
                self._connection = Connection.to(self._home, "viewer")
            try:
                return self._connection.call(body, ANSWER_WITHIN_S)
            except NoServer:
                self._close()
                raise

    def data(self, body: m.RequestBody) -> Any:
        """The data of the answer to a query."""
        reply = self.ask(body)
        assert isinstance(reply, m.Data)
        return reply.data

    def close(self) -> None:
        """Hang up."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
