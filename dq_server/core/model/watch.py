"""[watch]: how long a rank may be missing, and what is done then (features/watch.py)."""

from __future__ import annotations

from dataclasses import dataclass

from dq_server.core.model.errors import ConfigError, InvalidTransition
from dq_server.core.model.jobs import Job
from dq_server.core.model.options import Options
from dq_server.core.model.spec import WATCH_ACTIONS

# A program that resizes opens its session right after its imports.
OPENS_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class WatchOptions(Options):
    """What is noticed, and what is done.

    limit_s  seconds beyond the longest iteration that a rank may be late at a remap point or in a
             resize; also how long joining ranks may take to reach the loop
    action   "warn" reports it (dq why); "abort" gives up the resize whose ranks do not come, and
             reports the rest; "kill" ends the job
    """

    table = "watch"

    limit_s: float = 60.0
    action: str = "abort"

    def validate(self) -> None:
        if not self.limit_s > 0:
            raise ConfigError(f"[watch] limit_s = {self.limit_s}: above 0 seconds")
        if self.action not in WATCH_ACTIONS:
            raise ConfigError(f"[watch] action = {self.action!r}: {', '.join(WATCH_ACTIONS)}")


def has_no_session(job: Job, now: float) -> bool:
    """Whether the job's program should have opened a session by now, and has opened none."""
    if job.answer is not None or job.start_s is None or job.opened_s is not None:
        return False
    return now - max(job.start_s, job.stays[-1].since_s if job.stays else 0.0) > OPENS_WITHIN_S


def check_reachable(job: Job, now: float, limit_s: float) -> None:
    """InvalidTransition if the job's program comes to no remap point, as far as one can know."""
    if job.answer is not None or job.start_s is None:
        return
    began_s = max(job.start_s, job.stays[-1].since_s if job.stays else 0.0)
    ran_s = now - began_s
    if has_no_session(job, now):
        raise InvalidTransition(
            f"job {job.id} cannot be resized: in the {ran_s:.0f} s since it started its program has"
            " opened no session of resize_lib"
        )
    if job.opened_s is not None and now - job.opened_s > limit_s:
        raise InvalidTransition(
            f"job {job.id} cannot be resized: in the {ran_s:.0f} s since it started it has come to"
            f" no remap point (dq why {job.id})"
        )
