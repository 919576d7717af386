"""While the shell cannot carry grants out nothing is granted, whether it says why or not."""

from __future__ import annotations

import pytest

from dq_server.core.model import events as ev
from dq_server.core.model.jobs import JobState
from tests.core.cluster import MakeCluster, state


@pytest.mark.parametrize("why", ["the agents have not reported yet", ""])
def test_nothing_starts_or_expands_during_a_pause(cluster: MakeCluster, why: str) -> None:
    c = cluster(4, samples=1, discard=0, threshold=0.0)
    running = c.submit(1, 2)
    c.do(ev.GrantsPaused(True, why))
    waiting = c.submit(1)
    assert waiting.state is JobState.QUEUED
    answer = c.point(running, 1.0)
    assert (answer.what, answer.reason.code) == ("continue", "paused")
    c.do(ev.GrantsPaused(False))
    assert state(waiting) is JobState.RUNNING
    assert c.point(running, 1.0).what == "expand"
