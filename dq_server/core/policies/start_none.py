"""Nobody starts: the cluster is going down, or an administrator has closed it."""

from __future__ import annotations

from collections.abc import Iterable

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import Job
from dq_server.core.model.state import State
from dq_server.core.policies.base import Start, StartPolicy


class NoStart(StartPolicy):
    """Chooses no job; what is queued stays queued."""

    def choose(
        self,
        state: State,
        queue: Iterable[Job],
        config: SchedulerConfig,
        now: float,
    ) -> list[Start]:
        return []
