"""Quotas: what users, and groups of users, may hold and use, as the configuration says it.

    [quotas.user.alice]
    processors = 8          # that her running jobs hold together, at any time
    jobs = 4                # that run at once
    queued = 100            # that are in the system, waiting or running
    hours = 100             # processor-hours used within the window
    window = "30d"

    [quotas.user."*"]       # each user who has no table of his own
    jobs = 2

    [quotas.group.physics]  # all of its members together
    members = ["alice", "bob"]
    processors = 32

Who belongs to a group is listed here: the core asks no operating system, and what a job says of its
group (`dq submit --group`) anybody can say. features/quotas.py sees to it that they are kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from dq_server.core.model.errors import ConfigError
from dq_server.core.model.jobs import Job
from dq_server.core.model.options import Options, named_tables, quoted
from dq_server.core.model.records import Record
from dq_server.core.model.state import State

INF = float("inf")
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
EVERYONE = "*"  # the limits of each user who has none of his own
_UNITS_S = {"s": 1.0, "m": 60.0, "h": HOUR_S, "d": DAY_S}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
PARTS = 200  # of a window: what was used leaves it part by part


@dataclass(frozen=True, slots=True)
class Limits:
    """What one user, or one group, may have; None: any amount. `members`: of a group."""

    processors: int | None = None
    jobs: int | None = None
    queued: int | None = None
    hours: float | None = None
    window_s: float = 30 * DAY_S
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entity:
    """Whom limits concern. `table`: the one in the file that says them."""

    kind: str
    name: str
    table: str

    @property
    def words(self) -> str:
        """For people, and the name of its records."""
        return f"{self.kind} {self.name}"

    def limit(self, what: str) -> str:
        """The name of a limit, for those who wait for it."""
        return f"{self.words} {what}"


Bounds = list[tuple[Entity, Limits]]


@dataclass(frozen=True, slots=True)
class QuotaOptions(Options):
    """Limits by name.

    user   of a user; the name "*" stands for every user without a table: `[quotas.user.NAME]` with
           `processors`, `jobs`, `queued`, `hours`, `window`
    group  of a group's members together: `[quotas.group.NAME]` with `members` and the same keys
    """

    table = "quotas"

    user: dict[str, Limits] = field(default_factory=dict)
    group: dict[str, Limits] = field(default_factory=dict)

    @classmethod
    def read(cls, table: Mapping[str, Any]) -> Mapping[str, Any]:
        """As users write it: `window` as seconds or as a text like "30d"."""
        for kind in table:
            if kind not in ("user", "group"):
                raise ConfigError(
                    f"unknown setting {kind!r} in [quotas]; known: user.NAME, group.NAME"
                )
        return {kind: _limits(kind, by_name) for kind, by_name in table.items()}

    def validate(self) -> None:
        for kind, by_name in (("user", self.user), ("group", self.group)):
            for name, limits in by_name.items():
                where = _where(kind, name)
                for what in ("processors", "jobs", "queued", "hours"):
                    given = getattr(limits, what)
                    if given is not None and not 0 <= given < INF:
                        raise ConfigError(f"{where} {what} = {given}: 0 or more")
                if not 0 < limits.window_s < INF:
                    raise ConfigError(f"{where} window = {limits.window_s:g}: a time above 0 s")
                if bool(limits.members) is (kind == "user"):
                    raise ConfigError(f"{where} members: a group lists its users, a user has none")
        if EVERYONE in self.group:
            raise ConfigError(f"{_where('group', EVERYONE)}: a group has a name and members")

    @property
    def counts_hours(self) -> bool:
        """Whether anybody's hours are limited."""
        return any(
            limits.hours is not None for by in (self.user, self.group) for limits in by.values()
        )

    @property
    def limited(self) -> bool:
        """Whether anybody has a quota."""
        return bool(self.user or self.group)

    def of(self, user: str) -> Bounds:
        """What a user's jobs are bound by; a job that nobody has submitted is not."""
        if not user or not self.limited:
            return []
        found: Bounds = []
        name = user if user in self.user else EVERYONE
        if name in self.user:
            found.append((Entity("user", user, _where("user", name)), self.user[name]))
        for group, limits in self.group.items():
            if user in limits.members:
                found.append((Entity("group", group, _where("group", group)), limits))
        return found


