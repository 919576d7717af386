"""No resizing: every job keeps the size it started on."""

from __future__ import annotations

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import Job
from dq_server.core.model.reasons import because, declare
from dq_server.core.model.state import State
from dq_server.core.policies.base import ResizePolicy, Verdict

declare(
    resize_policy_none="resizing is switched off",
)


class NoResize(ResizePolicy):
    """Answers `continue` at every remap point."""

    polls = False
    expands = False

    def decide(
        self,
        state: State,
        job: Job,
        config: SchedulerConfig,
        now: float,
    ) -> Verdict:
        return Verdict(None, because("resize_policy_none"))
