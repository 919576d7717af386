"""Background load: a size that a load had slowed is tried again when the load has gone."""

from __future__ import annotations

import pytest

from dq_server.core.model import events as ev
from dq_server.core.model.errors import UnknownNode
from dq_server.core.model.jobs import Job
from dq_server.core.model.places import Loads, fallen
from dq_server.live.store import snapshot
from tests.core.cluster import Cluster, MakeCluster
from tests.core.test_spot_search import SEARCH, run, spot, story

SELDOM = {"retry": 10_000}  # so that nothing is tried again for having waited
QUIET = {1: 1.0, 2: 0.55, 4: 0.3}
BUSY = {1: 1.0, 2: 0.55, 4: 0.9}


def load(c: Cluster, node: str, processors: float) -> None:
    c.do(ev.BackgroundLoad((node,), processors))


def disturbed(c: Cluster) -> Job:
    """A job that a load on n03 and n04 has driven from 4 to 2."""
    job = c.submit(1, 2, 4)
    run(c, job, QUIET, 60)
    assert job.size == 4
    run(c, job, BUSY, 4)
    load(c, "n03", 2.0)
    load(c, "n04", 0.6)
    run(c, job, BUSY, 40)
    assert (job.size, spot(job)) == (2, 2)
    return job


def test_a_job_comes_back_when_the_load_has_gone(cluster: MakeCluster) -> None:
    c = cluster(8, **SEARCH, spot=SELDOM)
    job = disturbed(c)
    assert 4 not in run(c, job, QUIET, 100), "nothing shows it on 2"
    load(c, "n03", 0.1)
    sizes = run(c, job, QUIET, 12)
    assert sizes[1] == 4 and (job.size, spot(job)) == (4, 4)
    assert story(job, "spot_trial")[-1] == (
        "0.55 s per iteration on 2; 4 took 0.9 s when it was last measured: try it again,"
        " processes outside DQ have used 0.1 processors of node n03 since then, 2.0 before"
    )


def test_a_load_that_was_heard_of_late_counts(cluster: MakeCluster) -> None:
    """The job has left the size before its agent was sure of the load."""
    c = cluster(8, **SEARCH, spot=SELDOM)
    job = c.submit(1, 2, 4)
    run(c, job, QUIET, 60)
    run(c, job, BUSY, 40)
    assert job.size == 2
    load(c, "n04", 1.0)
    run(c, job, BUSY, 20)
    load(c, "n04", 0.0)
    run(c, job, QUIET, 12)
    assert (job.size, spot(job)) == (4, 4)


def test_each_fall_makes_one_trial(cluster: MakeCluster) -> None:
    c = cluster(8, **SEARCH, spot=SELDOM)
    job = disturbed(c)
    load(c, "n03", 0.0)
    load(c, "n04", 0.0)
    sizes = run(c, job, BUSY, 60)  # something else slows it there
    assert 0 < sizes.count(4) < 5 and job.size == 2
    assert len([text for text in story(job, "spot_trial") if "outside DQ" in text]) == 1
    assert fallen(c.scheduler.state, job, 4) is None


@pytest.mark.parametrize(
    "then",
    [
        [("n03", 1.8)],
        [("n03", 0.5), ("n03", 1.9)],
        [("n07", 3.0), ("n07", 0.0)],
    ],
    ids=["hardly less", "back again", "elsewhere"],
)
def test_other_changes_of_load_make_none(
    cluster: MakeCluster, then: list[tuple[str, float]]
) -> None:
    c = cluster(8, **SEARCH, spot=SELDOM)
    job = disturbed(c)
    for node, processors in then:
        load(c, node, processors)
    assert set(run(c, job, QUIET, 60)) == {2}


def test_a_load_that_comes_and_goes_all_the_time_costs_little(cluster: MakeCluster) -> None:
    c = cluster(8, **SEARCH, spot=SELDOM)
    job = disturbed(c)
    sizes = []
    for _ in range(300):  # each time in vain
        load(c, "n03", 3.0)
        sizes += run(c, job, BUSY, 5)
        load(c, "n03", 0.0)
        sizes += run(c, job, BUSY, 5)
    tried_s, credit_s = BUSY[4] * sizes.count(4), 16 * BUSY[2]
    # Credit after the change, and after a fall.
    assert tried_s <= 0.015 * job.performance.searched.run_s + 2 * credit_s
    assert sizes.count(4) > 5


def test_under_the_thesis_rule_it_is_nothing(cluster: MakeCluster) -> None:
    c = cluster(8, sweet_spot="thesis")
    job = c.submit(1, 2, 4)
    run(c, job, {1: 1.0, 2: 0.55, 4: 0.6}, 40)
    load(c, "n03", 2.0)
    load(c, "n03", 0.0)
    assert set(run(c, job, QUIET, 40)) == {2}


def test_what_is_known_of_a_node_goes_with_it(cluster: MakeCluster) -> None:
    c = cluster(4, **SEARCH)
    load(c, "n02", 1.5)
    c.do(ev.NodeLost("n02"))
    assert Loads.of(c.scheduler.state).nodes == {}
    with pytest.raises(UnknownNode, match="no node named n05"):
        load(c, "n05", 1.0)


def test_a_snapshot_keeps_it(cluster: MakeCluster) -> None:
    c = cluster(8, **SEARCH, spot=SELDOM)
    job = disturbed(c)
    load(c, "n03", 0.1)
    body = snapshot.encode(c.scheduler, c.now)
    again, _ = snapshot.decode(body)
    assert snapshot.encode(again, c.now) == body
    assert fallen(again.state, again.state.job(job.id), 4) == fallen(c.scheduler.state, job, 4)
