"""What features and policies decide; the scheduler carries it out."""

from __future__ import annotations

from dataclasses import dataclass

from dq_server.core.model.jobs import Job
from dq_server.core.model.launching import Launching
from dq_server.core.model.reasons import Reason
from dq_server.core.model.sizes import Configuration
from dq_server.core.model.tracking import Finding


@dataclass(frozen=True, slots=True)
class Start:
    """Start this queued job now, on this configuration.

    `processors`: where its ranks run already (features/lifecycle.py), idle until now; empty: any
    will do. `launching`: None stands for the configured one.
    """

    job: Job
    configuration: Configuration
    reason: Reason
    processors: tuple[int, ...] = ()
    launching: Launching | None = None


@dataclass(frozen=True, slots=True)
class KeptGrid:
    """All grids of a size were tried: this one is used there from now on."""

    grid: Configuration
    reason: Reason


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a job shall do at its remap point; without a target it continues as it is.

    `processors`: which ones come (already reserved for the job) or leave; empty: any will do.
    """

    target: Configuration | None
    reason: Reason
    processors: tuple[int, ...] = ()
    sweet_spot: Configuration | None = None  # it was found, and `worse` did not pay
    worse: Configuration | None = None
    judged: bool = False  # the last expansion was looked at and paid
    kept: KeptGrid | None = None
    finding: Finding | None = None  # of verdicts that age (model/tracking.py)


@dataclass(frozen=True, slots=True)
class Grant:
    """Whether a dynamic request gets its processors, and why."""

    allowed: bool
    reason: Reason


@dataclass(frozen=True, slots=True)
class Ending:
    """How a start of a job has ended, before it is decided what becomes of the job.

    reason     why it was killed; None: it was not
    exit_code  of the application; None: nobody could report one
    error      why it could not be started or how its processes were lost; empty: neither
    """

    reason: Reason | None
    exit_code: int | None = None
    error: str = ""
