"""Protected jobs: a node's loss is a shrink, a crash is not for ever, nothing starts twice."""

from __future__ import annotations

from typing import Any

import pytest

from dq_server.core.explain import explain
from dq_server.core.features.nodes import LostOutput
from dq_server.core.features.protection import Copies
from dq_server.core.model import events as ev
from dq_server.core.model.actions import JobFinished, JobRestarts, VacateProcessors
from dq_server.core.model.errors import InvalidSpec, InvalidTransition
from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.spec import Protection, torn_down
from tests.core.cluster import Cluster, MakeCluster, ending, state

DISK = Protection("disk")


def codes(c: Cluster, job: Job) -> list[str]:
    return [reason.code for reason in explain(c.scheduler, job, c.now)]


def test_a_lost_node_is_a_shrink(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    job = c.submit(1, 2, 4, start=4, protection=DISK)
    c.do(ev.NodeLost("n02"))
    assert job.state is JobState.KILLING
    actions = c.end(job, 255)
    assert [a.processors for a in actions if isinstance(a, VacateProcessors)] == [(0, 1)]
    assert (job.state, job.size, job.instance, job.restarts) == (JobState.RUNNING, 2, 2, 1)
    assert c.log.count(next(a for a in c.log if isinstance(a, JobRestarts))) == 1
    assert "restart 1 of 3 from the beginning" in job.decisions[-2].reason.text
    assert "node n02 was lost" in job.decisions[-2].reason.text
    c.end(job)
    assert state(job) is JobState.DONE
    assert c.scheduler.state.idle == 2


def test_a_lost_first_node_too(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    job = c.submit(2, 4, start=4, protection=DISK)
    c.do(ev.NodeLost("n01"))
    assert (job.state, job.allocation, job.instance) == (JobState.RUNNING, [2, 3], 2)
    c.do(ev.JobEnded(job.id, 1, 255))  # the first start's news comes late
    assert job.state is JobState.RUNNING


@pytest.mark.parametrize(("how", "goes_to"), [("partner", [0, 1, 6, 7]), ("disk", [0, 1, 2, 3])])
def test_it_starts_again_where_its_partners_copies_are(
    cluster: MakeCluster, how: str, goes_to: list[int]
) -> None:
    c = cluster(8, per_node=2)
    other = c.submit(4, start=4)
    job = c.submit(4, start=4, protection=Protection(how))
    c.end(other)
    assert job.allocation == [4, 5, 6, 7]
    c.do(ev.NodeLost("n03"))
    assert (job.state, job.instance, job.allocation) == (JobState.RUNNING, 2, goes_to)


def test_without_protection_a_lost_node_is_the_end(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    job = c.submit(2, 4, start=4)
    c.do(ev.NodeLost("n01"))
    assert (job.state, ending(job).code) == (JobState.FAILED, "node_lost")


def test_it_starts_again_only_when_its_nodes_are_clear(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    job = c.submit(1, 2, start=2, protection=DISK)  # on n01; n02 is idle all the time
    c.do(ev.JobEnded(job.id, 1, 9), vacate=False)
    assert (job.state, job.size, c.scheduler.state.idle) == (JobState.RESTARTING, 0, 2)
    assert codes(c, job) == ["restarting", "torn_down"]
    c.do(ev.ProcessorsVacated(job.id, (0,)))
    assert job.state is JobState.RESTARTING
    c.do(ev.ProcessorsVacated(job.id, (1,)))
    assert (job.state, job.instance) == (JobState.RUNNING, 2)


def test_an_exit_code_of_its_own_is_believed_once_its_nodes_have_spoken(
    cluster: MakeCluster,
) -> None:
    c = cluster(4, per_node=2)
    failed, unlucky = (c.submit(2, protection=DISK) for _ in range(2))
    for job in (failed, unlucky):
        c.do(ev.JobEnded(job.id, 1, 1), vacate=False)
        assert job.state is JobState.RESTARTING
    c.do(ev.ProcessorsVacated(failed.id))
    assert (failed.state, ending(failed).code) == (JobState.FAILED, "exit")
    c.do(ev.NodeLost("n02"))  # where the other one ran: that is what made its ranks give up
    assert (unlucky.state, unlucky.allocation) == (JobState.RUNNING, [0, 1])


def test_what_the_application_says_counts(cluster: MakeCluster) -> None:
    c = cluster(2)
    job = c.submit(2, protection=DISK)
    c.do(ev.JobGaveUp(job.id, 1, "no copy can be used"))
    c.end(job, 137)
    assert job.state is JobState.FAILED
    assert "no copy can be used" in ending(job).text


def test_an_exit_code_of_0_does_not_say_that_the_work_is_done(cluster: MakeCluster) -> None:
    c = cluster(2)
    job = c.submit(2, protection=DISK)
    c.point(job, 1.0)
    c.end(job)
    assert (job.state, job.instance) == (JobState.RUNNING, 2)
    assert "a rank was lost (exit code 0)" in job.decisions[-2].reason.text
    c.seq.clear()
    c.point(job, 1.0)
    c.do(ev.WorkDone(job.id, 1))  # of the first start, late
    c.do(ev.WorkDone(job.id, 2))
    c.end(job)
    assert state(job) is JobState.DONE


def test_a_late_word_of_a_start_that_is_over_is_none_of_the_next(cluster: MakeCluster) -> None:
    """It comes while the job waits to start again, and has the number of its last start still."""
    c = cluster(2, per_node=1, resize="none")
    job = c.submit(2, protection=DISK)
    c.do(ev.NodeLost("n02"))
    c.end(job, 255)
    assert (state(job), job.instance) == (JobState.QUEUED, 1)
    c.do(ev.WorkDone(job.id, 1))
    c.do(ev.NodeJoined("n02", 1))
    assert (job.instance, job.work_done) == (2, False)


def test_restarts_are_bounded(cluster: MakeCluster) -> None:
    c = cluster(2)
    job = c.submit(2, protection=Protection("disk", restarts=2))
    for _ in range(3):
        c.end(job, 9)
    assert (job.state, job.instance) == (JobState.FAILED, 3)
    assert "not restarted again after 2 restarts" in ending(job).text
    assert sum(isinstance(a, JobFinished) for a in c.log) == 1


def test_too_few_processors_left_for_its_smallest_size(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    job = c.submit(3, 4, start=4, protection=DISK)
    c.do(ev.NodeLost("n02"))
    c.end(job, 255)
    assert job.state is JobState.QUEUED
    assert codes(c, job) == ["too_small_left"]
    assert (
        "smallest size is 3, the nodes that are up have 2" in explain(c.scheduler, job, 0)[0].text
    )
    c.do(ev.NodeJoined("n02", 2))
    assert (job.state, job.size) == (JobState.RUNNING, 4)


@pytest.mark.parametrize("start", ["fcfs", "easy", "conservative", "reservations"])
def test_every_start_policy_takes_what_is_left(cluster: MakeCluster, start: str) -> None:
    c = cluster(4, per_node=2, start=start)
    job = c.submit(1, 2, 4, start=4, protection=DISK, estimate_s=100.0)
    c.do(ev.NodeLost("n02"))
    c.end(job, 255)
    assert (job.state, job.size) == (JobState.RUNNING, 2)


def test_back_in_its_place_in_the_queue(cluster: MakeCluster) -> None:
    c = cluster(2)
    job, later = c.submit(2, protection=DISK), c.submit(2)
    c.end(job, 9)
    assert c.started == [job.id, job.id]
    assert later.state is JobState.QUEUED


def test_a_kill_is_a_kill(cluster: MakeCluster) -> None:
    c = cluster(2)
    killed, settling = c.submit(1, protection=DISK), c.submit(1, protection=DISK)
    c.do(ev.KillRequested(killed.id, "ada"))
    c.do(ev.NodeLost("n01"))
    assert (killed.state, ending(killed).code) == (JobState.FAILED, "node_lost")
    c.do(ev.JobEnded(settling.id, 1, 9), vacate=False)
    c.do(ev.KillRequested(settling.id, "ada"))
    assert settling.state is JobState.KILLED
    c.do(ev.ProcessorsVacated(settling.id))
    assert settling.state is JobState.KILLED


def test_a_walltime_is_the_end(cluster: MakeCluster) -> None:
    c = cluster(1)
    job = c.submit(1, walltime_s=10.0, protection=DISK)
    c.now = 11.0
    c.do(ev.Tick())
    c.end(job, 143)
    assert (job.state, ending(job).code) == (JobState.FAILED, "walltime")


def test_a_resize_under_way_is_forgotten(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2, samples=1, discard=0)
    job = c.submit(2, 4, protection=DISK)
    assert c.point(job, 1.0, carry_out=False).what == "expand"
    c.end(job, 9)
    assert (job.state, job.size, job.resize, c.scheduler.state.idle) == (
        JobState.RUNNING,
        2,
        None,
        2,
    )
    c.seq.clear()
    c.done.clear()
    assert c.point(job, 1.0).what == "expand"
    assert job.size == 4


def test_a_launch_that_fails_is_the_end(cluster: MakeCluster) -> None:
    c = cluster(1)
    job = c.submit(1, protection=DISK)
    job.state = JobState.STARTING
    c.do(ev.JobEnded(job.id, 1, 127, "no such program"))
    assert (job.state, ending(job).code) == (JobState.FAILED, "launch_failed")


def test_lost_processes_are_not_the_end(cluster: MakeCluster) -> None:
    c = cluster(1)
    job = c.submit(1, protection=DISK)
    c.do(ev.JobEnded(job.id, 1, -9, "agent n01 has lost the job's processes"))
    assert (job.state, job.instance) == (JobState.RUNNING, 2)


def test_copies_and_what_they_cost(cluster: MakeCluster) -> None:
    c = cluster(2)
    job = c.submit(2, protection=DISK)
    c.do(ev.CopyMade(job.id, 1, 3, 0.5, 1 << 20))
    c.do(ev.CopyMade(job.id, 1, 6, 0.25, 1 << 20))
    c.do(ev.CopyMade(job.id, 1, 9, 0.25, 0, "disk full"))
    c.do(ev.CopyMade(job.id, 7, 9, 0.25, 0))  # of no start that there was
    assert (Copies.of(job).count, Copies.of(job).step, Copies.of(job).total_s) == (2, 6, 1.0)
    reasons = {r.code: r.text for r in explain(c.scheduler, job, 0)}
    assert "disk full" in reasons["unprotected"]
    assert "of iteration 6 the last: 0.25 s for 1 MiB, 1 s in total" in str(reasons)
    c.end(job, 9)
    assert "from the copy of iteration 6" in job.decisions[-2].reason.text


def test_no_hold_in_between(cluster: MakeCluster) -> None:
    c = cluster(1)
    job = c.submit(1, protection=DISK)
    c.do(ev.JobEnded(job.id, 1, 9), vacate=False)
    with pytest.raises(InvalidTransition, match="job 1 is restarting"):
        c.do(ev.HoldRequested(job.id))
    assert job.state is JobState.RESTARTING
    c.do(ev.ProcessorsVacated(job.id))


@pytest.mark.parametrize(
    ("code", "torn"),
    [(1, False), (2, False), (3, False), (5, False), (127, False), (9, True), (11, True),
     (15, True), (75, True), (137, True), (255, True), (-9, True)],
)  # fmt: skip
def test_exit_codes_that_mean_a_violent_end(code: int, torn: bool) -> None:
    assert torn_down(code) is torn


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (Protection("tape"), "unknown protection 'tape'; known: disk, partner"),
        (Protection("disk", every_points=0), "every 0 remap points"),
        (Protection("disk", every_s=0.0), "every 0.0 seconds"),
        (Protection("disk", folder="here"), "must be absolute"),
        (Protection("disk", restarts=-1), "-1 restarts"),
    ],
)
def test_a_senseless_protection_is_refused(cluster: MakeCluster, wrong: Any, says: str) -> None:
    with pytest.raises(InvalidSpec, match=says):
        cluster(1).submit(1, protection=wrong)


def test_copies_that_fail_and_succeed_again_are_told(cluster: MakeCluster) -> None:
    c = cluster(1)
    job = c.submit(1, protection=DISK)

    def copied(step: int, error: str = "") -> None:
        c.do(ev.CopyMade(job.id, job.instance, step, 0.5, 1 << 20, error))

    def told() -> list[str]:
        return [d.reason.code for d in job.decisions if d.what == "copy"]

    copied(1)
    assert ("protected" in codes(c, job), told()) == (True, [])
    copied(2, "no space left")
    copied(3, "no space left")
    reasons = explain(c.scheduler, job, c.now)
    assert [r.code for r in reasons][-2:] == ["protected", "unprotected"]
    assert "no space left" in reasons[-1].text
    assert told() == ["unprotected"]
    copied(4)
    assert told() == ["unprotected", "protected_again"]
    assert codes(c, job)[-1] == "protected"
    assert (Copies.of(job).count, Copies.of(job).step, Copies.of(job).total_s) == (2, 4, 2.0)


def test_the_last_settings_of_a_protection_that_make_sense(cluster: MakeCluster) -> None:
    for good in (
        Protection("disk", every_points=1),
        Protection("disk", every_s=0.5),
        Protection("partner", restarts=0),
    ):
        c = cluster(2, per_node=1)
        assert c.submit(1, protection=good).state is JobState.RUNNING


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (Protection("disk", budget=0.0), "more than 0"),
        (Protection("disk", budget=1.5), "at most 1"),
        (Protection("disk", every_points=3, budget=0.02), "either how often"),
    ],
)
def test_a_budget_for_copies_makes_sense(wanted: Protection, why: str) -> None:
    with pytest.raises(InvalidSpec, match=why):
        wanted.validate()
    Protection("disk", budget=0.02).validate()


def lost(cluster: MakeCluster, **spec: Any) -> tuple[Cluster, Job]:
    """A job whose only node seems to be lost: it waits to start again."""
    c = cluster(1)
    job = c.submit(1, protection=DISK, **spec)
    c.do(ev.NodeLost("n01"))
    assert (job.state, job.restarts) == (JobState.QUEUED, 1)
    return c, job


def test_a_start_that_ended_well_after_its_node_was_given_up_is_believed(
    cluster: MakeCluster,
) -> None:
    c, job = lost(cluster)
    c.do(ev.JobEnded(job.id, 1, 0))
    assert (state(job), job.exit_code, ending(job).code) == (JobState.DONE, 0, "exit")
    c.do(ev.NodeJoined("n01", 1))
    assert (state(job), job.instance) == (JobState.DONE, 1)


def test_it_is_believed_while_its_nodes_are_not_clear_yet(cluster: MakeCluster) -> None:
    c = cluster(3)
    job = c.submit(3, protection=DISK)
    c.do(ev.NodeLost("n01"), vacate=False)
    c.do(ev.ProcessorsVacated(job.id, (1,)), vacate=False)
    assert job.state is JobState.RESTARTING
    c.do(ev.JobEnded(job.id, 1, 0), vacate=False)
    assert state(job) is JobState.DONE
    c.do(ev.ProcessorsVacated(job.id, (2,)))
    assert c.scheduler.state.idle == 2


@pytest.mark.parametrize(
    "end", [(1, 9, ""), (1, 0, "a rank is missing"), (2, 0, ""), (0, 0, "")], ids=str
)
def test_no_other_word_on_a_start_that_was_given_up_counts(
    cluster: MakeCluster, end: tuple[int, int, str]
) -> None:
    c, job = lost(cluster)
    instance, code, error = end
    c.do(ev.JobEnded(job.id, instance, code, error))
    assert job.state is JobState.QUEUED


@pytest.mark.parametrize("done", [True, False])
def test_a_start_with_remap_points_is_believed_if_it_had_said_that_its_work_is_done(
    cluster: MakeCluster, done: bool
) -> None:
    c = cluster(1)
    job = c.submit(1, protection=DISK)
    c.point(job, 1.0)
    if done:
        c.do(ev.WorkDone(job.id, 1))
    c.do(ev.NodeLost("n01"))
    c.do(ev.JobEnded(job.id, 1, 0))
    assert job.state is (JobState.DONE if done else JobState.QUEUED)


def test_once_it_has_started_again_the_former_start_says_nothing(cluster: MakeCluster) -> None:
    c, job = lost(cluster)
    c.do(ev.NodeJoined("n01", 1))
    assert (job.state, job.instance) == (JobState.RUNNING, 2)
    c.do(ev.JobEnded(job.id, 1, 0))
    assert job.state is JobState.RUNNING


def start_dies(c: Cluster, code: int, **spec: Any) -> Job:
    """A job whose start ends with an error before anybody said that it runs."""
    spec = {"kind": "rigid", **spec}
    job = c.submit(1, hold=True, **spec)
    actions = c.scheduler.handle(ev.ReleaseRequested(job.id), c.now)
    assert job.state is JobState.STARTING, actions
    c.do(ev.JobEnded(job.id, 1, code, "why it ended"))
    return job


@pytest.mark.parametrize("spec", [{"protection": DISK}, {"retry": 1}], ids=["protected", "retry"])
def test_a_start_whose_keeper_was_killed_is_tried_again(
    cluster: MakeCluster, spec: dict[str, Any]
) -> None:
    job = start_dies(cluster(1), 143, **spec)
    assert (job.state, job.instance) == (JobState.RUNNING, 2)


@pytest.mark.parametrize("spec", [{"protection": DISK}, {"retry": 1}], ids=["protected", "retry"])
def test_what_cannot_be_started_is_not_tried_again(
    cluster: MakeCluster, spec: dict[str, Any]
) -> None:
    job = start_dies(cluster(1), 127, **spec)
    assert (job.state, ending(job).code) == (JobState.FAILED, "launch_failed")


def test_output_that_is_lost_stands_in_the_story_also_of_a_job_that_has_ended(
    cluster: MakeCluster,
) -> None:
    c = cluster(1)
    job = c.submit(1)
    c.do(ev.OutputLost(job.id, 1, "n01", 10, "out: No space left on device"))
    c.end(job)
    for lost_bytes in (10, 25, 25, 7):
        c.do(ev.OutputLost(job.id, 1, "n01", lost_bytes, "out: No space left on device"))
    told = [d.reason for d in job.decisions if d.what == "output"]
    assert [reason.figures["lost_bytes"] for reason in told] == [10, 25]
    assert "25 bytes of the output of its ranks on n01 are lost" in told[-1].text
    assert sum(LostOutput.of(job).lost.values()) == 25
    c.do(ev.OutputLost(99, 1, "n01", 10, "of a job that is forgotten"))


@pytest.mark.parametrize("spec", [{"protection": DISK}, {"retry": 1}], ids=["protected", "retry"])
def test_resizes_of_the_last_start_ask_for_no_word_of_the_next(
    cluster: MakeCluster, spec: dict[str, Any]
) -> None:
    """The next start may end before its first remap point: then it has nothing to say."""
    c = cluster(2, resize="none")
    job = c.submit(1, 2, **spec)
    c.do(ev.ResizeRequested(job.id, 2))
    c.point(job, 1.0)
    assert (job.size, job.resizes) == (2, 1)
    c.do(ev.JobEnded(job.id, 1, 143, "the keeper of its ranks on n01 was killed"))
    assert (job.state, job.instance) == (JobState.RUNNING, 2)
    c.end(job)
    assert state(job) is JobState.DONE
