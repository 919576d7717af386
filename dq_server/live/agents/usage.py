"""CPU time and memory of jobs, as agents measure them: now, and over the life of each job.

A part is one start of a job on one agent's nodes. While it lasts the agent sends totals since its
start, so a new server receives all of it again. When it has ended its CPU time goes into the
journal (`UsageMeasured`): once for each part, not for each measurement. The curve is in memory
only. It has POINTS_MAX points for the whole life of a job: beyond that every second one is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dq_client.base import messages as m
from dq_server.core.features.nodes import MeasuredUsage
from dq_server.core.model import events as ev
from dq_server.core.model.jobs import Job

POINTS_MAX = 60
EVERY_S = 2.0  # between the first points
ENDED_MAX = 500  # jobs whose curve is kept after their end

Point = tuple[float, float, int]  # time, busy processors, bytes


@dataclass(slots=True)
class Part:
    """`cpu`: processors that were busy between the last two measurements; None: there was one."""

    row: m.JobUsage
    cpu: float | None = None
    rank_cpu: dict[tuple[str, int, int], float] = field(default_factory=dict)
    over: bool = False
    saving: bool = False  # journaled in this turn

    def take(self, new: m.JobUsage) -> None:
        """A later measurement."""
        old, lasted_s = self.row, new.at_s - self.row.at_s
        if lasted_s <= 0:
            return
        before = {_key(rank): rank.cpu_s for rank in old.ranks}
        self.row, self.cpu = new, max(0.0, new.cpu_s - old.cpu_s) / lasted_s
        self.rank_cpu = {
            _key(rank): max(0.0, rank.cpu_s - before[_key(rank)]) / lasted_s
            for rank in new.ranks
            if _key(rank) in before
        }


def _key(rank: m.RankSample) -> tuple[str, int, int]:
    return rank.node, rank.world, rank.rank


@dataclass(slots=True)
class JobUse:
    """All parts of a job that are not in the journal, and its curve."""

    parts: dict[tuple[str, int], Part] = field(default_factory=dict)  # by agent and start
    points: list[Point] = field(default_factory=list)
    every_s: float = EVERY_S
    memory_max: int = 0
    shown: tuple[int, int] = (0, 0)  # what readers were told

    def running(self, job: Job) -> list[Part]:
        """The parts of the job's present start."""
        here = not job.end_s
        return [p for (_, n), p in self.parts.items() if here and n == job.instance and not p.over]

    def now(self, job: Job) -> tuple[float | None, int]:
        """Busy processors, None if not known yet, and bytes."""
        running = self.running(job)
        known = [part.cpu for part in running if part.cpu is not None]
        return sum(known) if known else None, sum(part.row.memory for part in running)

    def add_point(self, point: Point) -> None:
        """A point of the curve, unless the last one is too new."""
        if self.points and point[0] - self.points[-1][0] < self.every_s:
            return
        self.points.append(point)
        if len(self.points) > POINTS_MAX:
            del self.points[1::2]
            self.every_s *= 2


