"""Slow, obviously correct schedulers to compare with, written from the definitions."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nextafter
from typing import Any


@dataclass(eq=False)  # two jobs may have the same figures
class J:
    submit: float
    run: float
    size: int
    estimate: float
    start: float = inf

    @property
    def end(self) -> float:
        return self.start + self.run

    def planned_end(self, now: float) -> float:
        """A job that outlived its estimate may end at any moment."""
        return max(self.start + self.estimate, now)


def simulate(jobs: list[J], nodes: int, schedule: Any) -> list[float]:
    """Step through every instant; ends first, then submissions, then one scheduling pass."""
    running: list[J] = []
    queue: list[J] = []
    waiting = list(jobs)
    now = 0.0
    while running or queue or waiting:
        now = min([j.end for j in running] + [j.submit for j in waiting], default=inf)
        assert now < inf, "jobs wait for nothing"
        running = [j for j in running if j.end > now]
        arrived = [j for j in waiting if j.submit <= now]
        waiting = [j for j in waiting if j.submit > now]
        queue += arrived
        for job in schedule(queue, running, nodes, now):
            job.start = now
            queue.remove(job)
            running.append(job)
        assert sum(j.size for j in running) <= nodes
    return [j.start for j in jobs]


def fcfs(queue: list[J], running: list[J], nodes: int, now: float) -> list[J]:
    free = nodes - sum(j.size for j in running)
    started = []
    for job in queue:
        if job.size > free:
            break
        started.append(job)
        free -= job.size
    return started


def easy(queue: list[J], running: list[J], nodes: int, now: float) -> list[J]:
    started = fcfs(queue, running, nodes, now)
    waiting = [j for j in queue if j not in started]
    if not waiting:
        return started
    head = waiting[0]
    busy = [(j.planned_end(now), j.size) for j in running]
    busy += [(now + j.estimate, j.size) for j in started]
    free = nodes - sum(size for _, size in busy)

    def idle_at(t: float) -> int:
        return free + sum(size for end, size in busy if end <= t)

    shadow = min(t for t, _ in busy if idle_at(t) >= head.size)
    extra = idle_at(shadow) - head.size
    for job in waiting[1:]:
        if job.size > free:
            continue
        if now + job.estimate <= shadow:
            pass
        elif job.size <= extra:
            extra -= job.size
        else:
            continue
        started.append(job)
        free -= job.size
    return started


class Conservative:
    """Every waiting job has a promise; earlier ends let promises move forward, in queue order."""

    def __init__(self) -> None:
        self.promised: dict[int, float] = {}

    def __call__(self, queue: list[J], running: list[J], nodes: int, now: float) -> list[J]:
        soon = nextafter(now, inf)
        # (start, end, size) of everything that takes nodes
        base = [(now, max(j.start + j.estimate, soon), j.size) for j in running]
        promised = {id(j): self.promised[id(j)] for j in queue if id(j) in self.promised}
        others = {k: (t, t + j.estimate, j.size) for j in queue for k, t in promised.items()
                  if k == id(j)}  # fmt: skip
        everything = base + list(others.values())
        kept = all(fits(t, everything, nodes) for t in breakpoints(everything, now))
        broken = not kept or any(t < now for t in promised.values())
        if broken:
            others.clear()
        known = [job for job in queue if id(job) in others]
        while True:
            before = dict(others)
            for job in known:
                del others[id(job)]
                at = earliest(job, base + list(others.values()), nodes, now)
                others[id(job)] = (at, at + job.estimate, job.size)
                assert at <= promised[id(job)], "a promise was put off"
            if others == before:
                break
        for job in queue:
            if id(job) not in others:
                at = earliest(job, base + list(others.values()), nodes, now)
                others[id(job)] = (at, at + job.estimate, job.size)
        self.promised = {k: t for k, (t, _, _) in others.items()}
        return [j for j in queue if self.promised[id(j)] == now]


def earliest(job: J, taken: list[tuple[float, float, int]], nodes: int, now: float) -> float:
    """The first instant from which the job fits for as long as it plans to run."""
    instants = breakpoints(taken, now)
    return next(
        t
        for t in instants
        if all(
            fits(u, [*taken, (t, t + job.estimate, job.size)], nodes)
            for u in [t, *instants]
            if t <= u < t + job.estimate
        )
    )


def breakpoints(taken: list[tuple[float, float, int]], now: float) -> list[float]:
    """Every instant from now on at which something changes, ascending."""
    return sorted({now} | {t for start, end, _ in taken for t in (start, end) if t >= now})


def fits(t: float, taken: list[tuple[float, float, int]], nodes: int) -> bool:
    return sum(size for start, end, size in taken if start <= t < end) <= nodes
