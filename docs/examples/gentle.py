"""A policy of one's own: jobs share the cluster evenly, whatever their size does for their speed.

Nobody waits: a job at its remap point expands to the largest legal size that is at most its even
share of the cluster. Somebody waits: a job that holds more than its share shrinks towards it.

    dq sim run log.swf.gz --nodes 100 --malleable 0.6 --policy easy+gentle:EvenShare

Live, with this folder on the server's PYTHONPATH: `policy = "easy+gentle:EvenShare"` in [scheduler]
of $DQ_HOME/config.toml. `slack` is set in a table of its own:

    [scheduler.gentle]
    slack = 1
"""

from __future__ import annotations

from dataclasses import dataclass

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.decisions import Verdict
from dq_server.core.model.errors import ConfigError
from dq_server.core.model.jobs import Job, JobKind
from dq_server.core.model.options import Options
from dq_server.core.model.reasons import because, declare
from dq_server.core.model.sizes import largest_at_most
from dq_server.core.model.state import State
from dq_server.core.planning import INF, free
from dq_server.core.policies.base import ResizePolicy

declare(
    gentle_moves="{jobs} jobs share {capacity} processors: from {size} to {next_size}",
    gentle_stays="{jobs} jobs share {capacity} processors: {size} is this job's share",
)


@dataclass(frozen=True, slots=True)
class GentleOptions(Options):
    """slack  processors that a job may hold beyond its share before it gives any back"""

    table = "gentle"

    slack: int = 0

    def validate(self) -> None:
        """Options are checked when the configuration is read."""
        if self.slack < 0:
            raise ConfigError(f"[scheduler.gentle] slack = {self.slack}: 0 or more processors")


class EvenShare(ResizePolicy):
    """See the module's docstring."""

    def __init__(self, config: SchedulerConfig) -> None:
        self._slack = config.of(GentleOptions).slack

    def decide(self, state: State, job: Job, config: SchedulerConfig, now: float) -> Verdict:
        """What `job` shall do at its remap point."""
        waiting = state.head(now)
        sharers = [j for j in state.active.values() if j.spec.kind is JobKind.MALLEABLE]
        jobs, capacity = len(sharers) + len(state.queue), state.processors.capacity
        share = capacity // max(jobs, 1)
        figures = {"jobs": jobs, "capacity": capacity, "size": job.size}
        # Idle processors may be promised to somebody later than now: `free` knows.
        room = job.size if waiting else job.size + free(state, now, INF)
        target = largest_at_most(job.chain, min(share, room)) or job.chain[0]
        too_large = job.size > share + self._slack
        if target.size > job.size or (waiting and too_large and target.size < job.size):
            return Verdict(target, because("gentle_moves", next_size=target.size, **figures))
        return Verdict(None, because("gentle_stays", **figures))
