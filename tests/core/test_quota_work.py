"""A decision about quotas, and a pass over the queue, look at no job that they are not about.

Counted, not timed: benchmarks/core.py has the times.
"""

from __future__ import annotations

from typing import Any

import pytest

from dq_server.core.features import quotas
from dq_server.core.features.workers import OpenStarts
from dq_server.core.model import events as ev
from dq_server.core.model.jobs import Job
from dq_server.core.model.quota_use import QuotaUse
from dq_server.core.model.quotas import Limits, QuotaOptions
from dq_server.core.model.state import Derived, State
from dq_server.core.settings import configured
from dq_server.core.turn import Turn
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


def test_a_submission_looks_at_no_limit_whose_sums_have_not_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counted are the jobs that are asked whether their limits let them in."""
    asked: list[int] = []
    before = quotas._blocked

    def counted(turn: Turn, job: Job, *more: Any) -> str | None:
        asked.append(job.id)
        return before(turn, job, *more)

    monkeypatch.setattr(quotas, "_blocked", counted)
    found = []
    for users in (2, 40):
        c = Unchecked(4, 4, quotas=QuotaOptions(user={"*": Limits(jobs=1)}), start="easy")
        for k in range(3 * users):  # of each user one starts or is in the queue, two wait
            c.submit(3, user=f"u{k % users}")
        asked.clear()
        c.submit(3, user="u1")
        found.append(len(asked))
        c.scheduler.state.check()
    assert found[0] == found[1] > 0


def test_a_job_is_let_in_when_another_member_of_its_group_ends(cluster: MakeCluster) -> None:
    group = {"g": Limits(jobs=1, members=("a", "b"))}
    c = cluster(4, per_node=4, quotas=QuotaOptions(group=group), start="fcfs", resize="none")
    runs, waits = c.submit(3, user="a"), c.submit(3, user="b")
    c.submit(3, user="c")  # a pass that changes nothing for the group
    assert (runs.size, waits.size) == (3, 0)
    c.end(runs)
    assert waits.size == 3
