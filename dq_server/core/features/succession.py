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
from functools import partial
from typing import Any

from dq_server.core.feature import Act, Feature, handles
from dq_server.core.model import events as ev
from dq_server.core.model.actions import JobRestarts, StartJob
from dq_server.core.model.decisions import Ending
from dq_server.core.model.errors import InvalidTransition, InvariantViolation
from dq_server.core.model.jobs import ACTIVE, Job, JobState, PendingResize
from dq_server.core.model.reasons import Reason, because, declare
from dq_server.core.model.state import State
from dq_server.core.model.succession import Succession, end_guard, is_guarded, is_ready
from dq_server.core.model.worlds import Worlds
from dq_server.core.restart_resize import carried_out
from dq_server.core.transaction import commit, withdrawn
from dq_server.core.turn import Turn

declare(
    resizes_by_restart="its MPI takes no ranks into a running job: a resize ends them all, and"
    " others start from a copy of the data",
    restart_cost="a resize ends all ranks and starts others; the last one took {cost_s:.3g} s",
    succession="from {size} to {next_size}: its ranks have ended, others start from the copy",
)


class Succeeding(Feature):
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
        reason = withdrawn(turn.state, job)
        if reason is not None:
            raise InvalidTransition(reason.text)
        if not job.launching.restarts:
            raise InvalidTransition(f"job {job.id} is not resized by restart")
        Succession.of(job).ready = event.resize_id

    def restart_of(self, turn: Turn, job: Job, ending: Ending) -> Act | None:
        """The ranks have ended for a resize, all of them well: start the others."""
        if not is_ready(job) or job.resize is None or ending.exit_code != 0 or ending.error:
            return None
        if job.state not in (JobState.STARTING, JobState.RUNNING) or job.work_done:
            return None
        return partial(_succeed, job, job.resize)

    def measured(self, turn: Turn, job: Job) -> None:
        """Who makes turns has its data, though the word of that got lost."""
        inherits = Succession.of(job).inherits
        if inherits:
            carried_out(turn, job, inherits)

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
        return {"resizes_by_restart": job.launching.restarts}

    def check(self, state: State) -> None:
        for job in state.active.values():
            found = Succession.of(job)
            if found.inherits and found.former is None:
                raise InvariantViolation(f"job {job.id} begins from a copy made nowhere")


def _succeed(job: Job, pending: PendingResize, turn: Turn) -> None:
    """Commit the resize and start the job on its new processors."""
    if job.state is JobState.STARTING:  # the end was faster than the start signal
        job.move(JobState.RUNNING)
    before, over, found = job.configuration, job.instance, Succession.of(job)
    assert before is not None, "it has run"
    commit(turn, job, pending, turn.now - pending.granted_s)  # so far
    found.ready, found.inherits, found.tries = 0, pending.resize_id, 0
    found.former, found.granted_s = before, pending.granted_s
    for feature in turn.features[Feature.stopped]:
        feature.stopped(turn, job, goes_on=True)
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
