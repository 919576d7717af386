"""Jobs that start again: from KILLING, STARTING or RUNNING through RESTARTING to QUEUED.

The resize library keeps a copy of a protected job's data at remap points (docs/protection.md). When
a node is lost, a rank is killed or MPI tears the job down, the job goes back into the queue and
starts again from its newest complete copy, on whatever is left.

A job with retries (`dq submit --retry N`) starts again when it has failed or lost a node, too: from
its newest copy if it is protected, else from its beginning. One that could not be started, ran out
of its walltime or was killed by somebody does not. `Job.retries` counts these, `Job.restarts` those
of protected jobs that were not the job's fault.

In RESTARTING nothing is decided yet. The job waits until the nodes have confirmed that no process
of its last start is left, because two starts must never run at once, and because only then it is
known what happened: when a node dies the launcher on another one notices at once and reports
whatever exit code comes of it, the missing heartbeats tell seconds later. Then the job goes back to
its place in the queue, or it fails with the reason why it is not restarted.

It may start on any legal size: it continues on the largest one up to its last that there is room
for (`Job.preferred`, model/jobs.py).

Resizes by restart (docs/mpi.md), from RUNNING to STARTING. Not every MPI can take ranks into a
running job, or let some leave. There the ranks write a copy of what is declared, say so
(RestartReady) and all end. When they have, the resize is committed and the job's next start begins
on the new processors, from the copy. The job never lets go of what it keeps, so nothing can come in
between, and it is the same job: iterations, sizes tried, walltime and requests of its user stay. If
anything fails before the new ranks have their data, the job starts again from the copy, on the size
that it had, whether it is protected or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dq_server.core.feature import Act, Change, Feature, What, handles
from dq_server.core.model import events as ev
from dq_server.core.model.actions import JobRestarts
from dq_server.core.model.decisions import Ending
from dq_server.core.model.errors import InvalidTransition, InvariantViolation
from dq_server.core.model.jobs import ACTIVE, AT_WORK, Job, JobKind, JobState
from dq_server.core.model.reasons import Reason, because, declare
from dq_server.core.model.records import Record
from dq_server.core.model.sizes import largest_at_most
from dq_server.core.model.spec import Protection, torn_down
from dq_server.core.model.state import State
from dq_server.core.transaction import (
    TRIES,
    Interruption,
    Succession,
    back_off,
    carried_out,
    end_guard,
    is_guarded,
    is_ready,
    is_whole,
    keep_guard,
    succeed,
    withdrawn,
)
from dq_server.core.turn import Turn

# Ends that were done to the job.
NOT_ITS_FAULT = frozenset({"node_lost", "drained", "processes_lost", "torn_down", "vanished"})
NOT_STARTED = 127  # the exit code of a job that an agent could not start, as of a shell
OFF_ITS_NODES = frozenset({"node_lost", "drained"})  # killed for what became of a node

declare(
    gave_up="the application gave up: {why}",
    restart="restart {restarts} of {limit} from the copy of iteration {step}: {why}",
    restart_afresh="restart {restarts} of {limit} from the beginning, no copy was made yet: {why}",
    restarts_used="not restarted again after {restarts} restarts: {why}",
    retry="retry {retries} of {limit}: {why}",
    back_from_copy="its resize failed ({why}), so it starts again on {size} processors from the"
    " copy made for that, try {tries}",
    copy_tries_used="not started from its copy again after {tries} tries: {why}",
    restarting="interrupted; it starts again once its nodes confirm that its processes are gone",
    protected="{count} copies in all, of iteration {step} the last: {last_s:.3g} s for {mib:.4g}"
    " MiB, {total_s:.3g} s in total",
    unprotected="no copy of its data can be made, the last one stays: {why}",
    protected_again="copies of its data are made again, the last of iteration {step}",
    resizes_by_restart="its MPI takes no ranks into a running job: a resize ends them all, and"
    " others start from a copy of the data",
    restart_cost="a resize ends all ranks and starts others; the last one took {cost_s:.3g} s",
)


@dataclass(slots=True)
class Copies(Record, key="Copies"):
    """Of a job: what the application reported of its copies."""

    count: int = 0
    step: int = 0  # turns of its loop in the newest one
    last_s: float = 0.0  # how long the newest one took
    total_s: float = 0.0
    nbytes: int = 0  # of the newest one
    error: str = ""  # why the latest attempt failed; empty: it did not


@dataclass(slots=True)
class Interrupted(Record, key="Interrupted"):
    """Of the state: jobs that are RESTARTING."""

    jobs: dict[int, Job] = field(default_factory=dict)


class Protecting(Feature):
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

    @handles(ev.ResizesByRestart)
    def by_restart(self, turn: Turn, event: ev.ResizesByRestart) -> None:
        """The program has started, under an MPI that takes no ranks in."""
        job = turn.state.job(event.job)
        if job.instance != event.instance or job.state not in ACTIVE:
            raise InvalidTransition(f"job {job.id} is {job.state}: this start of it is over")
        if not job.launching.restarts:
            job.launching = job.launching.by_restart
            job.note(turn.now, "mpi", because("resizes_by_restart"))

    @handles(ev.RestartReady)
    def ready(self, turn: Turn, event: ev.RestartReady) -> None:
        """The copy is complete; if this is accepted, all ranks end."""
        job, pending = turn.state.job(event.job), turn.state.job(event.job).resize
        under_way = pending is not None and pending.resize_id == event.resize_id
        if not job.works_in(event.instance) or not under_way:
            raise InvalidTransition(f"job {job.id} no longer has such a resize under way")
        reason = withdrawn(turn.state, job)
        if reason is not None:
            raise InvalidTransition(reason.text)
        if not job.launching.restarts:
            raise InvalidTransition(f"job {job.id} is not resized by restart")
        Succession.of(job).ready = event.resize_id

    def restart_of(self, turn: Turn, job: Job, ending: Ending) -> Act | None:
        """Its ranks have ended for a resize; or the start of a protected job, or of one with
        retries, is over before its end: it waits for its nodes, then it is decided.
        """
        if job.resize is not None and _ended_for_resize(job, ending):
            return partial(succeed, job, job.resize)
        guarded = is_guarded(job) and not (job.work_done and ending.exit_code == 0)
        if job.spec.protection is None and not guarded and not _may_retry(job):
            return None
        if job.state is JobState.KILLING:
            # Killed for a node alone: the first reason counts, `ending` may name a later one.
            killed_for = job.end_reason
            if killed_for is None or killed_for.code not in OFF_ITS_NODES or ending.reason is None:
                return None
            reason = ending.reason
        elif guarded or _interrupted(job, ending) or _failed(turn, job, ending):
            reason = _why(ending)
        else:
            return None
        if job.gave_up:
            reason = because("gave_up", why=job.gave_up)
        return partial(_interrupt, job, reason, guarded)

    def changed(self, turn: Turn, change: Change) -> None:
        match change.what:
            case What.VACATED:
                decide_if_clear(turn)
            case What.LOSING:
                self._lost(turn, change.node, change.reason)
            case What.CAPACITY:
                for job in turn.state.queue.values():  # on what could it start now?
                    if job.restarts or is_guarded(job):
                        _prefer(turn, job)

    def _lost(self, turn: Turn, node: str, reason: Reason | None) -> None:
        """Jobs that have not left the node yet were ended by its loss."""
        interrupted = Interrupted.of(turn.state).jobs
        if not interrupted:
            return
        pool = turn.state.processors
        leaving = {job for p, job in pool.vacating.items() if pool.node_of[p] == node}
        for job in interrupted.values():
            if job.id in leaving and not job.gave_up:
                job.end_reason = reason

    def usable(self, turn: Turn, job: Job, idle: Sequence[int]) -> Sequence[int] | None:
        """First where its last start was: its partners' copies are there."""
        protection, nodes = job.spec.protection, Interruption.of(job).nodes
        if protection is None or protection.how != "partner" or not nodes:
            return None
        node_of = turn.state.processors.node_of
        return sorted(idle, key=lambda p: node_of[p] not in nodes)

    def started(self, turn: Turn, job: Job) -> None:
        """What becomes of its last start does not matter any more."""
        _forget_interruption(job)

    def measured(self, turn: Turn, job: Job) -> None:
        """Who makes turns has its data, though the word of that got lost."""
        inherits = Succession.of(job).inherits
        if inherits:
            carried_out(turn, job, inherits)

    def ended(self, turn: Turn, job: Job) -> None:
        """It is not restarted any more, nor from the copy of a resize."""
        if is_guarded(job):
            end_guard(job)
        _forget_interruption(job)
        Interrupted.of(turn.state).jobs.pop(job.id, None)

    def explain(self, turn: Turn, job: Job) -> list[Reason]:
        """Why it is not in the queue yet; what its resizes and copies cost."""
        if job.state is JobState.RESTARTING:
            waits = because("restarting")
            return [waits, job.end_reason] if job.end_reason else [waits]
        if job.state not in ACTIVE:
            return []
        copies, reasons = Copies.of(job), list[Reason]()
        if job.launching.restarts:
            cost_s = Succession.of(job).cost_s
            costs = because("restart_cost", cost_s=cost_s)
            reasons.append(costs if cost_s else because("resizes_by_restart"))
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
        return {
            "resizes_by_restart": job.launching.restarts,
            "restarts": job.restarts,
            "protection": _shown(job, job.spec.protection),
            "retries": job.retries,
            "retries_max": job.spec.retry,
        }

    def check(self, state: State) -> None:
        interrupted = Interrupted.of(state).jobs
        for job in state.jobs.values():
            if (job.state is JobState.RESTARTING) != (job.id in interrupted):
                raise InvariantViolation(f"job {job.id} is {job.state}, `Interrupted` disagrees")
        for job in state.active.values():
            found = Succession.of(job)
            if found.inherits and found.former is None:
                raise InvariantViolation(f"job {job.id} begins from a copy made nowhere")


