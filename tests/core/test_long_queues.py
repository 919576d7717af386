"""Queues long enough for an index give the same schedule as short ones."""

from __future__ import annotations

import pytest

from dq_server.core import events as ev
from dq_server.core.jobs import JobState


@pytest.mark.parametrize("behind", [2, 100])
def test_a_job_that_comes_back_to_its_place_is_found_there(cluster, behind):
    """It was held when the queue was searched, and those behind it were not."""
    c = cluster(4, start="easy", resize="none")
    c.submit(2, estimate_s=100.0)
    short = c.submit(2, estimate_s=5.0)
    c.submit(4, estimate_s=10.0)
    back = c.submit(1, estimate_s=10.0)
    c.do(ev.HoldRequested(back.id))
    for _ in range(behind):
        c.submit(4, estimate_s=10.0)
    c.now = 5.0
    c.end(short)  # the queue is searched for who can use two processors: nobody
    c.do(ev.ReleaseRequested(back.id))
    assert back.state is JobState.RUNNING
    assert c.started[-1] == back.id
