"""Logs whose rigid jobs use none of the scheduler's features: simulated by counting processors.

What full simulations spend on jobs, events and reasons that nobody looks at is left out; the
schedule is the same (core/counted.py). A simulation takes this path by itself where it may.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from dq_server.core.counted import Counted, suffices
from dq_server.core.model.processors import AnonymousProcessors
from dq_server.core.model.quotas import QuotaOptions
from dq_server.core.scheduler import Scheduler
from dq_server.sim.workload import RigidWorkload, Workload

if TYPE_CHECKING:
    from dq_server.sim.engine import Simulation

INF = float("inf")


def may_count(workload: Workload, scheduler: Scheduler) -> bool:
    """Whether counts decide all: nothing but rigid jobs, and a machine that stays as it is."""
    if type(workload) is not RigidWorkload or workload.follows or workload.enforce_estimates:
        return False
    if type(scheduler.state.processors) is not AnonymousProcessors:
        return False
    sizes, planned_s = workload.processors, workload.estimate_s
    # What a JobSpec would refuse is left to it.
    sound = all(size > 0 for size in sizes) and all(0 <= time_s < INF for time_s in planned_s)
    limited = scheduler.config.of(QuotaOptions).limited
    return sound and not limited and suffices(scheduler.policies)


def run_counted(sim: Simulation, workload: RigidWorkload, nodes: int) -> None:
    """All of `sim`, from the first submission to the last end; fills its records."""
    counted = Counted(nodes, workload.processors, workload.estimate_s, sim.scheduler.policies)
    records, run_s = sim.records, workload.run_s
    start_s, end_s, processors = records.start_s, records.end_s, records.processors
    ends: list[tuple[float, int]] = []
    submissions = sim.submissions()
    submit_s, k = next(submissions)
    while True:
        now = ends[0][0] if ends and ends[0][0] < submit_s else submit_s
        if now == INF:
            break
        ended, submitted = [], []
        while ends and ends[0][0] == now:
            ended.append(heappop(ends)[1])
        while submit_s == now:
            submitted.append(k)
            submit_s, k = next(submissions)
        sim.submitted += len(submitted)
        for job in counted.turn(now, ended, submitted):
            start_s[job] = now
            end_s[job] = then_s = now + run_s[job]
            processors[job] = workload.processors[job]
            heappush(ends, (then_s, job))
    records.backfilled = counted.backfilled