def _ended_for_resize(job: Job, ending: Ending) -> bool:
    """Whether the ranks have ended for a resize by restart, all of them well."""
    well = ending.exit_code == 0 and not ending.error and not job.work_done
    return well and is_ready(job) and job.state in AT_WORK


def _interrupt(job: Job, reason: Reason, guarded: bool, turn: Turn) -> None:
    """The job waits until its nodes are clear."""
    job.move(JobState.RESTARTING)
    job.end_reason = reason
    if guarded:
        keep_guard(job)
    else:
        _note_interruption(turn, job)
    Interrupted.of(turn.state).jobs[job.id] = job
    turn.stop(job)
    job.note(turn.now, "interrupted", reason)
    decide_if_clear(turn)


def decide_if_clear(turn: Turn) -> None:
    """Decide about the jobs whose nodes are clear."""
    interrupted = Interrupted.of(turn.state).jobs
    if not interrupted:
        return
    leaving = set(turn.state.processors.vacating.values())
    for job in list(interrupted.values()):
        if job.id not in leaving:
            _decide(turn, job)


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
    """Whether a protected job's end may be somebody else's fault, as that of a keeper in its start.

    One that came to remap points and ended well without a word (WorkDone) has lost a rank.
    """
    if job.spec.protection is None:
        return False
    if ending.exit_code == 0:
        return job.answer is not None and not job.work_done
    return not _could_not_start(job, ending)


