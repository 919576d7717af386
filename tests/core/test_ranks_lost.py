"""Ranks of a protected job die, the others are free to go on: off what, and at which size."""

from __future__ import annotations

import pytest

from dq_server.core.model import events as ev
from dq_server.core.model.actions import AnswerRemap, VacateProcessors
from dq_server.core.model.errors import InvalidTransition
from dq_server.core.model.jobs import Answer, Job, JobState
from dq_server.core.model.spec import Protection
from tests.core.cluster import Cluster, MakeCluster

PARTNER = Protection("partner")


def lost(c: Cluster, job: Job, *processors: int) -> Answer:
    """The answer to the survivors."""
    actions = c.do(ev.RanksLost(job.id, job.instance, processors))
    (answer,) = (a.answer for a in actions if isinstance(a, AnswerRemap))
    return answer


@pytest.mark.parametrize(
    ("sizes", "dead", "leaving", "size"),
    [
        ((1, 2, 3, 4), (3,), (3,), 3),
        ((1, 2, 3, 4), (0,), (0,), 3),
        ((1, 2, 4), (1,), (1, 3), 2),
        ((1, 4), (0, 2), (0, 2, 3), 1),
        ((2, 4), (2, 3), (2, 3), 2),
    ],
)
def test_the_nearest_legal_size_goes_on(
    cluster: MakeCluster,
    sizes: tuple[int, ...],
    dead: tuple[int, ...],
    leaving: tuple[int, ...],
    size: int,
) -> None:
    c = cluster(4, resize="none")
    job = c.submit(*sizes, start=4, protection=PARTNER)
    c.point(job, 1.0)
    answer = lost(c, job, *dead)
    assert (answer.what, answer.processors, answer.configuration.size) == ("shrink", leaving, size)
    actions = c.do(ev.ResizeCommitted(job.id, job.instance, answer.resize_id, 0.1))
    assert job.size == size
    assert job.allocation == [p for p in range(4) if p not in leaving]
    assert job.state is JobState.RUNNING
    assert job.restarts == 0
    assert [a.processors for a in actions if isinstance(a, VacateProcessors)] == [leaving]
    assert "ranks died: the others go on" in [d.reason.text for d in job.decisions][-2]


def test_asked_again_it_is_the_same_answer(cluster: MakeCluster) -> None:
    c = cluster(4, resize="none")
    job = c.submit(1, 2, 4, start=4, protection=PARTNER)
    c.point(job, 1.0)
    assert lost(c, job, 1) == lost(c, job, 1)


def test_a_commit_that_got_lost_is_made_up_for(cluster: MakeCluster) -> None:
    c = cluster(4, resize="none")
    job = c.submit(1, 2, 4, start=4, protection=PARTNER)
    c.point(job, 1.0)
    answer = lost(c, job, 1)
    c.do(ev.RemapPoint(job.id, 1, answer.seq + 1, 2, answer.resize_id, 1.0))
    assert job.allocation == [0, 2]


def test_waiting_jobs_get_what_is_left_over(cluster: MakeCluster) -> None:
    c = cluster(4, resize="none")
    job = c.submit(2, 4, start=4, protection=PARTNER)
    c.point(job, 1.0)
    waits = c.submit(2)
    answer = lost(c, job, 3)
    c.do(ev.ResizeCommitted(job.id, job.instance, answer.resize_id, 0.1))
    assert waits.allocation == [2, 3]


@pytest.mark.parametrize("dead", [(0,), (0, 1, 2, 3), (), (7,)])
def test_without_a_legal_size_or_with_nonsense_it_is_restarted(
    cluster: MakeCluster, dead: tuple[int, ...]
) -> None:
    c = cluster(8, resize="none")
    job = c.submit(4, start=4, kind="malleable", protection=PARTNER)
    c.point(job, 1.0)
    assert lost(c, job, *dead).what == "continue"
    assert job.resize is None


def test_a_resize_that_nobody_heard_of_is_aborted(cluster: MakeCluster) -> None:
    c = cluster(4)
    job = c.submit(1, 2, 4, start=2, protection=PARTNER)
    answer = c.point(job, 1.0, carry_out=False)
    while answer.what != "expand":
        answer = c.point(job, 1.0, carry_out=False)
    told = lost(c, job, 0)
    assert (told.what, told.processors) == ("shrink", (0,))
    assert not job.reserved
    assert "did not happen: ranks were lost" in [d.reason.text for d in job.decisions][-2]


def test_an_unprotected_job_is_not_mended(cluster: MakeCluster) -> None:
    c = cluster(4, resize="none")
    job = c.submit(1, 2, 4, start=4)
    c.point(job, 1.0)
    assert lost(c, job, 0).what == "continue"


def test_an_earlier_start_has_no_say(cluster: MakeCluster) -> None:
    c = cluster(4, resize="none")
    job = c.submit(1, 2, 4, start=4, protection=PARTNER)
    with pytest.raises(InvalidTransition):
        c.do(ev.RanksLost(job.id, 7, (0,)))


def test_a_grant_outlives_the_shrink_to_the_survivors(cluster: MakeCluster) -> None:
    """It was nobody's from then on."""
    c = cluster(4, resize="none")
    job = c.submit(1, 2, 3, start=2, kind="evolving", protection=PARTNER)
    c.point(job, 1.0)
    c.do(ev.DynamicRequested(job.id, job.instance, 1, 1))
    answer = lost(c, job, 1)
    c.do(ev.ResizeCommitted(job.id, job.instance, answer.resize_id, 0.1))
    assert (job.size, job.reserved) == (1, (2,))
    c.done[job.id] = answer.resize_id
    assert c.point(job, 1.0).what == "expand"
    assert (job.allocation, job.reserved) == ([0, 2], ())
