"""Ranks that are missing, sizes that are held, orders that cannot be carried out."""

from __future__ import annotations

from typing import Any

import pytest

from dq_server.core.explain import explain
from dq_server.core.model import events as ev
from dq_server.core.model.errors import ConfigError, InvalidTransition
from dq_server.core.model.jobs import Job, JobState
from tests.core.cluster import Cluster, MakeCluster, ending, state

HERE = "app.py:7"


def say(c: Cluster, job: Job, rank: int, what: str = "stays", **more: Any) -> None:
    """A rank says where it is."""
    given = {"where": f"{HERE}, rank {rank}", **more}
    c.do(ev.RankReported(job.id, job.instance, rank, what, **given))


def pair(c: Cluster, **spec: Any) -> Job:
    job = c.submit(2, kind="malleable", **spec)
    c.do(ev.SessionOpened(job.id, job.instance))
    c.point(job, 1.0)
    return job


def told(c: Cluster, job: Job) -> list[str]:
    return [reason.code for reason in explain(c.scheduler, job, c.now)]


def test_a_rank_that_left_and_one_that_waits_for_it_end_the_job(cluster: MakeCluster) -> None:
    c = cluster(2)
    job = pair(c)
    say(c, job, 1, "left", turns=5)
    assert state(job) is JobState.RUNNING
    say(c, job, 0, turns=5, waits=True, for_s=5.0)
    assert (job.state, job.killed_to) == (JobState.KILLING, JobState.FAILED)
    assert ending(job).code == "rank_left"
    assert f"{HERE}, rank 1" in ending(job).text
    assert f"{HERE}, rank 0" in ending(job).text


@pytest.mark.parametrize(
    "word",
    [
        {"turns": 4, "waits": True},  # at a remap point that the other one has passed
        {"turns": 5, "waits": False},  # it computes, and may leave the loop in this turn, too
    ],
)
def test_a_rank_that_left_after_the_others_last_point_ends_nothing(
    cluster: MakeCluster, word: dict[str, Any]
) -> None:
    c = cluster(2)
    job = pair(c)
    say(c, job, 1, "left", turns=5)
    say(c, job, 0, for_s=5.0, **word)
    assert state(job) is JobState.RUNNING


@pytest.mark.parametrize(("first", "second"), [(0, 1), (1, 0)])
def test_ranks_that_wait_at_different_places_wait_for_one_another(
    cluster: MakeCluster, first: int, second: int
) -> None:
    c = cluster(2)
    job = pair(c)
    for rank in (first, second):
        say(c, job, rank, waits=True, for_s=10.0)
    assert state(job) is JobState.RUNNING  # it is early to say so
    say(c, job, first, waits=True, for_s=20.0)
    assert state(job) is JobState.RUNNING
    say(c, job, second, waits=True, for_s=20.0)
    assert ending(job).code == "ranks_deadlocked"


def test_ranks_that_wait_at_one_place_may_be_in_a_long_exchange(cluster: MakeCluster) -> None:
    c = cluster(2)
    job = pair(c)
    for rank in (0, 1):
        say(c, job, rank, waits=True, for_s=50.0, where=HERE)
    assert state(job) is JobState.RUNNING


@pytest.mark.parametrize("action", ["warn", "abort", "kill"])
@pytest.mark.parametrize("by", ["cluster", "job"])
def test_a_rank_that_is_missing_for_too_long(cluster: MakeCluster, action: str, by: str) -> None:
    c = cluster(2, watch={"action": action}) if by == "cluster" else cluster(2)
    job = pair(c, watch=action) if by == "job" else pair(c)
    say(c, job, 1, for_s=61.0, usual_s=1.0, over=True)
    if action == "kill":
        assert (job.killed_to, ending(job).code) == (JobState.FAILED, "rank_missing")
        assert f"{HERE}, rank 1" in ending(job).text
        return
    assert state(job) is JobState.RUNNING
    assert "rank_missing" in told(c, job)
    c.point(job, 1.0)
    assert "rank_missing" not in told(c, job)


def test_words_of_another_start_count_for_nothing(cluster: MakeCluster) -> None:
    c = cluster(2)
    job = pair(c)
    c.do(ev.RankReported(job.id, job.instance + 1, 1, "stays", over=True))
    assert "rank_missing" not in told(c, job)


def test_a_held_size_stays_until_it_is_released(cluster: MakeCluster) -> None:
    c = cluster(4, samples=1, discard=0, threshold=0.0, settle=0)
    job = c.submit(1, 2, 4)
    c.do(ev.ResizeRequested(job.id, 2, hold=True))
    c.run(job, {1: 4.0, 2: 2.0, 4: 1.0}, 6)
    assert job.size == 2
    assert job.decisions[-1].reason.code == "size_held"
    c.do(ev.SizeReleased(job.id))
    c.run(job, {1: 4.0, 2: 2.0, 4: 1.0}, 4)
    assert job.size == 4
    with pytest.raises(InvalidTransition, match="not held"):
        c.do(ev.SizeReleased(job.id))


def test_a_held_size_is_tried_again_after_a_failed_resize(cluster: MakeCluster) -> None:
    c = cluster(4)
    job = c.submit(1, 2, 4)
    c.do(ev.ResizeRequested(job.id, 2, hold=True))
    answer = c.point(job, 1.0, carry_out=False)
    c.do(ev.ResizeAborted(job.id, job.instance, answer.resize_id, "no"))
    assert job.size == 1
    c.run(job, {1: 1.0, 2: 1.0}, 8)
    assert job.size == 2


def test_another_order_ends_the_hold(cluster: MakeCluster) -> None:
    c = cluster(4)
    job = c.submit(1, 2, 4)
    c.do(ev.ResizeRequested(job.id, 2, hold=True))
    c.point(job, 1.0)
    c.do(ev.ResizeRequested(job.id, 1))
    assert (job.held, c.point(job, 1.0).what) == (None, "shrink")


def test_a_program_without_a_session_is_not_promised_a_resize(cluster: MakeCluster) -> None:
    c = cluster(2)
    job = c.submit(1, 2)
    c.do(ev.ResizeRequested(job.id, 2))  # it may come to a remap point yet
    c.now += 11
    with pytest.raises(InvalidTransition, match="opened no session of resize_lib"):
        c.do(ev.ResizeRequested(job.id, 2))
    c.do(ev.SessionOpened(job.id, job.instance))
    c.do(ev.ResizeRequested(job.id, 2))
    c.now += 61
    with pytest.raises(InvalidTransition, match="come to no remap point"):
        c.do(ev.ResizeRequested(job.id, 2))


def test_what_gave_up_is_the_reason_of_its_end(cluster: MakeCluster) -> None:
    c = cluster(2)
    job = pair(c)
    c.do(ev.JobGaveUp(job.id, job.instance, f"{HERE}: ValueError: no"))
    c.end(job, 1)
    assert (job.state, ending(job).code) == (JobState.FAILED, "failed_by_itself")
    assert f"{HERE}: ValueError: no" in ending(job).text


@pytest.mark.parametrize(("name", "value"), [("limit_s", 0.0), ("action", "shout")])
def test_a_setting_that_makes_no_sense_is_refused(
    cluster: MakeCluster, name: str, value: object
) -> None:
    with pytest.raises(ConfigError, match=name):
        cluster(1, watch={name: value})