def _note_interruption(turn: Turn, job: Job) -> None:
    """Where its ranks were, in case that they have ended well."""
    node_of, found = turn.state.processors.node_of, Interruption.of(job)
    found.instance = job.instance
    if node_of:
        ranks = (*job.allocation, *job.spawned)
        found.nodes = list(dict.fromkeys(node_of[p] for p in ranks))


def _forget_interruption(job: Job) -> None:
    found = Interruption.of(job)
    found.instance, found.nodes, found.whole = 0, [], True


def _could_not_start(job: Job, ending: Ending) -> bool:
    """Whether no rank ran because it cannot: another try would end alike."""
    never = bool(ending.error) and ending.exit_code == NOT_STARTED
    return never and job.state is JobState.STARTING


def _may_retry(job: Job) -> bool:
    return job.retries < job.spec.retry


def _failed(turn: Turn, job: Job, ending: Ending) -> bool:
    """Whether a job with retries left has failed while it ran."""
    if not _may_retry(job) or ending.exit_code is None:
        return False
    if ending.exit_code == 0 and not ending.error:  # lost in silence: features/lifecycle.py
        return turn.config.farewells and job.resizes > 0 and not job.work_done
    return not _could_not_start(job, ending)


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
    assert reason is not None
    if is_guarded(job):
        _back(turn, job, reason)
        return
    blameless = protection is not None and reason.code in NOT_ITS_FAULT
    if protection is not None and blameless and job.restarts < protection.restarts:
        job.restarts += 1
        limit, copies = protection.restarts, Copies.of(job)
        code = "restart" if copies.count else "restart_afresh"
        figures = {"restarts": job.restarts, "limit": limit, "step": copies.step}
        _requeue(turn, job, "restart", because(code, **figures, why=reason.text))
    elif _may_retry(job):
        job.retries += 1
        told = because("retry", retries=job.retries, limit=job.spec.retry, why=reason.text)
        _requeue(turn, job, "retry", told)
    elif blameless:
        told = because("restarts_used", restarts=job.restarts, why=reason.text)
        turn.finish(job, JobState.FAILED, told)
    else:
        turn.finish(job, JobState.FAILED, reason)


def _requeue(turn: Turn, job: Job, what: str, reason: Reason, *, tries: int | None = None) -> None:
    """`tries`: starts from the copy of a resize by restart that have failed; None: it has none."""
    job.move(JobState.QUEUED)
    if tries is None:
        Interruption.of(job).whole = is_whole(job)
        job.resizes = 0  # what says that its work was done is asked of the next start alone
    del Interrupted.of(turn.state).jobs[job.id]
    job.begin_again(reason)
    if tries is not None:
        back_off(job, tries)
    if tries is not None or job.spec.protection is not None:
        _prefer(turn, job)
    turn.enqueue(job)
    job.note(turn.now, what, reason)
    turn.actions.append(JobRestarts(job.id, job.instance, reason))


def _back(turn: Turn, job: Job, why: Reason) -> None:
    """A resize by restart has failed: back to the size that the job had, with the data it had."""
    found = Succession.of(job)
    if found.tries > TRIES:
        told = because("copy_tries_used", tries=found.tries, why=why.text)
        turn.finish(job, JobState.FAILED, told)
        return
    assert found.former is not None, "a copy was made somewhere"
    reason = because("back_from_copy", size=found.former.size, tries=found.tries, why=why.text)
    _requeue(turn, job, "restart", reason, tries=found.tries)


def _prefer(turn: Turn, job: Job) -> None:
    """Plan a restarted job on the largest size up to its last one that can ever fit."""
    last = Succession.of(job).former or job.configuration or job.spec.initial
    if job.spec.kind is JobKind.RIGID:
        return
    room = min(last.size, turn.capacity_max)
    job.start_on = largest_at_most(job.spec.configurations, room) or job.spec.configurations[0]
    turn.state.asks_anew(job)
