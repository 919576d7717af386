"""Performance data gatherer: how long an iteration of a job takes on each configuration.

Source: ReSHAPE thesis, 3.4.3. Per job: a sorted list of the configurations it has run on with their
iteration times, and the stack of configurations it can shrink to with the penalty of each.
Redistribution time is kept apart from computing time.

Noise: the first `discard` iterations after a resize do not count, and a time is believed once
`samples` iterations were counted; it is their median. `samples=1, discard=0` is the thesis's rule.

Loops. A program that first assembles and then solves has turns of two kinds: that those of the
second take longer says nothing about the size they run on. So each loop has performance data of its
own, with its own sweet spot (`Phases`), and `Job.performance` is that of the loop which the job is
in.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from statistics import median
from typing import TYPE_CHECKING

from dq_server.core.model.records import Record
from dq_server.core.model.sizes import Configuration
from dq_server.core.model.tracking import Finding, Found, SpotOptions, Tracking

if TYPE_CHECKING:
    from dq_server.core.model.jobs import Job


@dataclass(slots=True)
class PerformanceData:
    """Measurements of one job. Times in seconds, keyed by configuration."""

    window: list[float] = field(default_factory=list)  # counted since the last resize, newest last
    seen: int = 0  # iterations since the last resize, counted or not
    known: dict[Configuration, float] = field(default_factory=dict)  # believed iteration times
    order: list[Configuration] = field(default_factory=list)  # visits, oldest first, no repeats
    redistribution: dict[str, float] = field(default_factory=dict)  # "1x2>2x2" -> seconds
    came_from: Configuration | None = None  # before the expansion to where it is now
    judged: bool = False  # that expansion was judged and paid: it is not undone later
    proven: bool = False  # that expansion led to a configuration that had paid before
    sweet_spot: Configuration | None = None
    worse: Configuration | None = None  # the configuration that did not pay
    recalled: dict[Configuration, float] = field(default_factory=dict)
    # those of `known` that earlier runs measured and this one has not
    mistrusts: bool = False  # this run has shown that the history no longer holds
    kept: dict[int, Configuration] = field(default_factory=dict)
    # size -> the grid to use there, once all of several were tried (policies/grids.py)
    barred: list[Configuration] = field(default_factory=list)  # grids that could not be gone to
    searched: Tracking = field(default_factory=Tracking)  # under sweet_spot = "search"

    def record(
        self,
        at: Configuration,
        iteration_time_s: float,
        *,
        samples: int,
        discard: int,
        spot: SpotOptions | None = None,
        iterations: int = 1,
    ) -> None:
        """Take in a remap point: `iterations` that ran at `at`. `spot`: sizes are searched."""
        if spot is not None:
            counted = self.seen >= discard
            self.searched.record(at, iteration_time_s, iterations, counted, spot.window)
            # Others go by it, who shrinks for whom: a rough figure is better than none.
            times_s = self.searched.samples.get(at)
            if times_s or at not in self.known:
                self.known[at] = median(times_s or [iteration_time_s])
        if at not in self.order:
            self.order.append(at)
        self.seen += 1
        if self.seen <= discard:
            return
        self.window.append(iteration_time_s)
        # A sliding window keeps the belief fresh when an application changes its pace.
        if len(self.window) > max(samples, 8):
            self.window.pop(0)
        if spot is None and len(self.window) >= samples:
            self.known[at] = median(self.window[-max(samples, 1) :])

    def pass_over(self, at: Configuration, points: int, run_s: float, iterations: int) -> None:
        """Count `points` remap points at `at` whose own times are not kept, with `run_s` seconds
        and so many iterations in all."""
        self.seen += points
        if self.searched.run_s:  # sizes are searched
            self.searched.pass_over(at, points, run_s, iterations)

    def moved(self, from_: Configuration, to: Configuration, redistribution_s: float) -> None:
        """A resize was committed: start measuring afresh."""
        self.window.clear()
        self.seen = 0
        self.redistribution[f"{from_}>{to}"] = redistribution_s
        if self.searched.run_s:  # sizes are searched
            self.searched.moved(to, redistribution_s)
        if to not in self.order:
            self.order.append(to)
        if to.size == from_.size:  # another grid: the expansion that led here is still to be judged
            return
        self.came_from = from_ if to.size > from_.size else None
        self.judged = False
        self.proven = to in self.known

    def keep(self, grid: Configuration) -> None:
        """Of the grids of its size this one is to be used."""
        self.kept[grid.size] = grid
        if self.sweet_spot is not None and self.sweet_spot.size == grid.size:
            self.sweet_spot = grid

    def bar(self, grid: Configuration) -> None:
        """The job could not go to this grid: it is not tried again."""
        self.barred.append(grid)
        if self.kept.get(grid.size) == grid:
            del self.kept[grid.size]

    def _set_aside(self, grid: Configuration) -> bool:
        """Whether another grid is to be used at this size."""
        if not self.kept:  # most jobs have one grid of each size
            return False
        return self.kept.get(grid.size, grid) != grid

    def moved_elsewhere(self) -> None:
        """The job starts again, on any size: measure afresh, judge no resize."""
        self.window.clear()
        self.seen = 0
        self.came_from = None
        self.judged = self.proven = False
        self.searched.leave()

    def learn(self, finding: Finding, at: Configuration, options: SpotOptions) -> None:
        """What a remap point at `at` has shown of the job's sizes, under these options."""
        self.searched.learn(finding, at, options)
        if finding.what is not Found.SETTLED:
            return
        self.sweet_spot = spot = finding.spot
        beyond = [c for c in self.known if spot is not None and c.size > spot.size]
        self.worse = min(beyond, key=lambda c: c.size, default=None)

    def measured(self, samples: int) -> bool:
        """Whether the current stay has enough counted iterations."""
        return len(self.window) >= samples

    def visited(self) -> list[tuple[Configuration, float]]:
        """Configurations with a believed time, ascending by size."""
        if len(self.known) < 2:
            return list(self.known.items())
        return sorted(self.known.items(), key=_by_size)

    def shrink_stack(self, current: Configuration) -> Iterator[tuple[Configuration, float]]:
        """Smaller configurations the job has run on, largest first, with the penalty of each.

        Penalty: relative growth of the iteration time, 0.25 meaning a quarter longer. The time at
        `current` may not be known yet: then the best time known so far stands in for it.
        """
        if not self.known:
            return
        now_s, size = self.known.get(current), current.size
        if now_s is None:
            now_s = min(self.known.values())
        for smaller, time_s in reversed(self.visited()):
            if smaller.size < size and not self._set_aside(smaller):
                yield smaller, _relative(time_s, now_s) - 1.0

    def expand_candidates(self, current: Configuration) -> Iterator[tuple[Configuration, float]]:
        """Larger configurations with data, up to the sweet spot, with the gain of each.

        Gain: relative fall of the iteration time, 0.25 meaning a quarter shorter.
        """
        now_s, size = self.known.get(current), current.size
        if now_s is None:
            return
        for larger, time_s in self.visited():
            if larger.size <= size or self._set_aside(larger):
                continue
            if self.allows(larger):
                yield larger, 1.0 - _relative(time_s, now_s)

    def allows(self, configuration: Configuration) -> bool:
        """Whether expanding there stays within the sweet spot."""
        return self.sweet_spot is None or configuration.size <= self.sweet_spot.size


