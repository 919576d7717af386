"""Resizes by restart: from RUNNING to STARTING, on the new size (docs/mpi.md).

Not every MPI can take ranks into a running job, or let some leave. There a resize is granted as any
other; then the ranks write a copy of what is declared, say so (RestartReady) and all end. When they
have, the resize is committed and the job's next start begins on the new processors, from the copy.
The job never lets go of what it keeps, so nothing can come in between.

It is the same job: iterations, sizes tried, walltime and requests of its user stay. If anything
fails before the new ranks have their data, the job starts again from the copy, on the size that it
had (features/protection.py), whether it is protected or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dq_server.core.feature import Feature, handles
from dq_server.core.model import events as ev
from dq_server.core.model.actions import JobRestarts, StartJob
from dq_server.core.model.decisions import Ending
from dq_server.core.model.errors import InvalidTransition, InvariantViolation
from dq_server.core.model.jobs import ACTIVE, Job, JobState, PendingResize
from dq_server.core.model.reasons import Reason, because, declare
from dq_server.core.model.state import State
from dq_server.core.model.succession import Succession, end_guard, is_guarded, is_ready
from dq_server.core.model.worlds import Worlds
from dq_server.core.transaction import commit
from dq_server.core.turn import Turn

declare(
    resizes_by_restart="its MPI takes no ranks into a running job: a resize ends them all, and"
    " others start from a copy of the data",
    restart_cost="a resize ends all ranks and starts others; the last one took {cost_s:.3g} s",
    succession="from {size} to {next_size}: its ranks have ended, others start from the copy",
    succession_undone="on {size} processors again, with its data, in try {tries}",
    succession_done="from {size} to {next_size}: the new ranks have the data, {cost_s:.3g} s after"
    " the resize was granted",
)


class Succeeding(Feature):
    """See the module's docstring."""

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
        running = job.instance == event.instance and job.state in (
            JobState.STARTING,
            JobState.RUNNING,
        )
        if not running or pending is None or pending.resize_id != event.resize_id:
            raise InvalidTransition(f"job {job.id} has no such resize under way any more")
        for feature in turn.features["withdrawn_resize"]:
            reason = feature.withdrawn_resize(turn, job)
            if reason is not None:
                raise InvalidTransition(reason.text)
        if not job.launching.restarts:
            raise InvalidTransition(f"job {job.id} is not resized by restart")
        Succession.of(job).ready = event.resize_id

    def restarts(self, turn: Turn, job: Job, ending: Ending) -> bool:
        """Whether the ranks have ended for a resize, all of them well: start the others."""
        if not is_ready(job) or job.resize is None or ending.exit_code != 0 or ending.error:
            return False
        if job.state is JobState.STARTING:  # the end was faster than the start signal
            job.move(JobState.RUNNING)
        if job.state is not JobState.RUNNING or job.work_done:
            return False
        _succeed(turn, job, job.resize)
        return True

    def carried_out(self, turn: Turn, job: Job, resize_id: int) -> None:
        """The new ranks have their data."""
        found = Succession.of(job)
        if not found.inherits or found.inherits != resize_id:
            return
        former, current = found.former, job.configuration
        if found.tries:
            reason = because("succession_undone", size=job.size, tries=found.tries)
            job.note(turn.now, "restarted", reason)
        elif former is not None and current is not None:
            cost_s = found.cost_s = turn.now - found.granted_s
            job.performance.redistribution[f"{former}>{current}"] = cost_s
            job.stays[-1].redistribution_time_s = cost_s
            figures = {"size": former.size, "next_size": current.size}
            reason = because("succession_done", cost_s=cost_s, **figures)
            job.note(turn.now, "restarted", reason)
        end_guard(job)

    def measured(self, turn: Turn, job: Job) -> None:
        """Who makes turns has its data, though the word of that got lost."""
        inherits = Succession.of(job).inherits
        if inherits:
            self.carried_out(turn, job, inherits)

    def ended(self, turn: Turn, job: Job) -> None:
        """Nothing starts from the copy any more."""
        if is_guarded(job):
            end_guard(job)

    def explain(self, turn: Turn, job: Job) -> list[Reason]:
        """What a resize costs."""
        cost_s = Succession.of(job).cost_s
        if job.state not in ACTIVE or not job.launching.restarts:
            return []
        if not cost_s:
            return [because("resizes_by_restart")]
        return [because("restart_cost", cost_s=cost_s)]

    def view(self, state: State, job: Job) -> Mapping[str, Any]:
        """See Feature."""
        return {"resizes_by_restart": job.launching.restarts}

    def check(self, state: State) -> None:
        """See Feature."""
        for job in state.active.values():
            found = Succession.of(job)
            if found.inherits and found.former is None:
                raise InvariantViolation(f"job {job.id} begins from a copy made nowhere")


def _succeed(turn: Turn, job: Job, pending: PendingResize) -> None:
    """Commit the resize and start the job on its new processors."""
    before, over, found = job.configuration, job.instance, Succession.of(job)
    assert before is not None, "it has run"
    commit(turn, job, pending, turn.now - pending.granted_s)  # so far
    found.ready, found.inherits, found.tries = 0, pending.resize_id, 0
    found.former, found.granted_s = before, pending.granted_s
    for feature in turn.features["succeeded"]:
        feature.succeeded(turn, job)
    Worlds.of(job).clear()
    job.move(JobState.STARTING)
    job.instance = max(job.instance + 1, turn.state.next_instance)
    job.first_processor = job.allocation[0]
    job.next_start()
    reason = because("succession", size=before.size, next_size=pending.target.size)
    job.note(turn.now, "start", reason)
    turn.actions.append(JobRestarts(job.id, over, reason))
    turn.actions.append(
        StartJob(job.id, job.instance, tuple(job.allocation), pending.target, reason)
    )
