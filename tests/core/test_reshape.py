"""The ReSHAPE remap policy, against the thesis (3.4.4, chapter 4)."""

from __future__ import annotations

import pytest

from dq_server.core.model.jobs import Job, JobState
from tests.core.cluster import MakeCluster, state

CHAIN = (1, 2, 4, 6, 9, 12, 16, 20, 25, 30, 36)
THESIS = {"samples": 1, "discard": 0, "threshold": 0.0, "settle": 0}


def times_from_gains(
    start: int, first_s: float, gains: dict[tuple[int, int], float]
) -> dict[int, float]:
    times = {start: first_s}
    for (a, b), gain_pct in gains.items():
        times[b] = times[a] * (1 - gain_pct / 100)
    return times


TABLE_1 = times_from_gains(
    2,
    100.0,
    {(2, 4): 46.9, (4, 6): 20.9, (6, 9): 25.8, (9, 12): 9.4, (12, 16): 19.7, (16, 20): 4.1,
     (20, 25): 0.0},
)  # fmt: skip
TABLE_2 = times_from_gains(
    2,
    100.0,
    {(2, 4): 51.9, (4, 6): 11.3, (6, 9): 28.5, (9, 12): 12.6, (12, 16): 12.0, (16, 20): -20.5},
)


def sweet_spot_of(job: Job) -> int:
    """The size that the job stays on."""
    spot = job.performance.sweet_spot
    assert spot is not None
    return spot.size


@pytest.mark.parametrize(
    ("times", "threshold", "sweet_spot"),
    [(TABLE_1, 0.0, 20), (TABLE_1, 0.05, 16), (TABLE_2, 0.0, 16), (TABLE_2, 0.05, 16)],
)
def test_sweet_spots_of_the_thesis_tables(
    cluster: MakeCluster, times: dict[int, float], threshold: float, sweet_spot: int
) -> None:
    c = cluster(36, **(THESIS | {"threshold": threshold}))
    job = c.submit(*CHAIN, start=2)
    c.run(job, times, 12)
    assert job.size == sweet_spot
    assert sweet_spot_of(job) == sweet_spot


def test_the_story_of_a_sweet_spot_is_told_with_its_figures(cluster: MakeCluster) -> None:
    c = cluster(4, **THESIS)
    job = c.submit(1, 2, 4)
    assert c.run(job, {1: 1.0, 2: 0.55, 4: 0.6}, 5) == [
        (1, "expand"),
        (2, "expand"),
        (4, "shrink"),
        (2, "continue"),
        (2, "continue"),
    ]
    undo = next(d for d in job.decisions if d.what == "shrink").reason
    assert undo.code == "no_gain"
    assert undo.figures["size"] == 4
    assert undo.figures["gain_pct"] == pytest.approx(-9.09, abs=0.01)
    assert "back to the sweet spot 2" in undo.text
    assert job.decisions[-1].reason.code == "at_sweet_spot"
    assert [s.configuration.size for s in job.stays] == [1, 2, 4, 2]
    assert [s.decision for s in job.stays] == ["expand", "expand", "shrink", "continue"]


def test_a_job_grows_to_the_whole_cluster_while_it_gains(cluster: MakeCluster) -> None:
    c = cluster(9, **THESIS)
    job = c.submit(1, 2, 4, 6, 9, 12)
    c.run(job, {1: 1, 2: 0.5, 4: 0.25, 6: 0.17, 9: 0.11}, 8)
    assert job.size == 9
    assert job.performance.sweet_spot is None
    assert job.decisions[-1].reason.code in ("no_idle", "next_too_large")


def test_noise_does_not_fool_the_median(cluster: MakeCluster) -> None:
    c = cluster(4)
    job = c.submit(1, 2, 4)
    # the first iteration (slow start) does not count; one outlier among three is outvoted
    answers = [c.point(job, t).what for t in (9.0, 1.0, 5.0, 1.0)]
    assert answers == ["continue", "continue", "continue", "expand"]
    assert job.stays[0].iteration_time_s == 1.0


def test_a_gain_below_the_threshold_does_not_pay(cluster: MakeCluster) -> None:
    c = cluster(4)
    job = c.submit(1, 2, 4)
    c.run(job, {1: 1.0, 2: 0.96, 4: 0.5}, 12)
    assert job.size == 1
    assert sweet_spot_of(job) == 1


def test_growing_back_is_not_undone_by_a_small_wobble(cluster: MakeCluster) -> None:
    """Hysteresis: a size that paid before is left only if it now costs time."""
    c = cluster(4, **(THESIS | {"threshold": 0.05}))
    long = c.submit(1, 2, 4, name="long")
    c.run(long, {1: 1.0, 2: 0.5, 4: 0.4}, 3)
    short = c.submit(2, name="short")
    c.run(long, {4: 0.4}, 1)
    assert (long.size, short.state) == (2, JobState.RUNNING)
    c.end(short)
    c.point(long, 0.5)
    assert long.size == 4
    c.point(long, 0.49)  # 2 %: below the threshold, but no loss
    assert long.size == 4
    c.point(long, 0.51)
    assert long.size == 4


