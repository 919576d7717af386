"""A decision about quotas, and a pass over the queue, look at no job that they are not about.

Counted, not timed: benchmarks/core.py has the times.
"""

from __future__ import annotations

import pytest

from dq_server.core.features.workers import OpenStarts
from dq_server.core.model import events as ev
from dq_server.core.model.derived import Derived
from dq_server.core.model.jobs import Job
from dq_server.core.model.quota_use import QuotaUse
from dq_server.core.model.quotas import Limits, QuotaOptions
from dq_server.core.model.state import State
from dq_server.core.settings import configured
from tests.core.cluster import MakeCluster
from tests.core.test_decision_work import Unchecked

QUOTAS = QuotaOptions(user={"*": Limits(processors=10_000, jobs=1000)})


@pytest.mark.parametrize("kept", [QuotaUse, OpenStarts])
def test_a_submission_looks_at_as_many_jobs_beside_200_as_beside_20(
    monkeypatch: pytest.MonkeyPatch, kept: type[Derived]
) -> None:
    looked: list[int] = []
    before = kept.update

    def counted(self: Derived, state: State, job_id: int, job: Job | None) -> None:
        looked.append(job_id)
        before(self, state, job_id, job)

    monkeypatch.setattr(kept, "update", counted)
    found = []
    for queued in (20, 200):
        c = Unchecked(4, 4, quotas=QUOTAS, start="easy", resize="none")
        for k in range(queued):
            c.submit(3, user=f"u{k % 5}")
        c.scheduler.state.check()
        looked.clear()
        c.submit(3, user="u1")
        found.append(len(looked))
        c.scheduler.state.check()
    assert 0 < found[1] <= found[0]


def test_a_job_leaves_the_queue_when_its_limit_becomes_tighter(cluster: MakeCluster) -> None:
    """That is asked only when limits or sums have changed."""
    c = cluster(4, per_node=4, quotas=QUOTAS, start="fcfs", resize="none")
    runs, waits, other = (c.submit(3, user=user) for user in ("u1", "u1", "u2"))
    tight = QuotaOptions(user={"u1": Limits(jobs=1)})
    c.do(ev.Configured(configured(c.scheduler.config, quotas=tight)))
    assert list(c.scheduler.state.queue) == [other.id]
    c.end(runs)
    assert (waits.size, other.size) == (3, 0)  # at its place again
