"""What earlier runs of an application have shown: offered, checked, mistrusted, kept."""

from __future__ import annotations

from typing import Any

import pytest

from dq_server.core.features.history import Runs
from dq_server.core.model.errors import ConfigError
from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.spec import Protection
from dq_server.live.store import snapshot
from tests.core.cluster import Cluster, MakeCluster

SIZES = (1, 2, 4, 6, 9)
TIMES = {1: 10.0, 2: 6.0, 4: 4.0, 6: 3.9, 9: 3.9}  # 4 -> 6 does not pay
RULE = {"samples": 1, "discard": 0, "settle": 0, "threshold": 0.05}


def run(
    c: Cluster, times: dict[int, float] = TIMES, points: int = 12, **spec: Any
) -> tuple[Job, list[int]]:
    """One whole run; the sizes it went through."""
    job = c.submit(*SIZES, **{"application": "lu", **spec})
    c.run(job, times, points)
    sizes = [stay.configuration.size for stay in job.stays]
    c.end(job)
    return job, sizes


def codes(job: Job) -> list[str]:
    return [d.reason.code for d in job.decisions if d.what == "history"]


def test_the_next_run_jumps_to_the_sweet_spot_and_probes_nothing(cluster: MakeCluster) -> None:
    c = cluster(9, **RULE)
    assert run(c)[1] == [1, 2, 4, 6, 4]
    job, sizes = run(c)
    assert sizes == [1, 4]
    assert codes(job) == ["history_known"]
    text = next(d.reason.text for d in job.decisions if d.what == "history")
    assert text == (
        "earlier runs of lu (1) have measured 1, 2, 4, 6 processors; the sweet spot is 4"
    )
    assert Runs.of(c.scheduler.state).by_application["lu"].runs == 2
    assert run(c, application="other")[1] == [1, 2, 4, 6, 4]
    assert run(c, application="")[1] == [1, 2, 4, 6, 4]


def test_with_moldable_start_it_starts_there_unless_somebody_waits(cluster: MakeCluster) -> None:
    c = cluster(9, moldable=True, **RULE)
    run(c)
    assert run(c)[1] == [4]
    c.submit(9)
    waits, job = c.submit(9), c.submit(*SIZES, application="lu")
    assert (waits.state, job.start_on) == (JobState.QUEUED, None)


def test_a_run_that_was_cut_short_hands_on_what_it_knows(cluster: MakeCluster) -> None:
    c = cluster(9, **RULE)
    assert run(c, points=2)[1] == [1, 2, 4]  # 4 was never measured
    assert run(c)[1] == [1, 2, 4, 6, 4]
    known = Runs.of(c.scheduler.state).by_application["lu"].sweet_spot
    assert known is not None and known.size == 4


def test_other_times_are_not_believed(cluster: MakeCluster) -> None:
    c = cluster(9, **RULE)
    run(c)
    slower = {size: 2 * t for size, t in TIMES.items()} | {6: 4.0, 9: 3.0}
    job, sizes = run(c, slower)
    assert sizes == [1, 2, 4, 6, 9]
    assert codes(job) == ["history_known", "history_differs"]
    assert Runs.of(c.scheduler.state).by_application["lu"].times[job.spec.configurations[4]] == 3.0
    assert Runs.of(c.scheduler.state).by_application["lu"].sweet_spot is None
    near = {size: 1.2 * t for size, t in slower.items()}  # within the tolerance
    assert run(c, near)[1] == [1, 9]


def test_failed_runs_and_never_teach_nothing(cluster: MakeCluster) -> None:
    c = cluster(9, **RULE)
    job = c.submit(*SIZES, application="lu")
    c.run(job, TIMES, 8)
    c.end(job, 1)
    assert not Runs.of(c.scheduler.state).by_application
    c = cluster(9, history="never", **RULE)
    run(c)
    assert run(c)[1] == [1, 2, 4, 6, 4]
    with pytest.raises(ConfigError, match="history = 'seldom'"):
        cluster(1, history="seldom")
    with pytest.raises(ConfigError, match="history_tolerance"):
        cluster(1, history_tolerance=0)


def test_sizes_that_are_not_legal_now_are_left_out(cluster: MakeCluster) -> None:
    c = cluster(9, **RULE)
    run(c)
    job = c.submit(1, 2, 6, application="lu")
    c.run(job, TIMES, 6)
    assert [stay.configuration.size for stay in job.stays] == [1, 6]


def test_with_moldable_start_nobody_starts_on_a_size_that_is_not_legal(
    cluster: MakeCluster,
) -> None:
    c = cluster(9, moldable=True, **RULE)
    run(c)
    job = c.submit(1, 2, 6, application="lu")
    rigid = c.submit(4, application="lu")
    assert (job.start_on, job.size, rigid.size) == (None, 1, 4)


def test_a_snapshot_keeps_it(cluster: MakeCluster) -> None:
    c = cluster(9, **RULE)
    run(c)
    again, _ = snapshot.decode(snapshot.encode(c.scheduler, c.now))
    assert Runs.of(again.state).by_application == Runs.of(c.scheduler.state).by_application


def test_after_a_restart_the_job_s_own_measurements_count(cluster: MakeCluster) -> None:
    c = cluster(9, **RULE)
    run(c)
    job = c.submit(*SIZES, application="lu", protection=Protection("disk"))
    c.run(job, {1: 11.0, 4: 4.2}, 2)  # near enough to believe the rest
    c.end(job, 9)
    c.seq.clear()
    assert (job.state, job.instance) == (JobState.RUNNING, 2)
    assert codes(job) == ["history_known"]
    assert {at.size: time_s for at, time_s in job.performance.known.items()} == {
        1: 11.0, 2: 6.0, 4: 4.2, 6: 3.9,
    }  # fmt: skip
    assert [at.size for at in job.performance.recalled] == [2, 6]
