"""Memory, GPUs and features: who may run where, and that nothing is given twice."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import pytest

from dq_server.core.explain import explain
from dq_server.core.features.draining import Drains, state_of
from dq_server.core.model import events as ev
from dq_server.core.model.errors import InfeasibleRequest, InvalidSpec, InvalidTransition
from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.needs import Needs, amount, expression
from dq_server.core.model.placing import Placed, gpus_of, in_use
from tests.core.cluster import Cluster, ending, state

GIB = 1 << 30


def cluster(**config: Any) -> Cluster:
    """plain and big have two processors each; big has the memory, fast the GPUs."""
    found = Cluster(0, **config)
    found.do(ev.NodeJoined("plain", 2, memory=4 * GIB))
    found.do(ev.NodeJoined("big", 2, memory=64 * GIB, features=("ssd", "big")))
    found.do(ev.NodeJoined("fast", 4, memory=32 * GIB, gpus=2, features=("ssd", "gpu")))
    return found


def nodes(c: Cluster, job: Job) -> list[str]:
    return [c.scheduler.state.processors.node_of[p] for p in job.allocation]


def why(c: Cluster, job: Job) -> str:
    return explain(c.scheduler, job, c.now)[0].text


# --- constraints -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("constraint", "features", "met"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a&b|c", "c", True),
        ("a&b|c", "a b", True),
        ("a&b|c", "a", False),
        ("c|a&b", "b a", True),
        ("a&(b|c)", "a c", True),
        ("a&(b|c)", "c", False),
        (" a & b ", "a b", True),
        ("a&b&c|d|e", "e", True),
        ("v100.32:x-1", "v100.32:x-1", True),
    ],
)
def test_a_constraint_is_met(constraint: str, features: str, met: bool) -> None:
    assert Needs(constraint=constraint).met_by(tuple(features.split())) is met


@pytest.mark.parametrize(
    "constraint",
    ["&a", "a&", "a||b", "a b", "(a", "a)", "()", "|", "a&!b", "-a", "(" * 101, "a" * 1001, " "],
)
def test_a_constraint_that_cannot_be_read_is_refused(constraint: str) -> None:
    with pytest.raises(InvalidSpec, match="constraint"):
        expression(constraint)


def test_amounts_for_people() -> None:
    assert [amount(n) for n in (5, 1024, 3 * GIB // 2)] == ["5 bytes", "1 KiB", "1.5 GiB"]


# --- where jobs start --------------------------------------------------------------------------


def test_a_job_starts_where_it_finds_what_it_needs() -> None:
    c = cluster()
    assert nodes(c, c.submit(1, needs=Needs(constraint="gpu"))) == ["fast"]
    assert nodes(c, c.submit(2, needs=Needs(constraint="big|gpu"))) == ["big", "big"]
    assert nodes(c, c.submit(2)) == ["plain", "plain"]


def test_memory_is_counted_for_each_rank_and_never_given_twice() -> None:
    c = cluster()
    first = c.submit(3, needs=Needs(memory=20 * GIB))
    assert nodes(c, first) == ["big", "big", "fast"]
    second = c.submit(1, needs=Needs(memory=20 * GIB))
    assert state(second) is JobState.QUEUED, "12 GiB are left on fast, though 3 processors are idle"
    assert "0 of the 5 idle ones are there" in why(c, second)
    c.end(first)
    assert nodes(c, second) == ["big"]


def test_memory_is_in_use_until_the_node_confirms_that_the_job_is_gone() -> None:
    c = cluster()
    first = c.submit(1, needs=Needs(memory=60 * GIB))
    c.do(ev.JobEnded(first.id, first.instance, 0), vacate=False)
    second = c.submit(1, needs=Needs(memory=60 * GIB))
    assert state(second) is JobState.QUEUED
    c.do(ev.ProcessorsVacated(first.id, (2,)))
    assert nodes(c, second) == ["big"]


def test_gpus_are_given_by_number() -> None:
    c = cluster()
    first, second = (c.submit(1, needs=Needs(gpus=1)) for _ in range(2))
    third = c.submit(1, needs=Needs(gpus=1))
    given = [gpus_of(c.scheduler.state, job.allocation) for job in (first, second)]
    assert given == [[[0]], [[1]]]
    assert state(third) is JobState.QUEUED
    c.end(first)
    assert gpus_of(c.scheduler.state, third.allocation) == [[0]]
    assert in_use(c.scheduler.state) == {"fast": (0, 2)}


def test_a_job_that_no_nodes_could_hold_is_refused_with_the_largest_node() -> None:
    c = cluster()
    with pytest.raises(InfeasibleRequest, match=r"room for 2; the largest node is fast with 4"):
        c.submit(3, needs=Needs(gpus=1))
    with pytest.raises(InfeasibleRequest, match=r"the largest node is big with .* 64 GiB"):
        c.submit(1, needs=Needs(memory=65 * GIB))
    with pytest.raises(InfeasibleRequest, match=r"the features gpu&big: there is room for 0"):
        c.submit(1, needs=Needs(constraint="gpu&big"))


def test_memory_that_nobody_knows_is_not_given() -> None:
    c = Cluster(2)
    with pytest.raises(InfeasibleRequest, match="memory that nobody knows"):
        c.submit(1, needs=Needs(memory=1))


def test_a_job_that_is_in_use_holds_back_no_job_that_needs_nothing() -> None:
    """What a job that asked for nothing uses is not counted."""
    c = cluster()
    c.submit(1, needs=Needs(memory=64 * GIB))
    assert "big" in nodes(c, c.submit(4))


# --- nobody is starved -------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["fcfs", "easy", "conservative", "reservations"])
def test_processors_are_kept_for_the_first_in_line(start: str) -> None:
    """A stream of small jobs passes the job that waits for the GPUs, and does not starve it."""
    c = cluster(start=start)
    filler = c.submit(4, walltime_s=100.0)
    small = c.submit(2, walltime_s=100.0)  # two of fast's four
    both = c.submit(4, needs=Needs(constraint="gpu"), walltime_s=10.0)
    assert state(both) is JobState.QUEUED, "two of fast's four are idle"
    assert nodes(c, small) == ["fast", "fast"]
    c.end(filler)
    assert c.scheduler.state.processors.kept == {6, 7}
    assert Placed.of(c.scheduler.state).kept_on == {"fast": 4}
    assert "2 are kept for it on fast" in why(c, both)
    passing = c.submit(4, walltime_s=1000.0)
    assert nodes(c, passing) == ["plain", "plain", "big", "big"]
    more = c.submit(1, walltime_s=1000.0)
    assert state(more) is JobState.QUEUED
    c.do(ev.KillRequested(more.id))
    c.end(small)
    assert nodes(c, both) == ["fast"] * 4
    assert not c.scheduler.state.processors.kept


def test_what_is_kept_is_let_go_with_the_job() -> None:
    c = cluster()
    c.submit(6)
    both = c.submit(4, needs=Needs(constraint="gpu"))
    c.submit(1)
    job = c.submit(1)
    c.do(ev.KillRequested(both.id))
    assert state(job) is JobState.STARTING or state(job) is JobState.RUNNING
    assert not c.scheduler.state.processors.kept


def test_a_drain_and_a_loss_take_what_is_kept() -> None:
    for event in (ev.DrainRequested("fast"), ev.NodeLost("fast")):
        c = cluster(start="fcfs")
        filler = c.submit(4)
        c.submit(2)
        both = c.submit(4, needs=Needs(constraint="gpu"))
        c.end(filler)
        assert c.scheduler.state.processors.kept
        c.do(event)
        assert not c.scheduler.state.processors.kept
        assert state(both) is JobState.QUEUED
        fast = c.scheduler.state.processors.nodes["fast"]
        assert state_of(c.scheduler.state, fast) in ("draining", "lost")


# --- growth ------------------------------------------------------------------------------------


def test_a_job_grows_onto_nodes_with_what_it_needs_only() -> None:
    c = cluster()
    job = c.submit(1, 2, 4, needs=Needs(memory=20 * GIB))
    assert nodes(c, job) == ["big"]
    times = {1: 10.0, 2: 5.0, 4: 2.5}
    c.run(job, times, 30)
    assert nodes(c, job) == ["big", "big"], "there is room for three, and no legal size of three"
    assert job.decisions[-1].reason.code in ("next_too_large", "no_fitting_nodes")


def test_a_wish_of_the_user_waits_for_nodes_with_what_the_job_needs() -> None:
    c = cluster()
    job = c.submit(1, 2, 4, needs=Needs(gpus=1))
    c.do(ev.ResizeRequested(job.id, 4))
    assert c.point(job, 1.0).what == "continue"
    assert job.decisions[-1].reason.code == "user_resize_waits"
    c.do(ev.ResizeRequested(job.id, 2))
    assert c.point(job, 1.0).what == "expand"
    assert gpus_of(c.scheduler.state, job.allocation) == [[0], [1]]


@pytest.mark.parametrize("resize", ["reshape", "reshape-model"])
def test_no_size_is_tried_for_which_there_are_too_few_nodes_of_the_kind(resize: str) -> None:
    c = cluster(resize=resize, samples=1, discard=0, settle=0, threshold=0.05)
    job = c.submit(1, 2, 4, needs=Needs(gpus=1))
    assert c.point(job, 1.0).configuration.size == 2
    assert (c.point(job, 0.5).what, c.scheduler.state.idle) == ("continue", 6)


def test_a_shrink_gives_gpus_and_memory_back() -> None:
    c = cluster()
    job = c.submit(2, 1, start=2, needs=Needs(gpus=1, memory=GIB))
    other = c.submit(1, needs=Needs(gpus=1))
    assert state(other) is JobState.QUEUED
    c.do(ev.ResizeRequested(job.id, 1))
    c.point(job, 1.0)
    assert gpus_of(c.scheduler.state, other.allocation) == [[1]]


def test_a_moldable_start_is_as_large_as_what_fits() -> None:
    c = cluster(moldable=True)
    c.submit(1, needs=Needs(gpus=1))
    job = c.submit(1, 2, start=2, kind="moldable", needs=Needs(gpus=1))
    assert job.size == 1


def test_an_evolving_job_is_given_what_it_needs_or_nothing() -> None:
    c = cluster()
    job = c.submit(1, kind="evolving", needs=Needs(gpus=1))
    c.do(ev.DynamicRequested(job.id, job.instance, 1, 2, 0.0))
    assert not job.reserved
    c.do(ev.DynamicRequested(job.id, job.instance, 2, 1, 0.0))
    assert gpus_of(c.scheduler.state, job.reserved) == [[1]]


def test_a_job_with_a_profile_cannot_ask_for_nodes() -> None:
    c = cluster()
    with pytest.raises(InvalidSpec, match="profile"):
        c.submit(1, kind="evolving", profile=((10, 1),), needs=Needs(gpus=1))


# --- nodes that come back as others --------------------------------------------------------------


def test_a_node_that_comes_back_smaller_loses_what_ran_on_the_rest() -> None:
    c = Cluster(8, per_node=4)
    jobs = [c.submit(2) for _ in range(4)]
    c.do(ev.NodeJoined("n01", 2))
    assert state(jobs[0]) is JobState.RUNNING
    assert state(jobs[1]) is JobState.KILLING
    c.end(jobs[1])
    assert "came back with 2 processors instead of 4" in ending(jobs[1]).text
    assert state(jobs[1]) is JobState.FAILED
    assert c.scheduler.state.processors.capacity == 6
    assert c.scheduler.state.idle == 0
    c.do(ev.NodeJoined("n01", 5))
    assert c.scheduler.state.processors.capacity == 9
    assert nodes(c, c.submit(3)) == ["n01"] * 3


def test_a_draining_node_that_changes_drains_on() -> None:
    c = Cluster(4, per_node=4)
    job = c.submit(3)
    c.do(ev.DrainRequested("n01"))
    for count in (2, 6, 6):
        c.do(ev.NodeJoined("n01", count))
        node = c.scheduler.state.processors.nodes["n01"]
        assert state_of(c.scheduler.state, node) in ("draining", "empty")
        assert c.scheduler.state.idle == 0
    c.end(job)
    assert c.scheduler.state.processors.capacity == 0
    c.do(ev.ResumeRequested("n01"))
    assert c.scheduler.state.idle == 6


def test_a_node_that_changes_what_it_has_is_asked_for_that() -> None:
    c = Cluster(2, per_node=2)
    c.do(ev.NodeJoined("n01", 2, memory=GIB, gpus=1, features=("x",)))
    job = c.submit(1, needs=Needs(GIB, 1, "x"))
    assert nodes(c, job) == ["n01"]


# --- whatever happens ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_given_twice_whatever_happens(seed: int) -> None:
    """Jobs, nodes and drains come and go at random; Cluster checks everything after each event."""
    random = Random(seed)
    start = ("fcfs", "easy", "conservative", "reservations")[seed % 4]
    c = cluster(start=start, moldable=bool(seed % 3))
    needs = [
        None,
        None,
        Needs(memory=2 * GIB),
        Needs(memory=20 * GIB),
        Needs(gpus=1),
        Needs(gpus=2, memory=GIB),
        Needs(constraint="ssd"),
        Needs(constraint="big|gpu", memory=7 * GIB),
    ]
    has = {"plain": (2, 4, 0, ()), "big": (2, 64, 0, ("ssd", "big")), "fast": (4, 32, 2, ("gpu",))}
    jobs: list[Job] = []
    for _ in range(250):
        c.now += random.random()
        running = [j for j in jobs if j.state is JobState.RUNNING]
        what = random.randrange(12)
        name = random.choice(list(has))
        node = c.scheduler.state.processors.nodes[name]
        if what < 5:
            sizes = random.choice([(1,), (2,), (1, 2, 4), (1, 2)])
            with suppress(InfeasibleRequest):
                wall_s = random.choice([None, 5.0, 50.0])
                jobs.append(c.submit(*sizes, needs=random.choice(needs), walltime_s=wall_s))
        elif what < 7 and running:
            c.end(random.choice(running))
        elif what < 9 and running:
            c.point(random.choice(running), 1.0)
        elif what == 9:
            with suppress(InvalidTransition):  # it drains already
                c.do(ev.DrainRequested(name) if random.random() < 0.5 else ev.NodeLost(name))
        elif what == 10 and node.up and name in Drains.of(c.scheduler.state).nodes:
            c.do(ev.ResumeRequested(name))
        else:
            count, memory, gpus, features = has[name]
            more = random.choice([count, count, count - 1, count + 2])
            c.do(ev.NodeJoined(name, more, 1.0, memory * GIB, gpus, features))
        for job in [j for j in jobs if j.state is JobState.KILLING]:
            c.end(job)
        for there, (memory, gpus) in in_use(c.scheduler.state).items():
            assert memory <= has[there][1] * GIB
            assert gpus <= has[there][2]
        held = [p for j in c.scheduler.state.active.values() for p in j.holds()]
        assert len(held) == len(set(held))
        for job in c.scheduler.state.active.values():
            if job.spec.needs is not None and job.spec.needs.gpus:
                given = gpus_of(c.scheduler.state, job.allocation)
                assert all(len(gpus) == job.spec.needs.gpus for gpus in given)
    assert sum(j.start_s is not None for j in jobs) > 20
