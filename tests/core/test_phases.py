"""Jobs with several loops: what is measured in one says nothing about another."""

from __future__ import annotations

from dq_server.core.model.jobs import Job
from dq_server.core.model.performance import LOOPS_MAX, Phases
from dq_server.live.store import snapshot
from tests.core.cluster import Cluster, MakeCluster

THESIS = {"samples": 1, "discard": 0, "threshold": 0.05, "settle": 0}
ASSEMBLY = {1: 0.1, 2: 0.11, 4: 0.12}  # gains nothing
SOLUTION = {1: 8.0, 2: 4.0, 4: 2.0}  # gains from every processor


def turns(c: Cluster, job: Job, times: dict[int, float], count: int, loop: str) -> list[int]:
    """The sizes on which so many turns of a loop ran."""
    sizes = []
    for _ in range(count):
        sizes.append(job.size)
        c.point(job, times[job.size], loop=loop)
    return sizes


def test_each_loop_finds_its_own_sweet_spot(cluster: MakeCluster) -> None:
    c = cluster(4, **THESIS)
    job = c.submit(1, 2, 4)
    assert turns(c, job, ASSEMBLY, 5, "1") == [1, 2, 1, 1, 1]
    assert turns(c, job, SOLUTION, 5, "2") == [1, 2, 4, 4, 4]
    assert not job.performance.worse, "none was found"
    assert set(Phases.of(job).others) == {"1"}
    # Back in the first loop, on a size that it has not been on.
    assert turns(c, job, ASSEMBLY, 1, "1") == [4]
    spot = job.performance.sweet_spot
    assert spot is not None
    assert spot.size == 1


def test_as_one_loop_the_second_would_be_judged_by_the_first(cluster: MakeCluster) -> None:
    """What `loop` is for: the same job, without it."""
    c = cluster(4, **THESIS)
    job = c.submit(1, 2, 4)
    turns(c, job, ASSEMBLY, 5, "")
    assert turns(c, job, SOLUTION, 5, "") == [1, 1, 1, 1, 1]


def test_loops_that_alternate_keep_their_samples(cluster: MakeCluster) -> None:
    c = cluster(1, samples=3, discard=1)
    job = c.submit(1, 2)
    for _ in range(4):
        c.point(job, 1.0, loop="a")
        c.point(job, 5.0, loop="b")
    assert job.performance.known[job.spec.initial] == 5.0
    assert Phases.of(job).others["a"].performance.known[job.spec.initial] == 1.0


def test_after_a_resize_another_loop_measures_afresh(cluster: MakeCluster) -> None:
    c = cluster(4, **(THESIS | {"samples": 2}))
    job = c.submit(1, 2, 4)
    turns(c, job, SOLUTION, 1, "a")
    turns(c, job, SOLUTION, 2, "b")
    assert job.size == 2
    turns(c, job, SOLUTION, 1, "a")
    assert len(job.performance.window) == 1, "the sample on 1 does not count on 2"


def test_what_is_known_of_loops_survives_the_server(cluster: MakeCluster) -> None:
    c = cluster(4, **THESIS)
    job = c.submit(1, 2, 4)
    turns(c, job, ASSEMBLY, 4, "1")
    turns(c, job, SOLUTION, 3, "2")
    again, _ = snapshot.decode(snapshot.encode(c.scheduler, c.now))
    assert Phases.of(again.state.job(job.id)) == Phases.of(job)
    assert again.state.job(job.id).performance == job.performance


def test_names_without_end_are_forgotten(cluster: MakeCluster) -> None:
    c = cluster(1, **THESIS)
    job = c.submit(1, 2)
    for k in range(3 * LOOPS_MAX):
        c.point(job, 1.0, loop=f"step {k}")
    assert len(Phases.of(job).others) == LOOPS_MAX


def test_the_next_run_hears_of_the_loop_that_it_begins_with(cluster: MakeCluster) -> None:
    c = cluster(4, **THESIS)
    first = c.submit(1, 2, 4, application="two loops")
    turns(c, first, ASSEMBLY, 4, "1")
    turns(c, first, SOLUTION, 3, "2")
    c.end(first)
    second = c.submit(1, 2, 4, application="two loops")
    known = {at.size: time_s for at, time_s in second.performance.known.items()}
    assert known == {1: 0.1, 2: 0.11}
