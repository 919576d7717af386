"""A journal that was mended or restored: what lost events have numbered is not numbered again."""

from __future__ import annotations

from dq_server.core.model import events as ev
from dq_server.core.model.actions import StartJob
from dq_server.core.model.jobs import JobState
from tests.core.cluster import Cluster

EPOCH = 75_000_000


def lost(c: Cluster, *, epoch: int = EPOCH, unknown: tuple[int, ...] = ()) -> list[StartJob]:
    """What is started after that, and after all processors are vacated."""
    before = len(c.log)
    c.do(ev.EventsLost(epoch, unknown))
    return [action for action in c.log[before:] if isinstance(action, StartJob)]


def test_jobs_starts_and_resizes_get_numbers_above_all_that_may_have_been_given() -> None:
    c = Cluster(2, samples=1, discard=0)
    first = c.submit(1, 2)
    lost(c)
    assert first.instance == 1  # it runs on, under the number that its ranks have
    resize = c.point(first, 1.0)
    assert resize.what == "expand"
    assert resize.resize_id >= EPOCH << 20
    c.do(ev.JobEnded(first.id, first.instance, 0))
    second = c.submit(1)
    assert second.id == first.id + 100_001
    assert second.instance == EPOCH


def test_a_later_loss_only_goes_up() -> None:
    c = Cluster(1)
    lost(c)
    lost(c, epoch=EPOCH - 5)
    job = c.submit(1)
    assert (job.id, job.instance) == (200_001, EPOCH)


def test_a_start_that_no_agent_knows_waits_again_and_has_another_number() -> None:
    c = Cluster(1)
    job = c.submit(1)
    assert (job.state, job.instance) == (JobState.RUNNING, 1)
    lost(c)
    (again,) = lost(c, epoch=0, unknown=(job.id,))
    assert (again.job, again.instance) == (job.id, EPOCH)
    said = [d.reason.text for d in job.decisions if d.what == "restart"]
    assert said == ["no agent has start 1, and the journal has lost its outcome"]


def test_who_has_ended_is_not_started_again() -> None:
    c = Cluster(1)
    job = c.submit(1)
    c.do(ev.JobEnded(job.id, 1, 0))
    assert lost(c, unknown=(job.id, 99)) == []
    assert c.scheduler.state.job(job.id).state is JobState.DONE