def _where(kind: str, name: str) -> str:
    return f"[quotas.{kind}.{quoted(name)}]"


def _limits(kind: str, by_name: Any) -> dict[str, dict[str, Any]]:
    """The limits of each entity of a kind, as plain values."""
    known = [*(f.name for f in fields(Limits) if f.name != "window_s"), "window"]
    found = named_tables(f"quotas.{kind}", by_name, known)
    for name, values in found.items():
        if "window" in values:
            values["window_s"] = _seconds(values.pop("window"), _where(kind, name))
    return found


def _seconds(value: Any, where: str) -> Any:
    """A time as 90m, 12h or 30d in seconds; anything else as it is."""
    if not isinstance(value, str):
        return value
    span = _SPAN.fullmatch(value)
    if span is None:
        raise ConfigError(f'{where} window = {value!r}: seconds, or a text like "12h" or "30d"')
    return float(span[1]) * _UNITS_S[span[2]]


# --- what was used ---------------------------------------------------------------------------


@dataclass(slots=True)
class Spent:
    """Processor-seconds of one entity by the part of time in which they were used.

    Part k lasts from k to k + 1 times `part_s` and counts until all of it is out of the window: a
    limit is kept a little too strictly rather than not.
    """

    part_s: float = 0.0
    by_part: dict[int, float] = field(default_factory=dict)

    def add(self, since_s: float, until_s: float, processors: int, window_s: float) -> None:
        """So many were in use from then until now."""
        self._fit(window_s)
        since_s = max(since_s, until_s - window_s)
        k = int(since_s // self.part_s)
        while since_s < until_s:
            end_s = min(until_s, (k + 1) * self.part_s)
            if end_s > since_s:
                self.by_part[k] = self.by_part.get(k, 0.0) + processors * (end_s - since_s)
                since_s = end_s
            k += 1
        for old in [k for k in self.by_part if self.leaves_s(k, window_s) <= until_s]:
            del self.by_part[old]

    def within(self, now: float, window_s: float) -> list[tuple[float, float]]:
        """When each part that counts leaves the window, and its processor-seconds; ascending."""
        leaving = ((self.leaves_s(k, window_s), used) for k, used in self.by_part.items())
        return sorted((at_s, used) for at_s, used in leaving if at_s > now)

    def leaves_s(self, k: int, window_s: float) -> float:
        """When part k is out of the window."""
        return (k + 1) * self.part_s + window_s

    def _fit(self, window_s: float) -> None:
        """Another window has other parts: what is known of the old ones goes to the new ones."""
        part_s = window_s / PARTS
        if part_s == self.part_s:
            return
        old, old_s = self.by_part, self.part_s
        self.part_s, self.by_part = part_s, {}
        for k, used in old.items():
            new = int((k + 0.5) * old_s // part_s)
            self.by_part[new] = self.by_part.get(new, 0.0) + used


@dataclass(slots=True)
class HoursUsed(Record, key="HoursUsed"):
    """Of the state: what those have used whose hours are limited, by entity in words."""

    by_entity: dict[str, Spent] = field(default_factory=dict)


@dataclass(slots=True)
class Metered(Record, key="Metered"):
    """Of a running job whose hours are limited: until then its use is in HoursUsed."""

    until_s: float | None = None


@dataclass(slots=True)
class QuotaWaits(Record, key="QuotaWaits"):
    """Of the state: jobs that a limit keeps out of the queue, ascending, by the limit."""

    by_limit: dict[str, list[int]] = field(default_factory=dict)


def meter(state: State, options: QuotaOptions, job: Job, now: float) -> None:
    """The job is about to use another number of processors, or none: count its hours until now."""
    if not options.limited:
        return
    metered = Metered.of(job)
    since_s, metered.until_s = metered.until_s, now
    if since_s is None:
        state.touch(job)
    if since_s is None or since_s >= now:
        return
    used = HoursUsed.of(state).by_entity
    for entity, limits in options.of(job.spec.user):
        if limits.hours is not None:
            spent = used.setdefault(entity.words, Spent())
            spent.add(since_s, now, job.in_use, limits.window_s)
