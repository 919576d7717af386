"""What a policy is: one small class per file, one question each.

A policy reads the state and never changes it; it has no clock and no random numbers. Policies
are chosen by name (registry.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from dq_server.core.config import SchedulerConfig
from dq_server.core.fairness import Delay
from dq_server.core.jobs import Job
from dq_server.core.reasons import Reason
from dq_server.core.sizes import Configuration
from dq_server.core.state import State


@dataclass(frozen=True, slots=True)
class Start:
    """Start this queued job now, on this configuration."""

    job: Job
    configuration: Configuration
    reason: Reason


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


@dataclass(frozen=True, slots=True)
class Grant:
    """Whether a dynamic request gets its processors, and why."""

    allowed: bool
    reason: Reason


class QueueOrder(Protocol):
    """In which order do queued jobs stand?

    `charges`: it wants `State.usage` to be kept.
    """

    charges: bool

    def ordered(self, state: State, now: float) -> Iterable[Job]:
        """The queued jobs, first in line first."""


class StartPolicy(Protocol):
    """Who starts now?

    `promised`: a policy that makes promises leaves them here after `choose`, and the scheduler
    keeps them as State.promised, because what must outlive the policy is state. Such a policy is
    asked even when nothing is idle. None: it makes none.
    """

    @property
    def promised(self) -> dict[int, float] | None:
        """See the class."""

    def choose(
        self, state: State, queue: Iterable[Job], config: SchedulerConfig, now: float
    ) -> list[Start]:
        """Jobs to start now; together they need no more than the idle processors."""


class ResizePolicy(Protocol):
    """Who is resized?

    `polls`: it waits for jobs to come to their remap points by themselves, so each one counts;
    else it calls whom it wants (`calls`) and answers all others `continue`.
    """

    polls: bool

    def decide(self, state: State, job: Job, config: SchedulerConfig, now: float) -> Verdict:
        """What `job`, which is at a remap point and has no resize pending, shall do."""

    def calls(self, state: State, config: SchedulerConfig, now: float) -> Iterable[Job]:
        """Running jobs that should come to a remap point soon, because `decide` would resize them.

        Asked after every scheduling pass. A policy that waits for the jobs to come by themselves
        calls nobody.
        """


class GrantPolicy(Protocol):
    """Is a dynamic request granted?"""

    @property
    def measures(self) -> bool:
        """Whether `decide` wants to know the delays."""

    @property
    def may_change(self) -> bool:
        """Whether a request that is refused now may be granted later, so that it pays to wait."""

    def decide(
        self,
        state: State,
        job: Job,
        more: int,
        delays: Sequence[Delay],
        config: SchedulerConfig,
        now: float,
    ) -> Grant:
        """May `job` have `more` of the idle processors? `delays`: of waiting jobs, if measured."""
