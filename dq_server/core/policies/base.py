"""What a policy is: one small class per file, one question each.

A policy reads the state and never changes it; it has no clock and no random numbers: the same
events lead to the same decisions, live, simulated and replayed. Five questions, five base classes:

    QueueOrder    in which order do queued jobs stand?
    StartPolicy   who starts now?
    ResizePolicy  what does a job do at its remap point?
    ShrinkPolicy  who gives way, and how much, when somebody waits? (else the resize policy says)
    GrantPolicy   is a dynamic request granted?

A policy is made with the configuration (`__init__(config)`) when that is read, and asked with it
again at each decision; its own options are a class derived from `Options` in its file. A user's
policy derives from one of these classes and is named `package.module:Class` (registry.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.decisions import Grant, KeptGrid, Start, Verdict
from dq_server.core.model.jobs import Job, smallest_start
from dq_server.core.model.points import resizable
from dq_server.core.model.quota_use import Bound, bound
from dq_server.core.model.reasons import Reason, because, declare
from dq_server.core.model.requests import Delay
from dq_server.core.model.sizes import Configuration
from dq_server.core.model.state import State
from dq_server.core.planning import available

__all__ = ["GiveWay", "Grant", "GrantPolicy", "KeptGrid", "Offer", "Policies", "QueueOrder",
           "ResizePolicy", "ShrinkPolicy", "Start", "StartPolicy", "Verdict"]  # fmt: skip


declare(resize_policy_none="resizing is switched off")


class Policy:
    """Base of all policies."""

    def __init__(self, config: SchedulerConfig) -> None:
        """Take what is needed of the configuration; ConfigError if it makes no sense."""


class QueueOrder(Policy):
    """In which order do queued jobs stand?"""

    charges = False  # it wants `State.usage` to be kept
    half_life_s = 1.0  # of that usage

    def ordered(self, state: State, now: float) -> Iterable[Job]:
        """The queued jobs, first in line first."""
        raise NotImplementedError


class StartPolicy(Policy):
    """Who starts now?"""

    promised: dict[int, float] | None = None
    """A policy that makes promises leaves them here after `choose` (job -> start s), and the
    scheduler keeps them as `State.promised`, because what must outlive the policy is state. Such a
    policy is asked even when nothing is idle. None: it makes none."""

    def choose(
        self, state: State, queue: Iterable[Job], config: SchedulerConfig, now: float
    ) -> list[Start]:
        """Jobs to start now; together they need no more than the idle processors."""
        raise NotImplementedError


class ResizePolicy(Policy):
    """Who is resized?"""

    polls = True
    """It waits for jobs to come to their remap points by themselves, so each one counts. If not, it
    calls whom it wants (`calls`) and answers all others `continue`."""
    patient = False
    """What it tells a measured job depends on the state alone, and neither on time nor on how often
    the job comes: until something changes it gets the same answer. Then see `stirred`."""
    expands = True  # it grows jobs by itself
    finds_spots = False  # it looks for sweet spots, which may be tracked (model/tracking.py)

    def decide(self, state: State, job: Job, config: SchedulerConfig, now: float) -> Verdict:
        """What `job`, which is at a remap point and has no resize pending, shall do."""
        raise NotImplementedError

    def calls(self, state: State, config: SchedulerConfig, now: float) -> Iterable[Job]:
        """Running jobs that should come to a remap point soon, because `decide` would resize them.

        Asked after every scheduling pass.
        """
        return ()

    def stirred(
        self, state: State, jobs: Iterable[int], config: SchedulerConfig, now: float
    ) -> Iterable[int]:
        """Which of `jobs`, measured and told to continue before, may be told otherwise now."""
        return jobs

    def giving_way(self, state: State, now: float) -> Collection[int]:
        """The jobs that may be resized now though their samples are not complete.

        All others are told to continue at a remap point that does not complete theirs. Asked of
        patient policies.
        """
        return state.active


@dataclass(frozen=True, slots=True)
class GiveWay:
    """The job is to shrink to `target` for who waits."""

    job: Job
    target: Configuration
    reason: Reason


class ShrinkPolicy(Policy):
    """Who gives way, and how much, when somebody waits?

    Asked at each remap point of a malleable job while somebody waits, instead of the resize policy.
    A job that gave way does not expand for `settle` remap points.
    """

    def choose(self, offer: Offer) -> Sequence[GiveWay]:
        """All that should give way now so that `offer.waiting` can start; empty: nobody.

        Each of them is one of `offer.resizable`, and does it at its own next remap point.
        """
        raise NotImplementedError


class GrantPolicy(Policy):
    """Is a dynamic request granted?"""

    measures = False  # `decide` wants to know the delays
    may_change = True  # a request that is refused now may be granted later: it pays to wait

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
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Policies:
    """One of each, as the configuration names them."""

    order: QueueOrder
    start: StartPolicy
    resize: ResizePolicy
    grant: GrantPolicy
    shrink: ShrinkPolicy | None = None  # None: the resize policy says that, too


@dataclass(frozen=True, slots=True)
class Waiting:
    """The job at the head of the queue, for which others may have to give way.

    needed    processors without which it cannot start
    idle      that are idle now
    incoming  that are on their way to being idle: vacating, or in a granted shrink
    """

    job: Job
    needed: int
    idle: int
    incoming: int

    @property
    def missing(self) -> int:
        """Processors that running jobs would have to give up for it; 0: enough are on their way."""
        return max(0, self.needed - self.idle - self.incoming)


@dataclass(frozen=True)
class Offer:
    """What a running job may have at its remap point, who waits, and what is missing for that.

    Made once per remap point and handed to the policy that decides. What is idle, promised, limited
    or on its way is asked for it and nowhere else.

    job      the job that is at a remap point
    now      s
    more     processors that it may have beside its own: idle until its planned end, promised to
             nobody, on nodes that it can use, and within its user's limits
    limit    how far it may grow whatever is idle, and why no further; None: without limit
    waiting  who waits; None: nobody, or only jobs whose start is promised
    config   the scheduler's configuration
    """

    state: State
    job: Job
    now: float
    more: int
    limit: Bound | None
    waiting: Waiting | None
    config: SchedulerConfig

    @property
    def missing(self) -> int:
        """Processors that are missing for who waits; 0: none, or nobody waits."""
        return self.waiting.missing if self.waiting is not None else 0

    @cached_property
    def resizable(self) -> tuple[Job, ...]:
        """Running malleable jobs that come to remap points and have no resize under way, in the
        order of their start. Nothing else has to be checked before one is chosen."""
        return tuple(resizable(self.state))


def offer_to(state: State, job: Job, config: SchedulerConfig, now: float) -> Offer:
    """What `job`, which is at a remap point, may have now."""
    limit, more = bound(state, job), available(state, now, job)
    head, waiting = state.head(now), None
    if head is not None:
        needed = head.spec.needed if head.spec.profile else smallest_start(head, config.moldable)
        waiting = Waiting(head, needed, state.idle, state.incoming())
    return Offer(state, job, now, more, limit, waiting, config)


class NoResize(ResizePolicy):
    """No resizing: every job keeps the size it started on."""

    polls = False
    expands = False

    def decide(self, *_: Any) -> Verdict:
        return Verdict(None, because("resize_policy_none"))
