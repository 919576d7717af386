"""Programs that run already and attach themselves: who gets in, where, and what they are then."""

from __future__ import annotations

from typing import Any

import pytest

from dq_server.core.features.lifecycle import Attached
from dq_server.core.model import events as ev
from dq_server.core.model.actions import JobAccepted, StartJob, VacateProcessors
from dq_server.core.model.errors import InsufficientResources, InvalidSpec, SchedulerError
from dq_server.core.model.jobs import Job, JobKind, JobSpec, JobState
from dq_server.core.model.launching import Launching
from dq_server.core.model.sizes import configurations
from dq_server.core.model.spec import Protection
from tests.core.cluster import Cluster, MakeCluster, state

HERE = ("n01", "n02", "n03", "n04")


def attaching(size: int, *sizes: int, **more: Any) -> ev.JobAttached:
    chain = configurations([size, *sizes])
    initial = next(c for c in chain if c.size == size)
    places = more.pop("places", (HERE,))
    place_of = more.pop("place_of", (0,) * size)
    pids = more.pop("pids", tuple(range(100, 100 + size)))
    spec = JobSpec("beside", more.pop("kind", JobKind.MALLEABLE), initial, chain, **more)
    return ev.JobAttached(spec, places, place_of, pids)


def attach(c: Cluster, size: int, *sizes: int, **more: Any) -> Job:
    actions = c.do(attaching(size, *sizes, **more))
    return c.scheduler.state.job(next(a.job for a in actions if isinstance(a, JobAccepted)))


def refused(c: Cluster, kind: type[SchedulerError], *args: int, **more: Any) -> str:
    """Why; nothing has changed."""
    now = c.scheduler.state
    before = now.idle, len(now.jobs), now.next_job, list(now.queue)
    with pytest.raises(kind) as error:
        c.do(attaching(*args, **more))
    assert (now.idle, len(now.jobs), now.next_job, list(now.queue)) == before
    now.check()
    return str(error.value)


def test_it_starts_at_once_where_it_runs(cluster: MakeCluster) -> None:
    c = cluster(6)
    job = attach(c, 2, 1, 4, places=(("n03", "n04"),))
    assert (job.state, job.allocation, job.instance) == (JobState.RUNNING, [2, 3], 1)
    assert (job.first_processor, Attached.of(job).pids) == (2, (100, 101))
    assert c.scheduler.state.idle == 4
    (start,) = [a for a in c.log if isinstance(a, StartJob)]
    assert start.reason.text == "started with mpiexec on 2 processors, and attached: 6 were idle"
    assert start.processors == (2, 3)


def test_each_rank_is_where_it_runs(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    job = attach(c, 3, places=(("n02",), ("n01",)), place_of=(0, 1, 0))
    assert job.allocation == [2, 0, 3]


@pytest.mark.parametrize("launching", list(Launching))
def test_it_grows_by_worlds_that_join_whatever_is_configured(
    cluster: MakeCluster, launching: Launching
) -> None:
    c = cluster(4, launching=launching)
    assert attach(c, 1).launching is Launching.JOIN
    assert c.submit(1).launching is launching


def test_it_is_resized_as_any_malleable_job(cluster: MakeCluster) -> None:
    c = cluster(4, samples=1, discard=0)
    job = attach(c, 2, 1, 4)
    assert c.point(job, 10.0).what == "expand"
    assert job.size == 4
    waits = c.submit(2)
    assert c.point(job, 9.0).what == "shrink"
    assert (job.size, waits.state) == (2, JobState.RUNNING)
    left = c.end(job)
    assert job.state is JobState.DONE
    assert any(isinstance(a, VacateProcessors) for a in left)
    assert c.scheduler.state.idle == 2


def test_the_same_request_is_the_same_job(cluster: MakeCluster) -> None:
    c = cluster(4)
    job = attach(c, 2, request_id="r")
    assert attach(c, 2, request_id="r") is job
    assert c.started == [job.id]


def test_a_server_that_starts_again_still_knows_the_processes(cluster: MakeCluster) -> None:
    c = cluster(4)
    job = attach(c, 2)
    assert Attached.of(job).pids == (100, 101)
    assert not Attached.of(c.submit(1)).pids


def test_no_room_where_it_runs(cluster: MakeCluster) -> None:
    c = cluster(4)
    c.submit(3)
    assert refused(c, InsufficientResources, 2) == (
        "its 2 ranks run on 4 nodes from n01 to n04: 1 idle processors"
    )
    assert refused(c, InsufficientResources, 1, places=(("n01",),)) == (
        "its 1 ranks run on n01: 0 idle processors"
    )
    assert attach(c, 1).allocation == [3]


def test_what_is_promised_is_not_taken(cluster: MakeCluster) -> None:
    c = cluster(4)
    c.do(ev.ReservationMade(ev.AdvanceReservation("r", 3, 5.0, 100.0)))
    assert refused(c, InsufficientResources, 2) == (
        "it needs 2 processors: of the 4 idle ones 1 are not promised"
    )
    assert attach(c, 2, walltime_s=4.0).state is JobState.RUNNING


def test_no_waiting_job_starts_later_for_it(cluster: MakeCluster) -> None:
    c = cluster(4)
    c.submit(3, walltime_s=100.0)
    waits = c.submit(4, walltime_s=50.0)
    assert refused(c, InsufficientResources, 1) == (
        f"it needs 1 processors, 1 are idle, but job {waits.id}, which waits, would start nobody"
        " knows when"
    )
    assert refused(c, InsufficientResources, 1, walltime_s=160.0) == (
        f"it needs 1 processors, 1 are idle, but job {waits.id}, which waits, would start 60 s"
        " later"
    )
    assert attach(c, 1, walltime_s=90.0).state is JobState.RUNNING


def test_nothing_is_granted_while_grants_are_paused(cluster: MakeCluster) -> None:
    c = cluster(4)
    c.do(ev.GrantsPaused(True, "the server has just started"))
    assert refused(c, InsufficientResources, 1) == (
        "requests are not granted at the moment: the server has just started"
    )


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"pids": (1,)}, "the program runs with 1 ranks, not 2"),
        ({"place_of": (0, 1)}, "a rank of the program runs nowhere"),
        ({"place_of": (0,)}, "the program runs with 2 ranks, not 2"),
        ({"places": (HERE, ("n01",))}, "the places where its ranks run have a node in common"),
        ({"hold": True}, "cannot wait for a time, a job or a release"),
        ({"after": (1,)}, "cannot wait for a time, a job or a release"),
        ({"protection": Protection("disk")}, "cannot be restarted: no protection"),
    ],
)
def test_what_contradicts_itself_is_refused(
    cluster: MakeCluster, more: dict[str, Any], why: str
) -> None:
    assert why in refused(cluster(4), InvalidSpec, 2, **more)


def test_a_lost_node_ends_it(cluster: MakeCluster) -> None:
    c = cluster(4)
    job = attach(c, 2)
    c.do(ev.NodeLost("n02"))
    assert job.state is JobState.KILLING
    c.end(job, -9)
    assert state(job) is JobState.FAILED