def _by_size(measured: tuple[Configuration, float]) -> tuple[int, Configuration]:
    return measured[0].size, measured[0]


def _relative(time_s: float, to_s: float) -> float:
    if to_s > 0:
        return time_s / to_s
    return inf if time_s > 0 else 1.0  # a program may report a time too short to be measured


LOOPS_MAX = 100  # of one job; the one that has not run for the longest time is forgotten


@dataclass(slots=True)
class Phase:
    """A loop that the job is not in."""

    performance: PerformanceData
    configuration: Configuration | None  # of the job when it was last in that loop
    resizes: int  # of the job until then


@dataclass(slots=True)
class Phases(Record, key="Phases"):
    """Of a job that has told which loops it is in; most have one."""

    loop: str = ""  # the one that `Job.performance` is of; "": that was not told
    first: str = ""  # the one that the job began with: earlier runs have told of that one
    others: OrderedDict[str, Phase] = field(default_factory=OrderedDict)

    def enter(self, job: Job, loop: str) -> None:
        """The job is in this loop now."""
        if loop == self.loop:
            return
        if self.loop:
            self.others[self.loop] = Phase(job.performance, job.configuration, job.resizes)
            if len(self.others) > LOOPS_MAX:
                self.others.popitem(last=False)
            found = self.others.pop(loop, None)
            if found is None:
                job.performance = PerformanceData()
            else:
                job.performance = found.performance
                if (found.configuration, found.resizes) != (job.configuration, job.resizes):
                    job.performance.moved_elsewhere()
        self.loop, self.first = loop, self.first or loop

    def of_first(self, job: Job) -> PerformanceData:
        """What is known of the loop that the job began with."""
        known = self.others.get(self.first)
        return job.performance if known is None else known.performance
