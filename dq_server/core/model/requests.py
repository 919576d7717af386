"""Dynamic requests: what evolving jobs have asked for, and how much that may delay who waits.

Dynamic fairness. Source: Prabhakaran et al. 2014, III-D. A dynamic request takes processors that a
waiting job was planned to get. Limits are set per user, group, account, class and QoS of the
*waiting* job; where several apply the most restrictive wins. Delays to jobs of the user who asks do
not count.

policy             what is limited
none               nothing: dynamic requests come first
single             delays to each waiting job, summed over the requests that delayed it
target             delays to all jobs of an entity, summed over an interval
single-and-target  both

At the end of an interval the sum starts again from `decay` times what it was. Intervals begin at
multiples of `interval_s`, so that a restarted server agrees with the one before.

`dyn_delay_perm = false` protects an entity's jobs from any delay. The paper does not say whether
that holds under `none`; "delay ... will be ignored" is taken to include it.

Erratum: Fig. 6 gives group05 a DFSSINGLEDELAYTIME, its explanation describes a cumulative limit.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from dq_server.core.model.actions import RequestAnswer
from dq_server.core.model.errors import ConfigError, known_words
from dq_server.core.model.jobs import Job
from dq_server.core.model.options import Options, named_tables
from dq_server.core.model.records import Record
from dq_server.core.model.spec import JobSpec


@dataclass(frozen=True, slots=True)
class DynamicRequest:
    """A request that waits, or was granted (`Job.reserved`) and waits for its remap point."""

    request: int  # the application's number of it
    more: int
    asked_s: float
    deadline_s: float
    granted: bool = False


@dataclass(frozen=True, slots=True)
class Release:
    """Processors that the application gives back at its next remap point; none named: any."""

    count: int
    processors: tuple[int, ...]


@dataclass(slots=True)
class Asked(Record, key="Asked"):
    """Of a job: what it has asked for. At most one of `request` and `release` is pending."""

    request: DynamicRequest | None = None
    release: Release | None = None
    answer: RequestAnswer | None = None  # to its latest request or release


@dataclass(slots=True)
class WaitingRequests(Record, key="Waiting"):
    """Of the state: jobs whose request waits, in the order of asking."""

    jobs: OrderedDict[int, Job] = field(default_factory=OrderedDict)


DfsPolicy = Literal["none", "single", "target", "single-and-target"]
KINDS = ("user", "group", "account", "job_class", "qos")
_CLOCK = re.compile(r"(\d+):([0-5]\d):([0-5]\d)")
EVERYONE = "*"  # the limits of an entity that has none of its own
Entity = tuple[str, str]  # kind, name


@dataclass(frozen=True, slots=True)
class DfsLimits:
    """Limits of one entity, in seconds; 0 sets no limit (Fig. 6)."""

    dyn_delay_perm: bool = True
    single_delay_s: float = 0.0
    target_delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class DfsConfig(Options):
    """The setting: Fig. 6, as data. Its table stands by itself: [dfs].

    Limits by name; the name "*" stands for all others.

    policy                   limited delays: "none", "single", "target", "single-and-target"
    interval_s               how long delays are summed; also as HH:MM:SS
    decay                    the share of a sum that the next interval begins with
    reservation_delay_depth  for how many jobs that start later a request's delay is measured
    count_start_now          delays to jobs that could start at once count, too (the paper measures
                             them; whether they are charged is left open)
    one_node                 processors that a request gets must be on one node (left open)
    user                     limits by the waiting job's user: `[dfs.user.NAME]` with
                             `dyn_delay_perm`, `single_delay_s`, `target_delay_s`
    group                    by its group
    account                  by its account
    job_class                by its class; in the file `class`
    qos                      by its quality of service
    """

    table = "dfs"

    policy: DfsPolicy = "none"
    interval_s: float = 3600.0
    decay: float = 0.0
    reservation_delay_depth: int = 5
    count_start_now: bool = True
    one_node: bool = False
    user: dict[str, DfsLimits] = field(default_factory=dict)
    group: dict[str, DfsLimits] = field(default_factory=dict)
    account: dict[str, DfsLimits] = field(default_factory=dict)
    job_class: dict[str, DfsLimits] = field(default_factory=dict)
    qos: dict[str, DfsLimits] = field(default_factory=dict)

    @classmethod
    def read(cls, table: Mapping[str, Any]) -> Mapping[str, Any]:
        """As users write it: times also as HH:MM:SS, `class` for job_class, limits by name."""
        known = [f.name for f in fields(cls)]
        values: dict[str, Any] = {}
        for key, value in table.items():
            name = "job_class" if key == "class" else key  # `class` cannot be the name of a field
            if name not in known or key == "job_class":
                shown = [k for k in known if k not in KINDS]
                raise ConfigError(
                    f"unknown setting {key!r} in [dfs]; {known_words(key, [*shown, 'KIND.NAME'])}"
                )
            values[name] = _limits(key, value) if name in KINDS else _seconds(value, key, "[dfs]")
        return values

    @property
    def limits_single(self) -> bool:
        """Whether delays to single jobs are limited."""
        return self.policy in ("single", "single-and-target")

    @property
    def limits_target(self) -> bool:
        """Whether the sum of delays over an interval is limited."""
        return self.policy in ("target", "single-and-target")

    def validate(self) -> None:
        """Raise ConfigError if a figure makes no sense."""
        if not 0 < self.interval_s < float("inf"):
            raise ConfigError(f"dfs interval_s = {self.interval_s}: a time above 0 s")
        if not 0 <= self.decay <= 1:
            raise ConfigError(f"dfs decay = {self.decay}: the share that is kept, from 0 to 1")
        if self.reservation_delay_depth < 1:
            depth = self.reservation_delay_depth
            raise ConfigError(f"dfs reservation_delay_depth = {depth}: at least one job")
        for kind in KINDS:
            for name, limits in getattr(self, kind).items():
                for which in ("single_delay_s", "target_delay_s"):
                    value = getattr(limits, which)
                    if not 0 <= value < float("inf"):
                        raise ConfigError(f"dfs {kind} {name}: {which} = {value}: 0 or more s")

    def limits_of(self, spec: JobSpec) -> Iterator[tuple[Entity, DfsLimits]]:
        """The entities that a job belongs to and that have limits."""
        for kind in KINDS:
            listed: dict[str, DfsLimits] = getattr(self, kind)
            if listed:
                name: str = getattr(spec, kind)
                limits = listed.get(name) or listed.get(EVERYONE)
                if limits is not None:
                    yield (kind, name), limits


def _limits(kind: str, by_name: Any) -> dict[str, dict[str, Any]]:
    """The limits of each entity of a kind, as plain values."""
    tables = named_tables(f"dfs.{kind}", by_name, [f.name for f in fields(DfsLimits)])
    return {
        name: {key: _seconds(value, key, f"[dfs.{kind}.{name}]") for key, value in given.items()}
        for name, given in tables.items()
    }


def _seconds(value: Any, name: str, where: str) -> Any:
    """A time as HH:MM:SS in seconds; anything else as it is."""
    if not name.endswith("_s") or not isinstance(value, str):
        return value
    clock = _CLOCK.fullmatch(value)
    if clock is None:
        raise ConfigError(f"{where} {name} = {value!r}: seconds, or a text HH:MM:SS")
    hours, minutes, seconds = map(int, clock.groups())
    return float(3600 * hours + 60 * minutes + seconds)


def per_user(target_delay_s: float, interval_s: float = 3600.0, decay: float = 0.0) -> DfsConfig:
    """Every user's jobs may be delayed by so much in an interval (the paper's Dyn-500, Dyn-600)."""
    limits = {EVERYONE: DfsLimits(target_delay_s=target_delay_s)}
    return DfsConfig(policy="target", interval_s=interval_s, decay=decay, user=limits)


@dataclass(frozen=True, slots=True)
class Delay:
    """A waiting job would start `delay_s` later than planned (+inf: no longer in sight)."""

    job: int
    spec: JobSpec
    delay_s: float


@dataclass(frozen=True, slots=True)
class Objection:
    """The limit that a request would break.

    why      not_permitted, single or target
    delay_s  what this request would add; `total_s` with what is charged already
    """

    why: Literal["not_permitted", "single", "target"]
    entity: Entity
    job: int
    delay_s: float
    total_s: float
    limit_s: float


@dataclass(slots=True)
class Ledger(Record, key="Ledger"):
    """Of the state: delays charged so far."""

    interval: int = 0  # number of the interval that `charged_s` belongs to
    charged_s: dict[Entity, float] = field(default_factory=dict)
    jobs_s: dict[int, float] = field(default_factory=dict)  # of jobs that still wait

    def charged(self, entity: Entity, dfs: DfsConfig, now: float) -> float:
        """What an entity's jobs were delayed in the interval of `now`, with the decayed past."""
        passed = int(now // dfs.interval_s) - self.interval
        return self.charged_s.get(entity, 0.0) * _kept(dfs.decay, passed)

    def roll(self, dfs: DfsConfig, now: float) -> None:
        """Begin the interval of `now`, if it is a new one."""
        interval = int(now // dfs.interval_s)
        if interval == self.interval:
            return
        kept = _kept(dfs.decay, interval - self.interval)
        self.interval = interval
        left = {entity: kept * s for entity, s in self.charged_s.items()}
        self.charged_s = {entity: s for entity, s in left.items() if s > 0}

    def objection(self, delays: Iterable[Delay], dfs: DfsConfig, now: float) -> Objection | None:
        """The first limit that these delays would break, or None. Nothing changes."""
        if dfs.policy == "none":
            return None
        added: dict[Entity, float] = {}
        for delay in delays:
            if delay.delay_s <= 0:
                continue
            for entity, limits in dfs.limits_of(delay.spec):
                added[entity] = added.get(entity, 0.0) + delay.delay_s
                broken = self._broken(delay, entity, limits, added[entity], dfs, now)
                if broken is not None:
                    return broken
        return None

    def _broken(
        self,
        delay: Delay,
        entity: Entity,
        limits: DfsLimits,
        added_s: float,
        dfs: DfsConfig,
        now: float,
    ) -> Objection | None:
        job, one_s = delay.job, delay.delay_s
        if not limits.dyn_delay_perm:
            return Objection("not_permitted", entity, job, one_s, one_s, 0.0)
        limit_s = limits.single_delay_s
        if dfs.limits_single and limit_s:
            total_s = self.jobs_s.get(job, 0.0) + one_s
            if total_s > limit_s:
                return Objection("single", entity, job, one_s, total_s, limit_s)
        limit_s = limits.target_delay_s
        if dfs.limits_target and limit_s:
            total_s = self.charged(entity, dfs, now) + added_s
            if total_s > limit_s:
                return Objection("target", entity, job, added_s, total_s, limit_s)
        return None

    def charge(self, delays: Iterable[Delay], dfs: DfsConfig, now: float) -> None:
        """A request was granted. Only what a limit is set on is remembered."""
        self.roll(dfs, now)
        for delay in delays:
            if delay.delay_s <= 0:
                continue
            for entity, limits in dfs.limits_of(delay.spec):
                if dfs.limits_target and limits.target_delay_s:
                    self.charged_s[entity] = self.charged_s.get(entity, 0.0) + delay.delay_s
                if dfs.limits_single and limits.single_delay_s:
                    self.jobs_s[delay.job] = self.jobs_s.get(delay.job, 0.0)
            if delay.job in self.jobs_s:
                self.jobs_s[delay.job] += delay.delay_s

    def forget(self, job: int) -> None:
        """The job no longer waits."""
        self.jobs_s.pop(job, None)


def _kept(decay: float, intervals: int) -> float:
    """The share of a sum that is left after so many interval ends (0 ** 0 is 1)."""
    return 1.0 if intervals <= 0 else float(decay**intervals)
