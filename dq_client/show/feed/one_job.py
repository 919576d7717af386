"""One job, or an array of jobs, looked at until one has seen enough."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from dq_client.base import messages as m
from dq_client.base.connection import Connection, ask
from dq_client.base.errors import NotNow
from dq_client.show.feed.cursor import FeedCursor

WAIT_S = 5.0
FIRST_PAUSE_S, PAUSE_S = 0.05, 0.5


def looks(
    connection: Connection, job_id: int, *, wait_s: float = WAIT_S, pause_s: float = PAUSE_S
) -> Iterator[dict[str, Any]]:
    """The job as lists have it: now, after each change, and after `wait_s` without one.

    Endless. An array, and a job that the server has forgotten, as JobQuery answers it. Between two
    looks is a pause, or many who wait for jobs that report every few milliseconds would keep the
    server busy: a short one at first, so that short jobs are told of at once, then `pause_s`.

    Raises:
        NotFound: there is no such job.
    """
    place, rest_s = FeedCursor(job_id), FIRST_PAUSE_S
    known: dict[str, Any] | None = next(iter(place.look(connection)["jobs"]), None)
    while True:
        yield known or ask(connection, m.JobQuery(job_id))
        time.sleep(min(rest_s, pause_s))
        rest_s *= 1.3
        if known is not None:
            try:
                told = place.look(connection, wait_s=wait_s)
            except NotNow:  # too many wait already: ask as of one that is not followed
                known = None
            else:
                known = next(iter(told["jobs"]), None if told["whole"] or told["gone"] else known)
