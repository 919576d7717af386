"""Sets of job states that several views need."""

from __future__ import annotations

ENDED = ("done", "failed", "killed")
NOT_STARTED = ("held", "waiting", "queued", "restarting")
