"""What an evolving job is told at a remap point that changes nothing."""

from __future__ import annotations

from dq_server.core.model import events as ev
from dq_server.core.model.jobs import Job
from tests.core.cluster import Cluster, MakeCluster, answered

BASE = {"start": "reservations", "resize": "none"}


def ask(c: Cluster, job: Job, request: int, more: int, timeout_s: float = 0.0) -> None:
    c.do(ev.DynamicRequested(job.id, job.instance, request, more, timeout_s))


def test_before_it_has_asked_it_is_told_that_it_asks_itself(cluster: MakeCluster) -> None:
    c = cluster(4, **BASE)
    assert c.point(c.submit(2, kind="evolving"), 1.0).reason.code == "dyn_asks_itself"


def test_while_its_request_waits_it_is_told_why(cluster: MakeCluster) -> None:
    c = cluster(4, **BASE)
    job = c.submit(2, kind="evolving", estimate_s=1000.0)
    c.submit(2, estimate_s=1000.0)
    ask(c, job, 1, 1, timeout_s=100.0)
    assert c.point(job, 1.0).reason == answered(job).reason


def test_a_rejected_request_is_no_reason_for_anything_later(cluster: MakeCluster) -> None:
    c = cluster(4, **BASE)
    job = c.submit(2, kind="evolving", estimate_s=1000.0)
    c.submit(2, estimate_s=1000.0)
    ask(c, job, 1, 1)
    assert answered(job).what == "rejected"
    assert c.point(job, 1.0).reason.code == "dyn_asks_itself"
