"""Nodes that drain: nothing new runs there, what runs there leaves, and what cannot leave ends."""

from __future__ import annotations

from typing import Any

import pytest

from dq_server.core.explain import explain
from dq_server.core.features.draining import Drains, holders, state_of
from dq_server.core.features.profiles import ProfilePromise
from dq_server.core.model import events as ev
from dq_server.core.model.actions import AnswerRemap, KillJob, NodeEmptied, Outcome, StartJob
from dq_server.core.model.errors import InfeasibleRequest, InvalidTransition, UnknownNode
from dq_server.core.model.events import AdvanceReservation
from dq_server.core.model.jobs import Answer, Job, JobKind, JobSpec, JobState
from dq_server.core.model.launching import Launching
from dq_server.core.model.requests import Asked
from dq_server.core.model.sizes import configuration
from dq_server.core.model.spec import Protection
from tests.core.cluster import Cluster, MakeCluster, answered, ending, state

QUICK: dict[str, Any] = {"samples": 1, "discard": 0, "threshold": 0.0, "settle": 0}
RANKS = QUICK | {"launching": Launching.JOIN}


def drain(c: Cluster, node: str, within_s: float | None = None, **more: Any) -> None:
    c.do(ev.DrainRequested(node, within_s, by="ann", **more))


def node_state(c: Cluster, node: str) -> str:
    return str(state_of(c.scheduler.state, c.scheduler.state.processors.nodes[node]))


def why(c: Cluster, job: Job) -> list[str]:
    return [reason.code for reason in explain(c.scheduler, job, c.now)]


def asks(c: Cluster, job: Job, more: int, timeout_s: float = 0.0, number: int = 1) -> None:
    c.do(ev.DynamicRequested(job.id, job.instance, number, more, timeout_s))


# --- nothing new is granted ----------------------------------------------------------------------


def test_idle_processors_go_at_once(cluster: MakeCluster) -> None:
    c = cluster(6, per_node=2)
    drain(c, "n02")
    assert (c.scheduler.state.idle, c.scheduler.state.processors.capacity) == (4, 4)
    assert node_state(c, "n02") == "empty"
    job = c.submit(4)
    assert job.allocation == [0, 1, 4, 5]
    waits = c.submit(1)
    assert waits.state is JobState.QUEUED
    assert why(c, waits) == ["waits_for_processors", "withheld"]
    c.do(ev.ResumeRequested("n02"))
    assert waits.allocation == [2]
    assert (state(waits), node_state(c, "n02")) == (JobState.RUNNING, "up")


