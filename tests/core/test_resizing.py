"""Resizes as transactions: commit, abort, lost messages, repeats."""

from __future__ import annotations

import pytest

from dq_server.core.model import events as ev
from dq_server.core.model.actions import AnswerRemap, VacateProcessors
from dq_server.core.model.errors import InfeasibleRequest, InvalidTransition
from dq_server.core.model.jobs import Answer, Job
from dq_server.core.model.places import Places
from tests.core.cluster import MakeCluster

QUICK = {"samples": 1, "discard": 0, "threshold": 0.0, "settle": 0}


def remap(
    job: Job, seq: int, processors: int | None = None, resize_id: int = 0, time_s: float = 1.0
) -> ev.RemapPoint:
    return ev.RemapPoint(job.id, job.instance, seq, processors or job.size, resize_id, time_s)


def test_an_expansion_reserves_and_the_commit_books(cluster: MakeCluster) -> None:
    c = cluster(4, **QUICK)
    job = c.submit(1, 2, 4)
    answer = c.point(job, 1.0, carry_out=False)
    assert (job.size, c.scheduler.state.idle) == (1, 2)
    c.do(ev.ResizeCommitted(job.id, job.instance, answer.resize_id, 0.5))
    assert (job.size, c.scheduler.state.idle) == (2, 2)
    assert job.stays[-1].redistribution_time_s == 0.5


def test_an_abort_gives_the_reserved_processors_back(cluster: MakeCluster) -> None:
    c = cluster(4, **QUICK)
    job = c.submit(1, 2, 4)
    answer = c.point(job, 1.0, carry_out=False)
    c.do(ev.ResizeAborted(job.id, job.instance, answer.resize_id, "spawn refused"))
    assert (job.size, c.scheduler.state.idle) == (1, 3)
    assert "spawn refused" in job.decisions[-1].reason.text


def test_a_program_that_no_rank_can_join_is_expanded_again_by_an_order_only(
    cluster: MakeCluster,
) -> None:
    c = cluster(4, **QUICK)
    job = c.submit(1, 2, 4)
    answer = c.point(job, 1.0, carry_out=False)
    why = "app.py:9: communication (scatter) before the loop"
    c.do(ev.ResizeAborted(job.id, job.instance, answer.resize_id, why, mistake=True))
    for _ in range(200):
        c.point(job, 1.0)
    assert job.size == 1
    assert why in job.decisions[-1].reason.text
    assert sum(decision.what == "aborted" for decision in job.decisions) == 1
    c.do(ev.ResizeRequested(job.id, 2))
    c.point(job, 1.0)
    assert job.size == 2


def test_a_program_that_no_rank_can_join_still_gets_another_grid(cluster: MakeCluster) -> None:
    c = cluster(8, **QUICK)
    job = c.submit("2x2", "1x4", "2x4")
    c.do(ev.ResizeRequested(job.id, 8))
    answer = c.point(job, 1.0, carry_out=False)
    c.do(ev.ResizeAborted(job.id, job.instance, answer.resize_id, "app.py:9", mistake=True))
    answers = [c.point(job, 1.0).what for _ in range(20)]
    assert "regrid" in answers
    assert "expand" not in answers


def test_the_time_on_a_size_ends_with_its_decision_and_reason(cluster: MakeCluster) -> None:
    c = cluster(4, **QUICK)
    job = c.submit(1, 2)
    reason = c.point(job, 1.0).reason
    before = job.stays[-2]
    assert (before.configuration.size, before.decision, before.reason) == (1, "expand", reason)


def test_the_places_of_the_latest_sizes_are_remembered(cluster: MakeCluster) -> None:
    c = cluster(4, resize="none", keep_decisions=2)
    job = c.submit(1, 2, 3, 4)
    for size in (2, 3, 4):
        c.do(ev.ResizeRequested(job.id, size))
        c.point(job, 1.0)
    assert [len(span.nodes) for span in Places.of(job).spans] == [3, 4]


def test_a_repeated_remap_point_gets_the_same_answer(cluster: MakeCluster) -> None:
    c = cluster(4, **QUICK)
    job = c.submit(1, 2, 4)
    first = c.do(remap(job, 1))
    again = c.do(remap(job, 1))
    assert [a for a in first if isinstance(a, AnswerRemap)] == again
    assert job.remap_points == 1


def test_a_lost_commit_is_made_up_for_at_the_next_remap_point(cluster: MakeCluster) -> None:
    c = cluster(4, **QUICK)
    job = c.submit(1, 2, 4)
    answer = c.point(job, 1.0, carry_out=False)
    c.do(remap(job, 2, processors=2, resize_id=answer.resize_id))
    assert job.size == 2
    # the commit itself, when it arrives late, changes nothing
    c.do(ev.ResizeCommitted(job.id, job.instance, answer.resize_id, 0.5))
    assert job.size == 2


