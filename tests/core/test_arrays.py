"""Arrays: jobs of one description, all at once or at most so many; what is done to all of them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dq_server.core.explain import explain
from dq_server.core.features.arrays import Array, ArraysKnown, array_of, environment_of, state_of
from dq_server.core.model import events as ev
from dq_server.core.model.actions import ArrayAccepted
from dq_server.core.model.errors import (
    InfeasibleRequest,
    InvalidSpec,
    InvalidTransition,
    UnknownJob,
)
from dq_server.core.model.jobs import ENDED, Job, JobKind, JobSpec, JobState
from dq_server.core.model.sizes import nearest_square
from dq_server.live.store import snapshot
from tests.core.cluster import Cluster, MakeCluster, state


def spec(size: int = 1, **more: Any) -> JobSpec:
    only = nearest_square(size)
    return JobSpec("sweep", JobKind.RIGID, only, (only,), **more)


def submit(c: Cluster, count: int, at_most: int = 0, **more: Any) -> tuple[Array, list[Job]]:
    actions = c.do(ev.ArraySubmitted(spec(**more), tuple(range(count)), at_most))
    (accepted,) = [a for a in actions if isinstance(a, ArrayAccepted)]
    array = array_of(c.scheduler.state, accepted.array)
    assert array is not None
    return array, [c.scheduler.state.job(k) for k in accepted.jobs]


def states(jobs: list[Job]) -> list[str]:
    return [str(job.state) for job in jobs]


def test_its_jobs_have_the_ids_after_its_own_and_their_indices(cluster: MakeCluster) -> None:
    c = cluster(2)
    c.submit(1)
    actions = c.do(ev.ArraySubmitted(spec(), (3, 5, 9), lines=("a", "b", "c")))
    assert ArrayAccepted(2, (3, 4, 5)) in actions
    elements = [c.scheduler.state.job(k).spec.element for k in (3, 4, 5)]
    assert [(e.array, e.index, e.line) for e in elements if e] == [
        (2, 3, "a"), (2, 5, "b"), (2, 9, "c"),
    ]  # fmt: skip
    assert c.submit(1).id == 6


def test_at_most_so_many_run_and_the_next_one_follows(cluster: MakeCluster) -> None:
    c = cluster(4)
    _, jobs = submit(c, 5, at_most=2)
    assert states(jobs) == ["running", "running", "waiting", "waiting", "waiting"]
    assert [r.text for r in explain(c.scheduler, jobs[2], c.now)] == [
        "job 2 of array 1: 2 others are in the queue or run, the most that may at once (%2)"
    ]
    other = c.submit(2)
    assert state(other) is JobState.RUNNING, "those that wait keep nobody out"
    c.end(jobs[1])
    assert states(jobs) == ["running", "done", "running", "waiting", "waiting"]
    c.end(jobs[0], 1)
    c.end(jobs[2])
    assert states(jobs) == ["failed", "done", "done", "running", "running"]


def test_a_failed_job_that_is_retried_keeps_its_place(cluster: MakeCluster) -> None:
    c = cluster(2)
    _, jobs = submit(c, 2, at_most=1, retry=1)
    c.end(jobs[0], 1)
    assert states(jobs) == ["running", "waiting"]
    c.end(jobs[0], 1)
    assert states(jobs) == ["failed", "running"]


def test_who_is_put_on_hold_lets_the_next_one_in_and_waits_when_released(
    cluster: MakeCluster,
) -> None:
    c = cluster(1)
    c.submit(1)
    _, jobs = submit(c, 3, at_most=1)
    assert states(jobs) == ["queued", "waiting", "waiting"]
    c.do(ev.HoldRequested(jobs[0].id))
    assert states(jobs) == ["held", "queued", "waiting"]
    c.do(ev.ReleaseRequested(jobs[0].id))
    assert states(jobs) == ["waiting", "queued", "waiting"]
    c.do(ev.KillRequested(jobs[1].id))
    assert states(jobs) == ["queued", "killed", "waiting"], "the first one has waited longest"


def test_what_is_done_to_an_array_is_done_to_all_it_can_be_done_to(cluster: MakeCluster) -> None:
    c = cluster(1)
    array, jobs = submit(c, 4, at_most=2)
    assert states(jobs) == ["running", "queued", "waiting", "waiting"]
    c.do(ev.ArrayRequested(array.id, "hold"))
    assert states(jobs) == ["running", "held", "held", "held"]
    c.do(ev.ArrayRequested(array.id, "release"))
    assert states(jobs) == ["running", "queued", "waiting", "waiting"]
    c.do(ev.ArrayRequested(array.id, "kill", "ann"))
    assert states(jobs) == ["killing", "killed", "killed", "killed"]
    c.end(jobs[0], 143)
    assert [(j.end_reason.text if j.end_reason else "") for j in jobs] == ["killed by ann"] * 4
    with pytest.raises(InvalidTransition, match="no job of array 1 can be killed now"):
        c.do(ev.ArrayRequested(array.id, "kill"))
    with pytest.raises(UnknownJob, match="no array 7"):
        c.do(ev.ArrayRequested(7, "hold"))


def test_all_wait_for_another_job_and_then_for_each_other(cluster: MakeCluster) -> None:
    c = cluster(4)
    first = c.submit(1)
    _, jobs = submit(c, 3, at_most=1, after=(first.id,))
    assert states(jobs) == ["waiting"] * 3
    c.end(first)
    assert states(jobs) == ["running", "waiting", "waiting"]
    gathering = c.submit(1, after_any=tuple(job.id for job in jobs))
    for job in jobs:
        c.end(job)
    assert state(gathering) is JobState.RUNNING


def test_a_failure_before_it_cancels_all_of_it(cluster: MakeCluster) -> None:
    c = cluster(2)
    first = c.submit(1)
    array, jobs = submit(c, 3, at_most=1, after=(first.id,))
    c.end(first, 1)
    assert states(jobs) == ["killed"] * 3
    assert state_of(c.scheduler.state, array) == "killed"


def test_said_again_it_is_the_same_array(cluster: MakeCluster) -> None:
    c = cluster(1)
    event = ev.ArraySubmitted(spec(request_id="r"), (0, 1))
    first = [a for a in c.do(event) if isinstance(a, ArrayAccepted)]
    assert [a for a in c.do(event) if isinstance(a, ArrayAccepted)] == first
    assert len(c.scheduler.state.jobs) == 2


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (ev.ArraySubmitted(spec(), ()), "1 to 10000 jobs, not 0"),
        (ev.ArraySubmitted(spec(), (1, 1)), "each once"),
        (ev.ArraySubmitted(spec(), (1,), -1), "at most -1"),
        (ev.ArraySubmitted(spec(), (1, 2), lines=("a",)), "1 lines for 2 jobs"),
        (ev.ArraySubmitted(spec(after=(9,)), (1, 2)), "no job 9"),
        (ev.ArraySubmitted(spec(9), (1, 2)), "asks for 9 processors"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_no_trace(
    cluster: MakeCluster, event: ev.ArraySubmitted, words: str
) -> None:
    c = cluster(1)
    before = snapshot.encode(c.scheduler, 0.0)
    with pytest.raises((InvalidSpec, InfeasibleRequest, UnknownJob), match=words):
        c.do(event)
    assert snapshot.encode(c.scheduler, 0.0) == before


def test_the_environment_is_kept_once_and_until_the_last_has_ended(cluster: MakeCluster) -> None:
    c = cluster(1)
    array, jobs = submit(c, 2, env={"SECRET": "word"})
    assert [job.spec.env for job in jobs] == [{}, {}]
    assert environment_of(c.scheduler.state, jobs[1]) == {"SECRET": "word"}
    c.end(jobs[0])
    assert environment_of(c.scheduler.state, jobs[1]) == {"SECRET": "word"}
    c.end(jobs[1])
    assert array.spec.env == {}
    alone = c.submit(1, env={"SECRET": "word"})
    c.end(alone)
    assert alone.spec.env == {}


def test_an_array_is_forgotten_with_its_last_job(cluster: MakeCluster) -> None:
    c = cluster(1, keep_ended=1)
    first, jobs = submit(c, 2, request_id="r")
    for job in jobs:
        c.end(job)
    assert state_of(c.scheduler.state, first) == "done"
    second, _ = submit(c, 1)
    assert set(ArraysKnown.of(c.scheduler.state).by_id) == {first.id, second.id}
    c.end(c.scheduler.state.job(second.jobs[0]))
    third, _ = submit(c, 1)
    assert set(ArraysKnown.of(c.scheduler.state).by_id) == {second.id, third.id}
    assert "r" not in c.scheduler.state.by_request


POLICIES = ("fcfs", "easy", "conservative", "reservations+priority", "mebf-shrink+", "easy+reshape")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_never_more_than_may_and_all_end_under_every_policy(data: st.DataObject) -> None:
    """What happens is drawn; the invariants are checked after each event (Arrays.check)."""
    c = Cluster(data.draw(st.integers(1, 4)), **policy(data.draw(st.sampled_from(POLICIES))))
    at_most = data.draw(st.integers(0, 3))
    count = data.draw(st.integers(1, 8))
    array, jobs = submit(c, count, at_most, retry=data.draw(st.integers(0, 1)))
    c.submit(1, walltime_s=50.0)
    for _ in range(data.draw(st.integers(0, 30))):
        job = data.draw(st.sampled_from(jobs))
        what = data.draw(st.sampled_from(("end", "fail", "hold", "release", "kill", "all")))
        happen(c, array, job, what, data)
        if at_most:
            assert sum(j.state not in (*ENDED, JobState.HELD, JobState.WAITING) for j in jobs) <= (
                at_most
            )
    again, _ = snapshot.decode(snapshot.encode(c.scheduler, c.now))
    assert snapshot.encode(again, c.now) == snapshot.encode(c.scheduler, c.now)
    settle(c, array, jobs)
    assert all(job.state in ENDED for job in jobs)
    assert array.left == 0


def policy(name: str) -> dict[str, Any]:
    from dq_server.core.settings import named_config

    config = named_config(name)
    return {kind: getattr(config, kind) for kind in ("order", "start", "resize", "grant")}


def happen(c: Cluster, array: Array, job: Job, what: str, data: st.DataObject) -> None:
    c.now += 1.0
    if what in ("end", "fail"):
        if job.state in (JobState.RUNNING, JobState.KILLING):
            c.end(job, int(what == "fail"))
    elif what == "all":
        wish = data.draw(st.sampled_from(("hold", "release")))
        with suppress(InvalidTransition):
            c.do(ev.ArrayRequested(array.id, wish))
    else:
        with suppress(InvalidTransition):
            c.do(asked(job, what))


def asked(job: Job, what: str) -> ev.Event:
    if what == "kill":
        return ev.KillRequested(job.id)
    return ev.HoldRequested(job.id) if what == "hold" else ev.ReleaseRequested(job.id)


def settle(c: Cluster, array: Array, jobs: list[Job]) -> None:
    """Release who is held, and end who runs, until all have ended."""
    for _ in range(4 * len(jobs) + 4):
        c.now += 60.0
        if any(job.state is JobState.HELD for job in jobs):
            c.do(ev.ArrayRequested(array.id, "release"))
        for job in list(c.scheduler.state.active.values()):
            if job.state in (JobState.RUNNING, JobState.KILLING):
                c.end(job)


def test_an_invariant_that_is_broken_is_noticed(cluster: MakeCluster) -> None:
    from dq_server.core.model.errors import InvariantViolation

    c = cluster(2)
    array, jobs = submit(c, 3, at_most=1)
    array.inside.clear()
    with pytest.raises(InvariantViolation, match="no feature holds it back"):
        c.scheduler.state.check()
    array.inside.append(jobs[0].id)
    array.left -= 1
    with pytest.raises(InvariantViolation, match="does not have 2 jobs left"):
        c.scheduler.state.check()
    array.left += 1
    array.spec = replace(array.spec, env={})
    c.scheduler.state.check()


def test_a_request_is_of_a_job_or_of_an_array(cluster: MakeCluster) -> None:
    """A job would have been told the number of the array, which is none of a job."""
    c = cluster(2)
    array, _ = submit(c, 2, request_id="r")
    job = c.submit(1, request_id="q")
    with pytest.raises(InvalidSpec, match=f"request 'r' was for array {array.id}"):
        c.submit(1, request_id="r")
    with pytest.raises(InvalidSpec, match=f"request 'q' was for job {job.id}"):
        submit(c, 2, request_id="q")
