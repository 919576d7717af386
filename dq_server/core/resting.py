"""Remap points that a running job need not report, because they would be answered as the last one.

A job that is settled on its size (its sweet spot is found, no trial is under way, its times are the
usual ones) is told how many remap points it may pass in silence: it rests. Its own times may wake
it (resize_lib/silence.py), and so may a ring: after each change of jobs, queue and nodes `stirred`
names the jobs that may be answered otherwise now, and the server rings these.

How long it rests follows from how long it has been settled. What a verdict waits for by itself
(another look, a trial that is due, the share of the run that trials may take: model/tracking.py)
comes after as many remap points as were spent there, or twice as many. An eighth of these is
therefore a delay that no trial feels; and no rest is longer than REST_S.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from statistics import median

from dq_server.core.model import events as ev
from dq_server.core.model.jobs import Job, JobKind, JobState, Remap
from dq_server.core.model.tracking import TESTED_MIN
from dq_server.core.scheduler import Scheduler

REST_S = 30.0
SHARE = 8  # a settled job rests for an eighth of the remap points since it has been settled

# After these events only jobs that the policy names may get other answers; after others, all may.
QUEUE = (ev.RemapPoint, ev.JobSubmitted, ev.ArraySubmitted, ev.JobStarted, ev.JobEnded,
         ev.ProcessorsVacated, ev.ResizeCommitted, ev.ResizeAborted, ev.KillRequested,
         ev.HoldRequested, ev.ReleaseRequested, ev.WorkDone, ev.BackgroundLoad)  # fmt: skip
# After these no answer changes.
QUIET = (ev.RankReported, ev.CopyMade, ev.SessionOpened, ev.OutputLost)


@dataclass(frozen=True, slots=True)
class Rest:
    """Remap points that need no report (0: the next one does), and the usual iteration time (s)."""

    points: int = 0
    usual_s: float = 0.0


def rest_of(scheduler: Scheduler, job: Job, point_s: float) -> Rest:
    """How long a job rests that has just been answered; its remap points are `point_s` apart."""
    policies, config = scheduler.policies, scheduler.config
    answer, data = job.answer, job.performance
    if (
        answer is None
        or answer.what is not Remap.CONTINUE
        or job.state is not JobState.RUNNING
        or job.spec.kind is not JobKind.MALLEABLE
        or job.resize is not None
        or job.wanted is not None
        or job.settle
        or job.configuration not in data.known
        or (policies.resize.polls and not policies.resize.patient)
    ):
        return Rest()
    if config.searches and policies.resize.finds_spots:
        track = data.searched
        settled = track.found and track.trial is None and track.home == job.configuration
        settled = settled and len(track.reference) >= TESTED_MIN and track.is_quiet()
        since, times_s = track.turns - track.since, track.reference
    else:
        settled = data.measured(config.samples) and (data.came_from is None or data.judged)
        since, times_s = data.seen, data.window
    if not settled:
        return Rest()
    points = min(since // SHARE, int(REST_S / max(point_s, 1e-6)))
    return Rest(points, median(times_s)) if points else Rest()


def stirred(
    scheduler: Scheduler, jobs: Collection[int], event: ev.Event, now: float
) -> Iterable[int]:
    """Which of `jobs`, all of them resting, may be answered otherwise after this event."""
    if isinstance(event, QUIET):
        return ()
    state, policies = scheduler.state, scheduler.policies
    if not isinstance(event, QUEUE) or policies.shrink is not None:
        return jobs
    if not policies.resize.polls:
        return ()  # it calls whom it wants
    resting = [job for job in jobs if job in state.active]
    return policies.resize.stirred(state, resting, scheduler.config, now)
