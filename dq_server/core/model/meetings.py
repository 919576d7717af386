"""[scheduler.meetings]: how many others a rank may have met (features/meetings.py)."""

from __future__ import annotations

from dataclasses import dataclass

from dq_server.core.model.errors import ConfigError
from dq_server.core.model.options import Options


@dataclass(frozen=True, slots=True)
class MeetingOptions(Options):
    """most  ranks that joined a job while one of its ranks ran; at 93 KiB each some 93 MB"""

    table = "meetings"

    most: int = 1000

    def validate(self) -> None:
        """See Options."""
        if self.most < 1:
            raise ConfigError(f"[scheduler.meetings] most = {self.most}: at least 1 rank")
