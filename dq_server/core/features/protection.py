"""A protected job starts again: from KILLING, STARTING or RUNNING through RESTARTING to QUEUED.

The resize library keeps a copy of a protected job's data at remap points (docs/protection.md). When
a node is lost, a rank is killed or MPI tears the job down, the job goes back into the queue and
starts again from its newest complete copy, on whatever is left.

In RESTARTING nothing is decided yet. The job waits until the nodes have confirmed that no process
of its last start is left, because two starts must never run at once, and because only then it is
known what happened: when a node dies the launcher on another one notices at once and reports
whatever exit code comes of it, the missing heartbeats tell seconds later. Then the job goes back to
its place in the queue, or it fails with the reason why it is not restarted.

It may start on any legal size: it continues on the largest one up to its last that there is room
for (`Job.preferred`, model/fitting.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dq_server.core.feature import Feature, handles
from dq_server.core.model import events as ev
from dq_server.core.model.actions import JobRestarts
from dq_server.core.model.decisions import Ending
from dq_server.core.model.errors import InvariantViolation
from dq_server.core.model.jobs import ACTIVE, Job, JobKind, JobState
from dq_server.core.model.protection import Protection, torn_down
from dq_server.core.model.reasons import Reason, because, declare
from dq_server.core.model.records import Record
from dq_server.core.model.sizes import largest_at_most
from dq_server.core.model.state import State
from dq_server.core.turn import Turn

# Ends that were done to the job.
NOT_ITS_FAULT = frozenset({"node_lost", "drained", "processes_lost", "torn_down", "vanished"})
OFF_ITS_NODES = frozenset({"node_lost", "drained"})  # killed for what became of a node

declare(
    gave_up="the application gave up: {why}",
    restart="restart {restarts} of {limit} from the copy of turn {step}: {why}",
    restart_afresh="restart {restarts} of {limit} from the beginning, no copy was made yet: {why}",
    restarts_used="not restarted again after {restarts} restarts: {why}",
    restarting="interrupted: it starts again once its nodes confirm that nothing of it is left",
    protected="{count} copies in all, of turn {step} the last: {last_s:.3g} s for {mib:.4g} MiB,"
    " {total_s:.3g} s in total",
    unprotected="no copy of its data can be made, the last one stays: {why}",
    protected_again="copies of its data are made again, the last of turn {step}",
)


@dataclass(slots=True)
class Copies(Record):
    """Of a job: what the application reported of its copies."""

    count: int = 0
    step: int = 0  # turns of its loop in the newest one
    last_s: float = 0.0  # how long the newest one took
    total_s: float = 0.0
    nbytes: int = 0  # of the newest one
    error: str = ""  # why the latest attempt failed; empty: it did not


@dataclass(slots=True)
class Interrupted(Record):
    """Of the state: jobs that are RESTARTING."""

    jobs: dict[int, Job] = field(default_factory=dict)


class Protecting(Feature):
    """See the module's docstring."""

    @handles(ev.CopyMade)
    def copy_made(self, turn: Turn, event: ev.CopyMade) -> None:
        """The application reports a copy; a failed one leaves the figures of the last good one."""
        job = turn.state.job(event.job)
        copies = Copies.of(job)
        if job.instance != event.instance or job.id not in turn.state.active:
            return
        if event.error != copies.error:
            what = "unprotected" if event.error else "protected_again"
            job.note(turn.now, "copy", because(what, why=event.error, step=event.step))
        copies.error = event.error
        copies.total_s += event.took_s
        if not event.error:
            copies.count += 1
            copies.step, copies.last_s, copies.nbytes = event.step, event.took_s, event.nbytes

    def restarts(self, turn: Turn, job: Job, ending: Ending) -> bool:
        """Whether the job is protected and its start is over, but not by its own end.

        If so it waits for its nodes; then it is decided.
        """
        if job.spec.protection is None:
            return False
        if job.state is JobState.KILLING:
            # Killed for a node alone: the first reason counts, `ending` may name a later one.
            killed_for = job.end_reason
            if killed_for is None or killed_for.code not in OFF_ITS_NODES or ending.reason is None:
                return False
            reason = ending.reason
        elif _interrupted(job, ending):
            reason = _why(ending)
        else:
            return False
        job.move(JobState.RESTARTING)
        if job.gave_up:
            reason = because("gave_up", why=job.gave_up)
        job.end_reason = reason
        Interrupted.of(turn.state).jobs[job.id] = job
        turn.stop(job)
        job.note(turn.now, "interrupted", reason)
        self.vacated(turn)
        return True

    def vacated(self, turn: Turn) -> None:
        """Decide about the jobs whose nodes are clear."""
        interrupted = Interrupted.of(turn.state).jobs
        if not interrupted:
            return
        leaving = set(turn.state.processors.vacating.values())
        for job in list(interrupted.values()):
            if job.id not in leaving:
                _decide(turn, job)

    def losing(self, turn: Turn, node: str, reason: Reason) -> None:
        """Jobs that have not left the node yet were ended by its loss."""
        interrupted = Interrupted.of(turn.state).jobs
        if not interrupted:
            return
        pool = turn.state.processors
        leaving = {job for p, job in pool.vacating.items() if pool.node_of[p] == node}
        for job in interrupted.values():
            if job.id in leaving and not job.gave_up:
                job.end_reason = reason

    def capacity_changed(self, turn: Turn) -> None:
        """Look again at the restarted jobs that wait: on what could they start now?"""
        for job in turn.state.queue.values():
            if job.restarts:
                _prefer(turn, job)

    def ended(self, turn: Turn, job: Job) -> None:
        """It is not restarted any more."""
        if job.spec.protection is not None:
            Interrupted.of(turn.state).jobs.pop(job.id, None)

    def explain(self, turn: Turn, job: Job) -> list[Reason]:
        """Why it is not in the queue yet; what its copies cost, and whether one can be made."""
        if job.state is JobState.RESTARTING:
            waits = because("restarting")
            return [waits, job.end_reason] if job.end_reason else [waits]
        if job.state not in ACTIVE:
            return []
        copies, reasons = Copies.of(job), []
        if copies.count:
            mib = copies.nbytes / (1 << 20)
            figures = {"count": copies.count, "step": copies.step, "mib": mib}
            reasons.append(
                because("protected", last_s=copies.last_s, total_s=copies.total_s, **figures)
            )
        if copies.error:
            reasons.append(because("unprotected", why=copies.error))
        return reasons

    def view(self, state: State, job: Job) -> Mapping[str, Any]:
        """See Feature."""
        return {"restarts": job.restarts, "protection": _shown(job, job.spec.protection)}

    def check(self, state: State) -> None:
        """See Feature."""
        interrupted = Interrupted.of(state).jobs
        for job in state.jobs.values():
            if (job.state is JobState.RESTARTING) != (job.id in interrupted):
                raise InvariantViolation(f"job {job.id} is {job.state}, `Interrupted` disagrees")


