"""Slow, obviously correct schedulers to compare with, written from the definitions."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf


@dataclass
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


def simulate(jobs: list[J], nodes: int, schedule) -> list[float]:
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