def test_a_lost_answer_aborts_the_resize_at_the_next_remap_point(cluster: MakeCluster) -> None:
    c = cluster(4, samples=1, discard=0, threshold=0.0, resize="reshape")
    job = c.submit(1, 2, 4)
    c.point(job, 1.0, carry_out=False)
    c.do(remap(job, 2, processors=1, resize_id=0))
    aborted = next(d for d in job.decisions if d.what == "aborted")
    assert "went on without it" in aborted.reason.text
    assert job.size == 1


def test_a_shrink_releases_only_what_the_node_confirms(cluster: MakeCluster) -> None:
    c = cluster(4, **QUICK)
    job = c.submit(1, 2, 4, start=4)
    c.do(ev.ResizeRequested(job.id, 1))
    answer = c.point(job, 1.0, carry_out=False)
    assert answer.processors == (1, 2, 3)
    actions = c.do(ev.ResizeCommitted(job.id, job.instance, answer.resize_id, 0.1), vacate=False)
    vacate = next(a for a in actions if isinstance(a, VacateProcessors))
    assert c.scheduler.state.idle == 0
    c.do(ev.ProcessorsVacated(job.id, vacate.processors[:1]))
    assert c.scheduler.state.idle == 1
    c.do(ev.ProcessorsVacated(job.id, vacate.processors))
    assert c.scheduler.state.idle == 3


def test_a_wrong_size_is_refused_and_changes_nothing(cluster: MakeCluster) -> None:
    c = cluster(4, **QUICK)
    job = c.submit(1, 2, 4)
    with pytest.raises(InvalidTransition, match="reports 3 processors, it holds 1"):
        c.do(remap(job, 1, processors=3))
    assert (job.remap_points, job.answer) == (0, None)


def test_an_old_instance_is_not_heard(cluster: MakeCluster) -> None:
    c = cluster(2, **QUICK)
    job = c.submit(1, 2)
    with pytest.raises(InvalidTransition):
        c.do(ev.RemapPoint(job.id, job.instance + 1, 1, 1, 0, 1.0))
    c.do(ev.JobEnded(job.id, job.instance + 1, 0))
    assert job.size == 1


@pytest.mark.parametrize("size", [3, 64])
def test_an_illegal_size_is_refused(cluster: MakeCluster, size: int) -> None:
    c = cluster(4, **QUICK)
    job = c.submit(1, 2, 4)
    with pytest.raises(InfeasibleRequest, match="legal sizes 1, 2, 4"):
        c.do(ev.ResizeRequested(job.id, size))


def test_a_users_wish_waits_for_processors_and_then_happens(cluster: MakeCluster) -> None:
    c = cluster(4, resize="none")
    job = c.submit(1, 2, 4)
    other = c.submit(2, name="other")
    c.do(ev.ResizeRequested(job.id, 4))
    assert c.point(job, 1.0).reason.code == "user_resize_waits"
    c.end(other)
    assert c.point(job, 1.0).what == "expand"
    assert job.size == 4


def test_an_expansion_stands_while_its_ranks_start_and_those_iterations_do_not_count(
    cluster: MakeCluster,
) -> None:
    c = cluster(4, **QUICK)
    job = c.submit(1, 2, 4)
    granted = c.point(job, 1.0, carry_out=False)
    seen = job.performance.seen

    def still(seq: int) -> Answer:
        event = ev.RemapPoint(
            job.id, job.instance, seq, 1, 0, 7.0, preparing=granted.resize_id, iterations=4
        )
        return next(a.answer for a in c.do(event) if isinstance(a, AnswerRemap))

    for seq in (2, 3):
        answer = still(seq)
        assert (answer.what, answer.resize_id) == ("continue", granted.resize_id)
        assert answer.reason.code == "resize_under_way"
    assert (job.performance.seen, job.size, c.scheduler.state.idle) == (seen, 1, 2)
    assert job.stays[-1].iterations == 1 + 2 * 4
    c.do(remap(job, 4, processors=2, resize_id=granted.resize_id))
    assert job.size == 2


def test_preparing_something_that_is_not_granted_means_nothing(cluster: MakeCluster) -> None:
    c = cluster(4, **QUICK)
    job = c.submit(1, 2, 4)
    event = ev.RemapPoint(job.id, job.instance, 1, 1, 0, 1.0, preparing=99)
    answer = next(a.answer for a in c.do(event) if isinstance(a, AnswerRemap))
    assert answer.what == "expand"
