"""Asking the server what has changed since one has asked last."""

from __future__ import annotations

from typing import Any

from dq_client.base import messages as m
from dq_client.base.connection import Connection, ask

ANSWER_WITHIN_S = 5.0  # beside what the server was allowed to wait


class FeedCursor:
    """How far a client knows what has changed, of all jobs or of one."""

    def __init__(self, job: int = 0) -> None:
        self._job = job
        self._known: dict[str, Any] = {"epoch": 0, "seq": 0, "event": None}

    def look(
        self,
        connection: Connection,
        *,
        wait_s: float = 0.0,
        stories_s: float | None = None,
        within_s: float = ANSWER_WITHIN_S,
    ) -> dict[str, Any]:
        """The answer to Since; it may wait `wait_s` for something to tell. See there for the rest.

        Raises:
            NoServer: none answers within `within_s` more.
        """
        body = m.Since(
            epoch=self._known["epoch"],
            seq=self._known["seq"],
            event=self._known["event"],
            wait_s=wait_s,
            job=self._job,
            stories_s=stories_s,
        )
        self._known = ask(connection, body, wait_s + within_s)
        return self._known