def test_what_comes_back_on_a_draining_node_stays_there(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    job, waits = c.submit(3), c.submit(2)
    drain(c, "n01")
    assert node_state(c, "n01") == "draining"
    c.end(job)
    assert node_state(c, "n01") == "empty"
    assert waits.allocation == [2, 3]


def test_a_job_larger_than_what_does_not_drain_is_refused(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    drain(c, "n01")
    with pytest.raises(InfeasibleRequest, match="the cluster has 2, and 2 on nodes that drain"):
        c.submit(3)


def test_a_waiting_job_may_need_what_drains(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    first, large = c.submit(4), c.submit(4)
    drain(c, "n02")
    c.end(first)
    assert large.state is JobState.QUEUED
    assert why(c, large) == ["too_small_left", "withheld"]
    c.do(ev.ResumeRequested("n02"))
    assert state(large) is JobState.RUNNING


def test_backfilling_counts_on_nothing_that_drains(cluster: MakeCluster) -> None:
    """The head needs 3: what A holds on n01 does not come back for it, only B's end helps."""
    c = cluster(6, per_node=2, start="easy", resize="none")
    c.submit(2, estimate_s=100.0)  # A, on n01
    c.submit(2, estimate_s=1000.0)  # B
    drain(c, "n01")
    head = c.submit(3, estimate_s=10.0)
    assert head.state is JobState.QUEUED
    c.submit(2, estimate_s=500.0)  # would delay the head if A's processors counted
    started = [d for d in c.scheduler.state.job(4).decisions if d.what == "start"]
    assert started[0].reason.figures["shadow_time_s"] == 1000.0


def test_a_conservative_promise_counts_on_nothing_that_drains(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2, start="conservative", resize="none")
    a, b = c.submit(2, walltime_s=100.0), c.submit(2, walltime_s=200.0)
    waits = c.submit(2, walltime_s=50.0)
    drain(c, "n01")
    c.now = 100.0
    c.end(a)
    assert waits.state is JobState.QUEUED
    c.now = 200.0
    c.end(b)
    assert state(waits) is JobState.RUNNING


def test_a_reservation_is_not_made_of_what_drains(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    c.submit(2, walltime_s=100.0)
    drain(c, "n01")
    wanted = AdvanceReservation("r", 3, 500.0, 600.0)
    with pytest.raises(InfeasibleRequest, match="the cluster has 2"):
        c.do(ev.ReservationMade(wanted))
    c.do(ev.ReservationMade(AdvanceReservation("r", 2, 500.0, 600.0)))


def test_a_reservation_does_not_count_on_jobs_that_only_leave_a_draining_node(
    cluster: MakeCluster,
) -> None:
    c = cluster(4, per_node=2, **RANKS)
    job = c.submit(1, 2, start=2)
    c.point(job, 1.0)
    drain(c, "n01")
    with pytest.raises(InfeasibleRequest):
        c.do(ev.ReservationMade(AdvanceReservation("r", 3, 50.0, 60.0)))


def test_a_request_is_not_granted_what_drains(cluster: MakeCluster) -> None:
    c = cluster(6, per_node=2)
    job, _ = c.submit(1, kind="evolving"), c.submit(2)
    drain(c, "n03")
    asks(c, job, 2)
    assert (answered(job).what, answered(job).reason.figures["idle"]) == (Outcome.REJECTED, 1)


def test_a_job_larger_than_what_is_left_may_give_back(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    job = c.submit(4, kind="evolving")
    drain(c, "n01")
    c.do(ev.DynamicReleased(job.id, 1, 1, 1, (0,)))
    assert (c.point(job, 1.0).what, job.size) == ("shrink", 3)


@pytest.mark.parametrize("resize", ["intensive", "spare"])
def test_mebf_gives_nothing_that_drains(cluster: MakeCluster, resize: str) -> None:
    c = cluster(4, per_node=2, start="easy", resize=resize, moldable=True)
    job = c.submit(1, 2, 4, start=1, estimate_s=1000.0)
    drain(c, "n02")
    c.point(job, 1.0)
    assert set(job.allocation) <= {0, 1}


# --- jobs leave ----------------------------------------------------------------------------------


def test_a_malleable_job_leaves_the_first_node(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2, **RANKS)
    job = c.submit(1, 2, 4, start=4)
    drain(c, "n01")
    assert why(c, job)[-1] == "drain_leaves_soon"
    answer = c.point(job, 1.0)
    assert (answer.what, answer.processors, job.allocation) == ("shrink", (0, 1), [2, 3])
    assert (answer.reason.code, node_state(c, "n01")) == ("drain_shrink", "empty")
    assert "node n01 drains: from 4 to 2, off the 2 processors" in answer.reason.text
    assert c.point(job, 1.0).what == "continue"


def test_it_leaves_more_than_the_node_if_no_legal_size_fits(cluster: MakeCluster) -> None:
    c = cluster(5, **RANKS)
    job = c.submit(1, 2, 5, start=5)
    drain(c, "n02")
    answer = c.point(job, 1.0)
    assert (answer.processors, job.allocation) == ((1, 3, 4), [0, 2])
    assert c.scheduler.state.idle == 2


def test_several_nodes_are_left_at_once(cluster: MakeCluster) -> None:
    c = cluster(4, **RANKS)
    job = c.submit(1, 2, 4, start=4)
    drain(c, "n01")
    drain(c, "n03")
    answer = c.point(job, 1.0)
    assert job.allocation == [1, 3]
    assert "each of nodes n01, n03 drains" in answer.reason.text


def test_a_job_that_is_wholly_there_moves_by_way_of_a_larger_size(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2, **RANKS)
    job = c.submit(2, 4)
    drain(c, "n01")
    assert why(c, job)[-1] == "drain_stays"
    answer = c.point(job, 1.0)
    assert (answer.what, answer.reason.code, job.size) == ("expand", "drain_detour", 4)
    assert c.point(job, 1.0).processors == (0, 1)
    assert (job.allocation, node_state(c, "n01")) == ([2, 3], "empty")


def test_it_moves_though_somebody_waits(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2, **RANKS)
    job = c.submit(1, 2, start=1)
    c.submit(1)
    c.submit(4)
    drain(c, "n01")
    assert [c.point(job, 1.0).what, c.point(job, 1.0).what] == ["expand", "shrink"]
    assert job.allocation == [2]


def test_it_stays_if_nothing_is_idle_elsewhere(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2, **RANKS)
    job, _ = c.submit(2, 4), c.submit(2)
    drain(c, "n01", 60.0)
    assert c.point(job, 1.0).what == "continue"
    reasons = explain(c.scheduler, job, c.now)
    assert "no legal size fits on the 0 that stay; it may stay for another 59 s" in reasons[-1].text


def test_a_detour_that_failed_is_not_tried_at_once_again(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2, **RANKS)
    job = c.submit(2, 4)
    drain(c, "n01")
    answer = c.point(job, 1.0, carry_out=False)
    c.do(ev.ResizeAborted(job.id, 1, answer.resize_id, "no"))
    assert [c.point(job, 1.0).what for _ in range(5)] == ["continue"] * 3 + ["expand", "shrink"]


def test_draining_comes_before_the_users_wish(cluster: MakeCluster) -> None:
    c = cluster(6, per_node=2, **RANKS)
    job = c.submit(1, 2, 4, 6, start=4)
    c.do(ev.ResizeRequested(job.id, 6))
    drain(c, "n01")
    assert (c.point(job, 1.0).what, job.allocation) == ("shrink", [2, 3])
    assert c.point(job, 1.0).reason.code == "user_resize_waits"


def test_an_evolving_job_leaves_too(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    job = c.submit(3, kind="evolving")
    drain(c, "n01")
    assert (c.point(job, 1.0).what, job.allocation) == ("shrink", [2])


def test_an_evolving_job_keeps_within_its_range(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    job = c.submit(2, 4, kind="evolving")
    drain(c, "n01")
    assert c.point(job, 1.0).reason.code == "drain_detour"
    assert (job.size, c.point(job, 1.0).what, job.allocation) == (4, "shrink", [2, 3])


def test_a_job_with_a_profile_leaves_for_a_size_that_it_has(cluster: MakeCluster) -> None:
    c = cluster(6, per_node=2)
    spec = JobSpec("p", JobKind.EVOLVING, configuration(4),
                   (configuration(2), configuration(4)), profile=((100, 4), (100, 2)))  # fmt: skip
    c.do(ev.JobSubmitted(spec))
    job = c.scheduler.state.job(1)
    assert job.size == 4
    drain(c, "n01")
    assert (c.point(job, 1.0).what, job.allocation) == ("shrink", [2, 3])
    assert c.point(job, 1.0).what == "expand"  # elsewhere, as its profile says
    assert (job.allocation, ProfilePromise.of(job).step) == ([2, 3, 4, 5], 0)


def test_what_the_application_gives_back_comes_first(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    job = c.submit(4, kind="evolving")
    c.do(ev.DynamicReleased(job.id, 1, 1, 1, (3,)))
    drain(c, "n01")
    assert (c.point(job, 1.0).reason.code, job.allocation) == ("dyn_release", [0, 1, 2])
    assert (c.point(job, 1.0).reason.code, job.allocation) == ("drain_shrink", [2])


def test_a_rigid_job_runs_to_its_end(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    job = c.submit(2)
    drain(c, "n01")
    assert [reason.text for reason in explain(c.scheduler, job, 0.0)][-1] == (
        "node n01 drains; the job has 2 processors there and is rigid; it may stay until it ends"
    )
    c.end(job)
    assert (job.state, node_state(c, "n01")) == (JobState.DONE, "empty")


# --- what was under way --------------------------------------------------------------------------


def test_an_expansion_onto_the_node_that_prepares_is_taken_back(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2, **RANKS)
    job = c.submit(2, 4)
    answer = c.point(job, 1.0, carry_out=False)
    assert answer.processors == (2, 3)
    drain(c, "n02")
    again = prepares(c, job, answer)
    assert (again.what, again.resize_id) == ("continue", 0)
    assert again.reason.text == "node n02 drains, and is part of the expansion"
    assert node_state(c, "n02") == "draining"
    c.do(ev.ResizeAborted(job.id, 1, answer.resize_id, "the server has withdrawn it"))
    assert (job.resize, job.reserved, node_state(c, "n02")) == (None, (), "empty")
    assert c.point(job, 1.0).what == "continue"


def test_an_application_that_does_not_hear_of_that_carries_it_out(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2, **RANKS)
    job = c.submit(2, 4)
    answer = c.point(job, 1.0, carry_out=False)
    drain(c, "n02")
    prepares(c, job, answer)
    c.do(ev.ResizeCommitted(job.id, 1, answer.resize_id, 0.1))
    c.done[job.id] = answer.resize_id
    assert job.allocation == [0, 1, 2, 3]
    assert (c.point(job, 1.0).what, job.allocation) == ("shrink", [0, 1])


def test_it_leaves_at_the_point_after(cluster: MakeCluster) -> None:
    c = cluster(4, **RANKS)
    job = c.submit(1, 2, 4, start=2)
    answer = c.point(job, 1.0, carry_out=False)
    drain(c, "n01")
    drain(c, "n04")
    assert prepares(c, job, answer).resize_id == 0
    assert (c.point(job, 1.0).processors, job.allocation) == ((0,), [1])


def test_an_expansion_elsewhere_goes_on(cluster: MakeCluster) -> None:
    c = cluster(4, **RANKS)
    job = c.submit(1, 2, start=1)
    answer = c.point(job, 1.0, carry_out=False)
    drain(c, "n04")
    again = prepares(c, job, answer)
    assert (again.what, again.resize_id) == ("continue", answer.resize_id)


def test_an_expansion_that_happened_already_is_followed_by_a_shrink(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2, **RANKS)
    job = c.submit(2, 4)
    answer = c.point(job, 1.0, carry_out=False)
    drain(c, "n02")
    c.do(ev.ResizeCommitted(job.id, 1, answer.resize_id, 0.1))
    c.done[job.id] = answer.resize_id
    assert job.allocation == [0, 1, 2, 3]
    assert (c.point(job, 1.0).what, job.allocation) == ("shrink", [0, 1])


def test_a_shrink_that_was_granted_ends_first(cluster: MakeCluster) -> None:
    c = cluster(4, **RANKS)
    job = c.submit(1, 2, 4, start=4)
    c.do(ev.ResizeRequested(job.id, 2))
    answer = c.point(job, 1.0, carry_out=False)
    drain(c, "n01")
    drain(c, "n04")
    c.do(ev.ResizeCommitted(job.id, 1, answer.resize_id, 0.1))
    c.done[job.id] = answer.resize_id
    assert (node_state(c, "n04"), c.scheduler.state.idle) == ("empty", 1)
    assert (c.point(job, 1.0).what, job.allocation) == ("shrink", [1])


def prepares(c: Cluster, job: Job, answer: Answer) -> Answer:
    """The next remap point, at which the new ranks are still starting."""
    c.seq[job.id] += 1
    point = ev.RemapPoint(job.id, 1, c.seq[job.id], job.size, 0, 1.0, preparing=answer.resize_id)
    return next(a.answer for a in c.do(point) if isinstance(a, AnswerRemap))


def test_processors_that_were_granted_are_exchanged(cluster: MakeCluster) -> None:
    c = cluster(6, per_node=2)
    job = c.submit(2, kind="evolving")
    asks(c, job, 2)
    assert job.reserved == (2, 3)
    drain(c, "n02")
    assert (job.reserved, answered(job).what) == ((4, 5), Outcome.GRANTED)
    assert (c.point(job, 1.0).what, job.allocation) == ("expand", [0, 1, 4, 5])


def test_a_grant_that_cannot_be_kept_is_no_grant_any_more(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    job = c.submit(2, kind="evolving")
    asks(c, job, 1)
    drain(c, "n02")
    assert not job.reserved
    assert answered(job).what is Outcome.REJECTED
    assert (Asked.of(job).request, node_state(c, "n02")) == (None, "empty")
    assert c.point(job, 1.0).what == "continue"


def test_a_grant_that_cannot_be_kept_waits_if_it_has_time(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    job = c.submit(2, kind="evolving")
    asks(c, job, 1, timeout_s=100.0)
    drain(c, "n02")
    assert not job.reserved
    c.do(ev.ResumeRequested("n02"))
    assert list(job.reserved) == [2]
    assert answered(job).what is Outcome.GRANTED


def test_a_request_waits_while_the_job_leaves(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    job, other = c.submit(3, kind="evolving"), c.submit(1)
    asks(c, job, 1, timeout_s=5.0)
    drain(c, "n01")
    answer = c.point(job, 1.0, carry_out=False)
    c.end(other)
    assert (answer.what, job.reserved) == ("shrink", ())
    c.now = 10.0
    assert c.scheduler.next_wakeup(c.now) is None
    c.do(ev.ResizeCommitted(job.id, 1, answer.resize_id, 0.1))
    assert (job.allocation, job.reserved) == ([2], (3,))


# --- deadlines -----------------------------------------------------------------------------------


def test_what_is_left_at_the_deadline_is_killed(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    job, other = c.submit(2), c.submit(2)
    c.now = 100.0
    drain(c, "n01", 60.0, reason="new memory")
    assert c.scheduler.next_wakeup(c.now) == 160.0
    c.now = 159.9
    c.do(ev.Tick())
    assert job.state is JobState.RUNNING
    c.now = 160.0
    c.do(ev.Tick())
    assert (state(job), other.state) == (JobState.KILLING, JobState.RUNNING)
    assert c.scheduler.next_wakeup(c.now) is None
    c.end(job, 137)
    assert (state(job), node_state(c, "n01")) == (JobState.FAILED, "empty")
    assert ending(job).text == (
        "node n01 was to be empty within 60 s and the job was still there: drained by ann"
        " (new memory)"
    )


def test_a_protected_job_starts_again_elsewhere(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    job = c.submit(2, protection=Protection("disk"))
    drain(c, "n01", 60.0)
    c.now = 60.0
    c.do(ev.Tick())
    c.do(ev.JobEnded(job.id, 1, 137), vacate=False)
    assert job.state is JobState.RESTARTING
    c.do(ev.ProcessorsVacated(job.id))
    assert (state(job), job.instance, job.allocation) == (JobState.RUNNING, 2, [2, 3])


def test_an_expansion_that_is_under_way_at_the_deadline_ends_with_its_job(
    cluster: MakeCluster,
) -> None:
    c = cluster(4, per_node=2, **RANKS)
    job = c.submit(2, 4)
    c.point(job, 1.0, carry_out=False)
    drain(c, "n02", 5.0)
    c.now = 10.0
    c.do(ev.Tick())
    assert (job.state, ending(job).code) == (JobState.KILLING, "drained")


def test_without_a_deadline_nobody_is_killed(cluster: MakeCluster) -> None:
    c = cluster(2)
    job = c.submit(1)
    drain(c, "n01")
    c.now = 1e9
    c.do(ev.Tick())
    assert (job.state, c.scheduler.next_wakeup(0.0)) == (JobState.RUNNING, None)


def test_a_job_that_resumes_in_time_goes_on(cluster: MakeCluster) -> None:
    c = cluster(2)
    job = c.submit(1)
    drain(c, "n01", 60.0)
    c.do(ev.ResumeRequested("n01"))
    c.now = 60.0
    c.do(ev.Tick())
    assert (job.state, node_state(c, "n01")) == (JobState.RUNNING, "up")


# --- requests that make no sense -----------------------------------------------------------------


def test_an_unknown_node(cluster: MakeCluster) -> None:
    c = cluster(2)
    with pytest.raises(UnknownNode, match="no node named n1; did you mean n01"):
        drain(c, "n1")
    with pytest.raises(UnknownNode, match=r"no node named xyz$"):
        c.do(ev.ResumeRequested("xyz"))


def test_draining_already(cluster: MakeCluster) -> None:
    c = cluster(2)
    c.submit(1)
    drain(c, "n01", 60.0, reason="new memory")
    c.now = 20.0
    told = (
        r"node n01 is draining already, asked for by ann \(new memory\), 40 s before its deadline;"
        r" jobs there: 1\. dq node resume n01 takes it back"
    )
    with pytest.raises(InvalidTransition, match=told):
        drain(c, "n01")


def test_nothing_to_resume(cluster: MakeCluster) -> None:
    c = cluster(2)
    with pytest.raises(InvalidTransition, match="node n01 is up: there is nothing to resume"):
        c.do(ev.ResumeRequested("n01"))
    c.do(ev.NodeLost("n01"))
    with pytest.raises(InvalidTransition, match=r"is lost: .*it is up again when its agent is"):
        c.do(ev.ResumeRequested("n01"))


def test_a_node_that_is_not_to_leave_does_not(cluster: MakeCluster) -> None:
    c = cluster(2)
    c.submit(1)
    for _ in range(2):
        with pytest.raises(InvalidTransition, match="it cannot leave"):
            c.do(ev.NodeLeft("n01"))
        if node_state(c, "n01") == "up":
            drain(c, "n01", leaves=True)


# --- leaving -------------------------------------------------------------------------------------


def test_a_removed_node_leaves_when_it_is_empty(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    job = c.submit(2)
    drain(c, "n01", leaves=True)
    assert not [a for a in c.log if isinstance(a, NodeEmptied)]
    c.end(job)
    assert [a.node for a in c.log if isinstance(a, NodeEmptied)] == ["n01"]
    assert node_state(c, "n01") == "empty"
    c.do(ev.NodeLeft("n01", "life1"))
    assert (node_state(c, "n01"), c.scheduler.state.processors.down) == ("left", {0, 1})
    with pytest.raises(InvalidTransition, match="has left already"):
        drain(c, "n01")
    c.do(ev.NodeJoined("n01", 2))
    assert (node_state(c, "n01"), c.scheduler.state.idle) == ("up", 4)


def test_it_is_said_once_that_it_is_empty(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    drain(c, "n01", leaves=True)
    c.submit(1)
    c.submit(1)
    assert [a.node for a in c.log if isinstance(a, NodeEmptied)] == ["n01"]


def test_a_draining_node_may_be_removed_then(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    drain(c, "n01", 60.0, reason="new memory")
    assert node_state(c, "n01") == "empty"
    drain(c, "n01", leaves=True)
    known = Drains.of(c.scheduler.state).nodes["n01"]
    assert (known.deadline_s, known.reason, known.leaves) == (60.0, "new memory", True)
    c.do(ev.NodeLeft("n01"))
    assert node_state(c, "n01") == "left"


def test_a_lost_node_can_be_removed(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    c.do(ev.NodeLost("n01"))
    assert node_state(c, "n01") == "lost"
    drain(c, "n01", leaves=True)
    assert node_state(c, "n01") == "left"


def test_what_a_user_drains_stays_so_when_the_node_comes_back(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    drain(c, "n01")
    c.do(ev.NodeLost("n01"))
    assert node_state(c, "n01") == "lost"
    c.do(ev.NodeJoined("n01", 2))
    assert (node_state(c, "n01"), c.scheduler.state.idle) == ("empty", 2)
    c.do(ev.ResumeRequested("n01"))
    assert c.scheduler.state.idle == 4


def test_a_lost_node_may_be_drained_for_when_it_comes_back(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    c.do(ev.NodeLost("n01"))
    drain(c, "n01")
    c.do(ev.NodeJoined("n01", 2))
    assert node_state(c, "n01") == "empty"


def test_a_node_that_was_leaving_and_is_lost_is_up_when_it_comes_back(
    cluster: MakeCluster,
) -> None:
    c = cluster(4, per_node=2)
    c.submit(2)
    drain(c, "n01", 30.0, leaves=True, life="x")
    c.do(ev.NodeLost("n01"))
    assert (node_state(c, "n01"), c.scheduler.next_wakeup(0.0)) == ("lost", None)
    c.do(ev.NodeJoined("n01", 2))
    assert node_state(c, "n01") == "up"


def test_an_agent_that_leaves_may_be_replaced(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    drain(c, "n01", 30.0, leaves=True, life="x")
    with pytest.raises(InvalidTransition, match="its agent was stopped: start the agent again"):
        c.do(ev.ResumeRequested("n01"))
    c.do(ev.ResumeRequested("n01", life="y"))
    assert node_state(c, "n01") == "up"


def test_an_earlier_deadline_of_somebody_else_leaves_the_agent_its_word(
    cluster: MakeCluster,
) -> None:
    c = cluster(4, per_node=2)
    c.submit(2)
    drain(c, "n01", 30.0, leaves=True, life="x")
    drain(c, "n01", 5.0, leaves=True)
    found = Drains.of(c.scheduler.state).nodes["n01"]
    assert (found.life, found.deadline_s) == ("x", 5.0)


@pytest.mark.parametrize("ends", ["left", "lost", "replaced"])
def test_a_users_drain_outlives_the_agent(cluster: MakeCluster, ends: str) -> None:
    c = cluster(4, per_node=2)
    drain(c, "n01")
    drain(c, "n01", 30.0, leaves=True, life="x")
    if ends == "replaced":
        c.do(ev.ResumeRequested("n01", life="y"))
    else:
        c.do(ev.NodeLeft("n01", "x") if ends == "left" else ev.NodeLost("n01"))
        assert node_state(c, "n01") == ends
        c.do(ev.NodeJoined("n01", 2))
    assert node_state(c, "n01") == "empty"
    c.do(ev.ResumeRequested("n01"))
    assert node_state(c, "n01") == "up"


def test_under_mpiexec_a_job_is_where_its_launcher_is(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2, **QUICK)
    job = c.submit(1, 2, 4, start=4)
    drain(c, "n01", 60.0, leaves=True)
    c.point(job, 1.0)
    assert job.allocation == [2, 3]
    node = c.scheduler.state.processors.nodes["n01"]
    assert (node_state(c, "n01"), holders(c.scheduler.state, node)) == ("draining", [job])
    c.now = 60.0
    c.do(ev.Tick())
    assert [a.job for a in c.log if isinstance(a, KillJob)] == [job.id]


def test_with_ranks_of_its_own_a_job_is_where_its_ranks_are(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2, **RANKS)
    job = c.submit(1, 2, 4, start=4)
    drain(c, "n01", 60.0, leaves=True)
    c.point(job, 1.0)
    assert [a.node for a in c.log if isinstance(a, NodeEmptied)] == ["n01"]
    c.do(ev.NodeLeft("n01"))
    c.now = 100.0
    c.do(ev.Tick())
    assert job.state is JobState.RUNNING


def test_spawned_ranks_stay(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2, launching=Launching.JOIN)
    job = c.submit(2)
    c.do(ev.SpawnRequested(job.id, 1, "a", 1, 0, (("x",),), (0,)))
    drain(c, "n02", 60.0)
    assert node_state(c, "n02") == "draining"
    c.do(ev.WorldEnded(job.id, 1, 1))
    assert node_state(c, "n02") == "empty"


# --- nodes of another size -----------------------------------------------------------------------


def test_a_node_comes_back_smaller(cluster: MakeCluster) -> None:
    c = cluster(6, per_node=3)
    c.do(ev.NodeLost("n01"))
    c.do(ev.NodeJoined("n01", 1))
    pool = c.scheduler.state.processors
    assert (pool.idle, pool.capacity, pool.nodes["n01"].processors) == ([0, 3, 4, 5], 4, (0,))
    job = c.submit(4)
    assert job.state is JobState.RUNNING
    c.end(job)
    c.do(ev.NodeLost("n01"))
    c.do(ev.NodeJoined("n01", 4))
    assert (pool.idle, pool.nodes["n01"].processors) == ([0, 1, 2, 3, 4, 5, 6], (0, 1, 2, 6))


def test_a_node_comes_back_smaller_while_a_job_is_still_killed_there(cluster: MakeCluster) -> None:
    c = cluster(6, per_node=3)
    job = c.submit(4)
    c.do(ev.NodeLost("n01"))
    c.do(ev.NodeJoined("n01", 1))
    c.end(job, 255)
    assert (job.state, c.scheduler.state.idle) == (JobState.FAILED, 4)


def test_started_only_where_nothing_drains(cluster: MakeCluster) -> None:
    c = cluster(4)
    drain(c, "n02")
    for _ in range(3):
        c.submit(1)
    started = [p for a in c.log if isinstance(a, StartJob) for p in a.processors]
    assert started == [0, 2, 3]
