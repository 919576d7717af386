"""No resizing: every job keeps the size it started on."""

from __future__ import annotations

from typing import Any

from dq_server.core.model.reasons import because, declare
from dq_server.core.policies.base import ResizePolicy, Verdict

declare(resize_policy_none="resizing is switched off")


class NoResize(ResizePolicy):
    """Answers `continue` at every remap point."""

    polls = False
    expands = False

    def decide(self, *_: Any) -> Verdict:
        return Verdict(None, because("resize_policy_none"))