def _shown(job: Job, wanted: Protection | None) -> dict[str, Any] | None:
    """How a job is protected and what its copies have cost; None if it is not."""
    if wanted is None:
        return None
    copies = Copies.of(job)
    return {
        "how": wanted.how,
        "restarts_max": wanted.restarts,
        "copies": copies.count,
        "step": copies.step if copies.count else None,
        "copy_s": copies.last_s,
        "copies_total_s": copies.total_s,
        "bytes": copies.nbytes,
        "error": copies.error or None,
    }


def _interrupted(job: Job, ending: Ending) -> bool:
    """Whether a protected job's end may be somebody else's fault; one never launched just fails.

    One that came to remap points and ended well without a word (WorkDone) has lost a rank.
    """
    if ending.exit_code == 0:
        return job.answer is not None and not job.work_done
    return not (ending.error and job.state is JobState.STARTING)


def _why(ending: Ending) -> Reason:
    assert ending.exit_code is not None, "it was not killed, so somebody reports how it ended"
    if ending.error:
        return because("processes_lost", why=ending.error)
    code = "vanished" if ending.exit_code == 0 else "exit"
    if torn_down(ending.exit_code):
        code = "torn_down"
    return because(code, exit_code=ending.exit_code)


def _decide(turn: Turn, job: Job) -> None:
    protection, reason = job.spec.protection, job.end_reason
    assert protection is not None, "only protected jobs are interrupted"
    assert reason is not None
    if reason.code not in NOT_ITS_FAULT:
        turn.finish(job, JobState.FAILED, reason)
    elif job.restarts >= protection.restarts:
        told = because("restarts_used", restarts=job.restarts, why=reason.text)
        turn.finish(job, JobState.FAILED, told)
    else:
        _requeue(turn, job, reason, protection)


def _requeue(turn: Turn, job: Job, why: Reason, protection: Protection) -> None:
    job.move(JobState.QUEUED)
    del Interrupted.of(turn.state).jobs[job.id]
    job.restarts += 1
    limit, copies = protection.restarts, Copies.of(job)
    code = "restart" if copies.count else "restart_afresh"
    reason = because(code, restarts=job.restarts, limit=limit, step=copies.step, why=why.text)
    job.begin_again(reason)
    _prefer(turn, job)
    turn.enqueue(job)
    job.note(turn.now, "restart", reason)
    turn.actions.append(JobRestarts(job.id, job.instance, reason))


def _prefer(turn: Turn, job: Job) -> None:
    """Plan a restarted job on the largest size up to its last one that can ever fit."""
    last = job.configuration or job.spec.initial
    if job.spec.kind is JobKind.RIGID:
        return
    room = min(last.size, turn.capacity_max)
    job.start_on = largest_at_most(job.spec.configurations, room) or job.spec.configurations[0]
