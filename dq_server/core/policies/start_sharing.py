"""Starts of the strategies for malleable jobs: queue order, what was freed, backfilling.

Source: see sharing.py. After the jobs that fit in queue order come those for which others gave
processors away, as `hand_on` says, then the rest: EASY backfilling against the first job that
cannot be served (planning/shadow.py), on processors kept for nobody. Beside reservations or
profiles known in advance jobs start by a plan of depth 1, as under EASY.

With `hand_on = "pool"` nothing is kept, and EASY protects the first job that waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import Job
from dq_server.core.model.reasons import because, declare
from dq_server.core.model.sizes import Configuration
from dq_server.core.model.state import State
from dq_server.core.planning import backfill
from dq_server.core.planning.shadow import INF, Reservation, reserve
from dq_server.core.planning.timeline import Timeline
from dq_server.core.policies.base import Start, StartPolicy
from dq_server.core.policies.sharing import Plan, SharingOptions, in_line, plan, smallest, starting

declare(sharing_served="on {size} of {idle} idle processors, for which running jobs made room")


class SharingStart(StartPolicy):
    def __init__(self, config: SchedulerConfig) -> None:
        self._options = config.of(SharingOptions)

    def choose(
        self, state: State, queue: Iterable[Job], config: SchedulerConfig, now: float
    ) -> list[Start]:
        if state.has_promises:
            room = Timeline(state, now, moldable=True)
            made = backfill.promises(backfill.in_line(queue, None), room, now, depth=1)
            return backfill.due(made, state.idle, now)
        starts, idle = list[Start](), state.idle
        jobs = iter(queue)
        for job in jobs:
            configuration = starting(job, idle, self._options)
            if configuration is None:
                rest = in_line(chain((job,), jobs), self._options)
                return self._around(state, rest, starts, idle, now)
            size = configuration.size
            starts.append(Start(job, configuration, because("started", size=size, idle=idle)))
            idle -= size
        return starts

    def _around(
        self, state: State, waiting: list[Job], starts: list[Start], idle: int, now: float
    ) -> list[Start]:
        """Starts behind the first job that has to wait."""
        if not idle:
            return starts
        made = plan(state, waiting, idle, self._options, now)
        ahead, started = list(starts), set[int]()
        idle = self._handed_on(made, idle, starts, started)
        head, kept = made.blocked, 0
        if self._options.hand_on == "pool":
            head = next((job for job in waiting if job.id not in started), None)
        else:
            kept = sum(s.kept for s in made.served if s.job.id not in started)
        # What is kept for a served job it takes; the rest goes by the reservation of the blocked.
        free = max(0, idle - kept)
        if head is None or not free:
            return starts
        held = reserve(state, _ends(state, ahead, now), free, smallest(head).size, now)
        served = {s.job.id for s in made.served} if kept or head is made.blocked else set()
        for job in waiting:
            if not free:
                break
            if job is head or job.id in started or job.id in served:
                continue
            found = self._fits(job, free, held, now)
            if found is None:
                continue
            configuration, why = found
            size = configuration.size
            figures = {"head": head.id, "shadow_time_s": held.shadow_time_s}
            reason = because("backfilled", size=size, idle=idle, why=why, **figures)
            starts.append(Start(job, configuration, reason))
            free -= size
            idle -= size
        return starts

    def _handed_on(self, made: Plan, idle: int, starts: list[Start], started: set[int]) -> int:
        """Start jobs that are served, as far as the idle processors go; what is idle then."""
        for served in made.served:
            size = served.configuration.size
            mine = served.kept if self._options.hand_on == "agreement" else idle
            configuration: Configuration | None = served.configuration
            if size > mine:
                continue
            assert configuration is not None
            reason = because("sharing_served", size=size, idle=idle)
            starts.append(Start(served.job, configuration, reason))
            started.add(served.job.id)
            idle -= size
        return idle

    def _fits(
        self, job: Job, idle: int, held: Reservation, now: float
    ) -> tuple[Configuration, str] | None:
        """The configuration to backfill on, and why it delays nobody."""
        configuration = starting(job, idle, self._options)
        if configuration is None:
            return None
        planned_s = job.spec.planned_on_s(configuration.size)
        if planned_s is not None and now + planned_s <= held.end_by(now):
            return configuration, "it plans to end before the head job can start"
        extra: Configuration | None = configuration
        if configuration.size > held.extra_nodes:
            extra = starting(job, held.extra_nodes, self._options)
        if extra is None:
            return None
        held.extra_nodes -= extra.size
        return extra, "the head job leaves them unused"


def _ends(state: State, starts: Iterable[Start], now: float) -> list[tuple[float, int, int]]:
    """The planned ends of the jobs that run, with those that start now."""
    ends = list(state.ends)
    for start in starts:
        size = start.configuration.size
        planned_s = start.job.spec.planned_on_s(size)
        ends.append((INF if planned_s is None else now + planned_s, start.job.id, size))
    return sorted(ends)
