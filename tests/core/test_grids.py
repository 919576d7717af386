"""Several grids of one size: which are tried, when, and which is kept."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dq_server.core.model import events as ev
from dq_server.core.model.errors import InfeasibleRequest, InvalidSpec, SchedulerError
from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.sizes import Configuration, configuration, grids
from dq_server.core.model.spec import Protection
from dq_server.live.store import snapshot
from tests.core.cluster import Cluster, MakeCluster

RULE = {"samples": 1, "discard": 0, "threshold": 0.05, "settle": 0}
SIZES = (2, "2x2", "1x4", "2x4", "1x8", "4x2")
FLAT_PAYS = {"1x2": 10.0, "2x2": 6.0, "1x4": 5.9, "2x4": 5.8, "1x8": 3.0, "4x2": 4.0}


def run(
    cluster: Cluster, job: Job, times: Mapping[str, float], points: int
) -> list[tuple[str, str]]:
    """(grid before, answer) of each of the points."""
    story = list[tuple[str, str]]()
    for _ in range(points):
        at = str(job.configuration)
        story.append((at, cluster.point(job, times[at]).what))
    return story


def codes(job: Job) -> list[tuple[str, str]]:
    return [(d.what, d.reason.code) for d in job.decisions]


def test_each_size_is_tried_on_its_grids_before_it_is_judged(cluster: MakeCluster) -> None:
    c = cluster(8, **RULE)
    job = c.submit(*SIZES)
    assert run(c, job, FLAT_PAYS, 10) == [
        ("1x2", "expand"),
        ("2x2", "regrid"),
        ("1x4", "regrid"),  # 1.7 % are too little to leave the first one
        ("2x2", "expand"),
        ("2x4", "regrid"),  # alone it would not have paid: 3.3 %
        ("1x8", "regrid"),
        ("4x2", "regrid"),
        ("1x8", "continue"),
        ("1x8", "continue"),
        ("1x8", "continue"),
    ]
    assert job.performance.kept == {4: Configuration(2, 2), 8: Configuration(1, 8)}
    kept = [d.reason for d in job.decisions if d.reason.code == "grid_kept"]
    assert kept[-1].text == (
        "of 3 grids of 8 processors 1x8 is used from now on: 3 s per iteration, 4 s on 4x2;"
        " another one would have to gain more than 5.0 % over one before it"
    )
    assert ("committed", "regrid_committed") in codes(job)
    assert [s.decision for s in job.stays][:3] == ["expand", "regrid", "regrid"]


def test_only_the_sweet_spot_is_tried_if_it_says_so(cluster: MakeCluster) -> None:
    c = cluster(8, grids="spot", **RULE)
    job = c.submit(*SIZES)
    story = run(c, job, FLAT_PAYS, 8)
    assert story == [
        ("1x2", "expand"),
        ("2x2", "expand"),
        ("2x4", "regrid"),  # the largest size
        ("1x8", "regrid"),
        ("4x2", "regrid"),
        ("1x8", "continue"),
        ("1x8", "continue"),
        ("1x8", "continue"),
    ]
    slower = FLAT_PAYS | {"1x4": 4.0, "2x4": 7.0}
    other = cluster(8, grids="spot", **RULE)
    job = other.submit(*SIZES, 16)
    assert run(other, job, slower, 6) == [
        ("1x2", "expand"),
        ("2x2", "expand"),
        ("2x4", "shrink"),
        ("2x2", "regrid"),
        ("1x4", "continue"),
        ("1x4", "continue"),
    ]
    assert job.performance.sweet_spot == Configuration(1, 4)


def test_never_means_the_first_grids_alone(cluster: MakeCluster) -> None:
    c = cluster(8, grids="never", **RULE)
    job = c.submit(*SIZES)
    assert "regrid" not in {what for _, what in run(c, job, FLAT_PAYS, 8)}


def test_no_grid_of_a_size_pays_and_the_job_goes_back_from_the_last_one_tried(
    cluster: MakeCluster,
) -> None:
    c = cluster(8, **RULE)
    job = c.submit(2, "2x2", "1x4")
    assert run(c, job, {"1x2": 1.0, "2x2": 1.2, "1x4": 1.1}, 5) == [
        ("1x2", "expand"),
        ("2x2", "regrid"),
        ("1x4", "shrink"),
        ("1x2", "continue"),
        ("1x2", "continue"),
    ]
    undo = next(d.reason for d in job.decisions if d.reason.code == "no_gain")
    assert undo.figures["time_s"] == 1.1
    assert job.performance.sweet_spot == Configuration(1, 2)


def test_measurements_that_wander_do_not_make_a_job_change_its_grid_again(
    cluster: MakeCluster,
) -> None:
    c = cluster(4, **RULE)
    job = c.submit("2x2", "1x4", 1, start=4)
    run(c, job, {"2x2": 1.0, "1x4": 0.9}, 2)
    answers = [c.point(job, time_s).what for time_s in (0.9, 1.3, 1.1, 1.5)]
    assert answers == ["continue"] * 4
    assert job.configuration == Configuration(1, 4)


def test_waiting_jobs_do_not_stop_it_but_room_is_made_for_them_first(cluster: MakeCluster) -> None:
    c = cluster(6, **RULE)
    job = c.submit(2, "2x2", "1x4")
    times = {"1x2": 10.0, "2x2": 6.0, "1x4": 5.0}
    run(c, job, times, 1)
    large = c.submit(6)  # nobody can make room for it
    assert large.state is JobState.QUEUED
    assert run(c, job, times, 3) == [("2x2", "regrid"), ("1x4", "continue"), ("1x4", "continue")]
    assert ("grid", "grid_kept") in codes(job)
    c.do(ev.KillRequested(large.id, "ada"))
    small = c.submit(4)
    assert run(c, job, times, 1) == [("1x4", "shrink")]
    c.end(small)
    run(c, job, times, 1)
    assert job.configuration == Configuration(1, 4), "it comes back on the grid that was kept"


def test_a_grid_that_cannot_be_gone_to_is_not_tried_again(cluster: MakeCluster) -> None:
    c = cluster(4, **RULE)
    job = c.submit("2x2", "1x4", "4x1", 1, start=4)
    answer = c.point(job, 1.0, carry_out=False)
    assert (answer.what, answer.processors) == ("regrid", ())
    c.do(ev.ResizeAborted(job.id, job.instance, answer.resize_id, "no memory"))
    assert job.decisions[-1].reason.text == "2x2 to 1x4 did not happen: no memory"
    assert run(c, job, {"2x2": 1.0, "4x1": 2.0}, 4) == [
        ("2x2", "regrid"),
        ("4x1", "regrid"),
        ("2x2", "continue"),
        ("2x2", "continue"),
    ]


def test_a_regrid_whose_commit_is_lost_is_made_up_for(cluster: MakeCluster) -> None:
    c = cluster(4, **RULE)
    job = c.submit("2x2", "1x4", 1, start=4)
    answer = c.point(job, 1.0, carry_out=False)
    c.done[job.id] = answer.resize_id
    c.point(job, 0.5)
    assert job.configuration == Configuration(1, 4)
    assert job.resizes == 1


def test_the_next_run_goes_straight_to_the_grid_that_was_kept(cluster: MakeCluster) -> None:
    c = cluster(8, **RULE)
    first = c.submit(*SIZES, application="flat")
    run(c, first, FLAT_PAYS, 10)
    c.end(first)
    second = c.submit(*SIZES, application="flat")
    assert run(c, second, FLAT_PAYS, 3) == [
        ("1x2", "expand"),
        ("1x8", "continue"),
        ("1x8", "continue"),
    ]
    c.end(second)
    third = c.submit(*SIZES, application="flat")
    slow = {grid: 10 * time_s for grid, time_s in FLAT_PAYS.items()}
    assert run(c, third, slow, 2) == [("1x2", "expand"), ("2x2", "regrid")], "mistrusted"


def test_the_fitted_model_tries_grids_too(cluster: MakeCluster) -> None:
    c = cluster(8, resize="reshape-model", **RULE)
    job = c.submit(*SIZES)
    run(c, job, FLAT_PAYS, 12)
    assert job.configuration == Configuration(1, 8)
    assert job.performance.kept == {4: Configuration(2, 2), 8: Configuration(1, 8)}


def test_user_resizes_come_to_the_kept_grid(cluster: MakeCluster) -> None:
    c = cluster(8, **RULE)
    job = c.submit(*SIZES)
    run(c, job, FLAT_PAYS, 10)
    for size, grid in ((2, "1x2"), (8, "1x8")):
        c.do(ev.ResizeRequested(job.id, size))
        c.point(job, FLAT_PAYS[str(job.configuration)])
        assert str(job.configuration) == grid
    c.do(ev.ResizeRequested(job.id, 8, 4))
    assert c.point(job, 3.0).what == "regrid"
    assert job.configuration == Configuration(4, 2)
    story = [d.reason.text for d in job.decisions]
    assert "asked for by the user: from 1x8 to 4x2" in story
    with pytest.raises(InfeasibleRequest, match=r"8 processors in 8 rows .*: 2x4, 1x8, 4x2"):
        c.do(ev.ResizeRequested(job.id, 8, 8))
    assert job.wanted is None
    assert c.point(job, 4.0).what == "regrid", "the policy goes on"
    assert job.configuration == Configuration(1, 8)


def test_a_snapshot_holds_what_was_kept_and_what_failed(cluster: MakeCluster) -> None:
    c = cluster(8, **RULE)
    job = c.submit(*SIZES)
    run(c, job, FLAT_PAYS, 10)
    job.performance.bar(Configuration(4, 2))
    again, _ = snapshot.decode(snapshot.encode(c.scheduler, c.now))
    assert again.state.job(job.id).performance == job.performance
    assert again.state.job(job.id).spec == job.spec


def test_an_interrupted_job_starts_again_on_the_grid_that_was_kept(cluster: MakeCluster) -> None:
    c = cluster(8, per_node=4, **RULE)
    job = c.submit(2, "2x2", "1x4", protection=Protection("disk"))
    times = {"1x2": 10.0, "2x2": 6.0, "1x4": 5.0}
    run(c, job, times, 4)
    assert job.configuration == Configuration(1, 4)
    c.do(ev.JobEnded(job.id, job.instance, 255))
    assert (job.restarts, job.configuration) == (1, Configuration(1, 4))


def test_the_grid_listed_first_comes_first() -> None:
    listed = [configuration(word) for word in (4, "1x4", "1x2", "8x1", 8, "1x4", 2)]
    assert grids(listed) == (
        (Configuration(1, 2), Configuration(2, 2), Configuration(8, 1)),
        (Configuration(1, 4), Configuration(2, 4)),
    )


@pytest.mark.parametrize("word", ["2x", "x2", "0x4", "2x2x2", "-1x4", "٢x2", "1234567x1", 0])
def test_what_is_no_grid_is_refused(word: int | str) -> None:
    with pytest.raises(InvalidSpec):
        configuration(word)


@pytest.mark.parametrize("kind", ["rigid", "moldable", "evolving"])
def test_only_malleable_jobs_have_several(cluster: MakeCluster, kind: str) -> None:
    with pytest.raises(SchedulerError, match=r"one size|second grid"):
        cluster(8).submit("2x2", "1x4", kind=kind)


@pytest.mark.parametrize(("size", "rows", "cols"), [(1, 1, 1), (7, 1, 7), (10, 2, 5), (12, 3, 4)])
def test_a_bare_size_is_the_squarest_grid_with_no_more_rows_than_columns(
    size: int, rows: int, cols: int
) -> None:
    found = configuration(size)
    assert (found.rows, found.cols) == (rows, cols)