class Usages:
    """By job. `changed`: its readers should see the job again."""

    def __init__(self, changed: Callable[[int], object] = lambda _: None) -> None:
        self._changed = changed
        self._of: dict[int, JobUse] = {}
        self._on: dict[str, set[int]] = {}  # by agent: jobs with parts there
        self._due: set[int] = set()  # jobs with parts that have ended
        self._past: dict[int, list[Point]] = {}

    def measured(self, agent: str, body: m.Heartbeat, jobs: Mapping[int, Job], now: float) -> None:
        """A heartbeat: measurements of some starts of jobs, and all that are there."""
        held = {(h.job, h.instance) for h in body.holdings}
        for row in body.usage:
            job = jobs.get(row.job)
            if job is not None and (row.job, row.instance) in held and self._take(agent, row, job):
                self._count(job, self._of[row.job], now)
        for number in list(self._on.get(agent, ())):
            for (whose, instance), part in self._of[number].parts.items():
                if whose == agent and (number, instance) not in held:
                    part.over = True
                    self._due.add(number)

    def ended(self, agent: str, body: m.AppEnded, job: Job) -> None:
        """All ranks of a start on an agent's nodes have ended."""
        use = self._of.get(job.id)
        part = use.parts.get((agent, body.instance)) if use is not None else None
        at_s = part.row.at_s if part is not None else 0.0
        if body.cpu_s > (part.row.cpu_s if part is not None else 0.0):
            row = m.JobUsage(body.job, body.instance, at_s, body.cpu_s, 0)
            if part is not None:
                part.row = row
            else:
                self._take(agent, row, job)

    def over(self, number: int) -> None:
        """A job has ended: nothing that agents send of it counts any more."""
        use = self._of.get(number)
        if use is not None:
            self._due.add(number)
            for part in use.parts.values():
                part.over = True

    def settle(self) -> list[ev.UsageMeasured]:
        """The parts that have ended, for the journal; `saved` or `lost` must follow."""
        events = []
        for number in sorted(self._due):
            use = self._of[number]
            over = [part for part in use.parts.values() if part.over]
            for part in over:
                part.saving = True
            cpu_s = sum(part.row.cpu_s for part in over)
            events.append(ev.UsageMeasured(number, cpu_s, use.memory_max))
        return events

    def saved(self, jobs: Mapping[int, Job]) -> None:
        """The journal has them."""
        for number in self._due:
            use = self._of[number]
            agents = {agent for agent, _ in use.parts}
            use.parts = {key: part for key, part in use.parts.items() if not part.saving}
            for agent in agents - {agent for agent, _ in use.parts}:
                self._on[agent].discard(number)
            job = jobs.get(number)
            if job is None or job.end_s is not None:
                self._past[number] = self._of.pop(number).points
        self._due.clear()
        while len(self._past) > ENDED_MAX:
            del self._past[next(iter(self._past))]

    def lost(self) -> None:
        """The journal could not take them, nor what has ended them: that is found out again."""
        for number in self._due:
            for part in self._of[number].parts.values():
                part.over = part.saving = False
        self._due.clear()

    def _take(self, agent: str, row: m.JobUsage, job: Job) -> bool:
        """A measurement; whether it counts."""
        key = agent, row.instance
        known = self._of[job.id].parts.get(key) if job.id in self._of else None
        if known is not None:
            known.take(row)
        elif job.end_s is None and row.instance == job.instance:
            self._of.setdefault(job.id, JobUse()).parts[key] = Part(row)
            self._on.setdefault(agent, set()).add(job.id)
        else:
            return False  # the journal has its end
        return True

    def _count(self, job: Job, use: JobUse, now: float) -> None:
        cpu, memory = use.now(job)
        use.memory_max = max(use.memory_max, memory)
        use.add_point((round(now, 1), round(cpu or 0.0, 2), memory))
        # A change of a tenth is worth a message to readers; a steady job costs them nothing.
        shown = round(10 * (cpu or 0.0) / max(1, job.size)), round(8 * math.log2(memory + 1))
        if shown != use.shown:
            use.shown = shown
            self._changed(job.id)

    # --- what is shown ----------------------------------------------------------------------------

    def short(self, job: Job) -> dict[str, Any] | None:
        """Figures of a job for lists; None: nothing was measured."""
        use, kept = self._of.get(job.id, JobUse()), MeasuredUsage.known(job) or MeasuredUsage()
        if not use.parts and kept == MeasuredUsage():
            return None
        cpu, memory = use.now(job)
        return {
            "cpu": cpu,
            "cpu_s": kept.cpu_s + sum(part.row.cpu_s for part in use.parts.values()),
            "memory": memory if use.running(job) else None,
            "memory_max": max(kept.memory_max, use.memory_max),
        }

    def whole(self, job: Job) -> dict[str, Any] | None:
        """The same with the ranks and the curve."""
        found, use = self.short(job), self._of.get(job.id, JobUse())
        if found is None:
            return None
        ranks = [
            {"node": r.node, "world": r.world, "rank": r.rank,
             "cpu": part.rank_cpu.get(_key(r)), "memory": r.memory}
            for part in use.running(job)
            for r in part.row.ranks
        ]  # fmt: skip
        ranks.sort(key=lambda r: (r["world"], r["rank"], r["node"]))
        points = use.points or self._past.get(job.id, [])
        return {**found, "ranks": ranks, "history": [list(point) for point in points]}
