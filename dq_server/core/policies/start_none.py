"""Nobody starts: the cluster is going down, or an administrator has closed it."""

from __future__ import annotations

from collections.abc import Iterable

from dq_server.core.config import SchedulerConfig
from dq_server.core.jobs import Job
from dq_server.core.policies.base import Start
from dq_server.core.state import State


class NoStart:
    """Chooses no job; what is queued stays queued."""

    promised = None

    def choose(
        self,
        state: State,  # noqa: ARG002
        queue: Iterable[Job],  # noqa: ARG002
        config: SchedulerConfig,  # noqa: ARG002
        now: float,  # noqa: ARG002
    ) -> list[Start]:
        """See StartPolicy."""
        return []