def test_job_mix_1_gives_way_to_the_short_job_and_grows_back(cluster: MakeCluster) -> None:
    """Thesis 4.3.1: jobs 1 and 2 shrink from 12 to 6 for job 3, then return to 12."""
    c = cluster(33, **THESIS)
    sizes = (4, 6, 9, 12)
    speed = {4: 100.0, 6: 79.0, 9: 58.0, 12: 53.0}
    sweet_at_9 = {4: 100.0, 6: 79.0, 9: 58.0, 12: 60.0}
    job0 = c.submit(*sizes, name="job0")
    c.run(job0, sweet_at_9, 5)
    job1, job2 = c.submit(*sizes, name="job1"), c.submit(*sizes, name="job2")
    for _ in range(5):
        c.run(job1, speed, 1)
        c.run(job2, speed, 1)
    assert [j.size for j in (job0, job1, job2)] == [9, 12, 12]
    job3 = c.submit(12, name="job3")
    assert job3.state is JobState.QUEUED
    for _ in range(2):
        c.run(job0, sweet_at_9, 1)
        c.run(job1, speed, 1)
        c.run(job2, speed, 1)
    assert state(job3) is JobState.RUNNING
    assert job0.size + job1.size + job2.size <= 21
    c.end(job3)
    for _ in range(4):
        for job, times in ((job0, sweet_at_9), (job1, speed), (job2, speed)):
            c.run(job, times, 1)
    assert [j.size for j in (job0, job1, job2)] == [9, 12, 12]


def test_nobody_expands_while_a_job_waits(cluster: MakeCluster) -> None:
    c = cluster(6, **THESIS)
    grower = c.submit(2, 4, name="grower")
    c.submit(2, name="filler")
    waiter = c.submit(4, name="waiter")
    answer = c.point(grower, 1.0)
    assert answer.what == "continue"
    assert answer.reason.code == "waiting_no_shrink"
    assert answer.reason.figures["head"] == waiter.id


def test_the_smaller_penalty_shrinks_and_the_other_continues(cluster: MakeCluster) -> None:
    c = cluster(8, **THESIS)
    dear, cheap = c.submit(2, 4, name="dear"), c.submit(2, 4, name="cheap")
    for _ in range(2):
        c.run(dear, {2: 1.0, 4: 0.5}, 1)
        c.run(cheap, {2: 1.0, 4: 0.9}, 1)
    assert (dear.size, cheap.size) == (4, 4)
    waiter = c.submit(2, name="waiter")
    stays = c.point(dear, 0.5)
    assert stays.what == "continue"
    assert f"job {cheap.id} can shrink for a smaller penalty" in stays.reason.text
    assert c.point(cheap, 0.9).what == "shrink"
    assert waiter.state is JobState.RUNNING


def test_no_one_shrinks_in_vain(cluster: MakeCluster) -> None:
    """A granted shrink that is under way already makes the room: a second one is not asked."""
    c = cluster(8, **THESIS)
    one, two = c.submit(2, 4), c.submit(2, 4)
    for _ in range(2):
        c.run(one, {2: 1.0, 4: 0.5}, 1)
        c.run(two, {2: 1.0, 4: 0.5}, 1)
    c.submit(2, name="waiter")
    assert c.point(one, 0.5, carry_out=False).what == "shrink"
    assert c.point(two, 0.5).what == "continue"


def test_if_all_shrinks_together_do_not_suffice_nobody_shrinks(cluster: MakeCluster) -> None:
    c = cluster(4, **THESIS)
    job = c.submit(2, 4)
    c.run(job, {2: 1.0, 4: 0.5}, 2)
    c.submit(4, name="waiter")
    assert c.point(job, 0.5).what == "continue"


def test_the_best_expand_point_gets_the_idle_processors(cluster: MakeCluster) -> None:
    c = cluster(10, **THESIS)
    small, big = c.submit(2, 4, name="small gain"), c.submit(2, 4, name="big gain")
    gains = ((small, {2: 1.0, 4: 0.9}), (big, {2: 1.0, 4: 0.5}))
    for _ in range(2):
        for job, times in gains:
            c.run(job, times, 1)
    filler = c.submit(6, name="filler")
    for job, times in gains:
        c.run(job, times, 1)
    assert (small.size, big.size) == (2, 2)
    c.end(filler)
    c.submit(4, name="smaller filler")  # two idle processors are left: one of the two can grow
    elsewhere = c.point(small, 1.0)
    assert elsewhere.what == "continue"
    assert elsewhere.reason.code == "expand_point_elsewhere"
    assert elsewhere.reason.figures["winner"] == big.id
    assert c.point(big, 1.0).what == "expand"


def test_a_job_that_never_reached_a_remap_point_is_not_counted_on(cluster: MakeCluster) -> None:
    """Both together could make the room; only one of them ever calls, so nobody shrinks."""
    c = cluster(8, **THESIS)
    silent = c.submit(2, 4, start=4, name="silent")
    grown = c.submit(2, 4, name="grown")
    c.run(grown, {2: 1.0, 4: 0.5}, 2)
    c.submit(4, name="waiter")
    answer = c.point(grown, 0.5)
    assert answer.what == "continue"
    assert "no set of jobs" in answer.reason.text
    assert (silent.remap_points, silent.size, grown.size) == (0, 4, 4)
