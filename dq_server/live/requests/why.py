"""Why a job is where it is: as the scheduler says, and troubles of disks that it is not told."""

from __future__ import annotations

from typing import Any

from dq_server.core.model.jobs import Job
from dq_server.live.context import Desk
from dq_server.live.requests.disk_troubles import troubles_of
from dq_server.live.views import tables


def why(desk: Desk, job: Job, after_s: float = 0.0) -> dict[str, Any]:
    """The answer to WhyQuery; its story begins after a time."""
    view = tables.why_view(desk.scheduler, job, desk.now(), after_s)
    troubles = troubles_of(desk, job)
    if desk.stall:
        troubles.insert(0, ("stalled", desk.stall.text))
    view["now"][:0] = [{"code": code, "text": text, "figures": {}} for code, text in troubles]
    return view


def whole(desk: Desk, job: Job, after_s: float) -> dict[str, Any]:
    """A job as JobQuery and WhyQuery answer it; its story begins after a time."""
    told = why(desk, job, after_s)
    return {
        **tables.job_view(job, desk.state, desk.feed.usage),
        "now": told["now"],
        "story": told["story"],
    }
