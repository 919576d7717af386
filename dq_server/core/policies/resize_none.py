"""No resizing: every job keeps the size it started on."""

from __future__ import annotations

from dq_server.core.config import SchedulerConfig
from dq_server.core.jobs import Job
from dq_server.core.policies.base import Verdict
from dq_server.core.reasons import because
from dq_server.core.state import State


class NoResize:
    """Answers `continue` at every remap point."""

    polls = False

    def decide(
        self,
        state: State,  # noqa: ARG002
        job: Job,  # noqa: ARG002
        config: SchedulerConfig,  # noqa: ARG002
        now: float,  # noqa: ARG002
    ) -> Verdict:
        """See ResizePolicy."""
        return Verdict(None, because("resize_policy_none"))

    def calls(
        self,
        state: State,  # noqa: ARG002
        config: SchedulerConfig,  # noqa: ARG002
        now: float,  # noqa: ARG002
    ) -> tuple[Job, ...]:
        """See ResizePolicy: nobody."""
        return ()
