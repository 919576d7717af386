"""What others want of the processors that workers have taken (features/workers.py)."""

from __future__ import annotations

from collections.abc import Iterable

from dq_server.core.model.bounds import growth
from dq_server.core.model.fitting import smallest_start
from dq_server.core.model.jobs import Job, JobKind
from dq_server.core.model.placing import capable, room
from dq_server.core.model.points import is_resizable, next_larger
from dq_server.core.model.sizes import Configuration
from dq_server.core.model.state import State
from dq_server.core.turn import Turn


def wanted(turn: Turn, supply: int) -> tuple[int, str]:
    """How much of the supply others want and can use, and who the first of them is.

    The queue comes first, then whatever waits in the jobs that run; who needs more than is left is
    passed over.
    """
    state = turn.state
    if state.paused:
        return 0, ""
    in_queue, first = _wanted_in_queue(turn, supply)
    left = supply - in_queue

    def serve(count: int, who: str) -> None:
        nonlocal left, first
        if 0 < count <= left:
            left -= count
            first = first or who

    for feature in turn.features["wants"]:
        for job, count in feature.wants(turn):
            serve(count, f"job {job.id}")
    if turn.policies.resize.expands:
        for job in state.active.values():
            serve(next_step(state, job), f"job {job.id}")
    return supply - left, first


def _wanted_in_queue(turn: Turn, supply: int) -> tuple[int, str]:
    """How much of the supply jobs in the queue could use at most, and who the first of them is.

    In order until one does not fit. Behind it any that fit may be backfilled, in whatever selection
    the start policy allows: so much is wanted as the largest sum of such a selection needs.
    """
    state, left, first = turn.state, supply, ""
    blocked, sums = False, 1  # bit k: a selection of those behind needs k processors
    for job in state.line(turn.now):
        if left <= 0:
            break
        if state.excused(job):
            continue  # its start is promised: `_overdue` sees to that
        size = smallest_start(job, turn.config.moldable)
        blocked = blocked or size > left
        if size > left:
            continue
        first = first or f"job {job.id}"
        if blocked:
            sums |= (sums << size) & ((2 << left) - 1)
            if sums >> left:
                break  # all of it
        else:
            left -= size
    return supply - left + sums.bit_length() - 1, first


def next_step(state: State, job: Job) -> int:
    """By how many processors a malleable job would grow next; 0: it does not want to."""
    if job.spec.kind is not JobKind.MALLEABLE or not is_resizable(state, job) or job.cannot_grow:
        return 0
    target: Configuration | None = next_larger(job)
    spot = job.performance.sweet_spot
    if target is None or (spot is not None and job.size >= spot.size):
        return 0
    more = target.size - job.size
    return more if job.performance.allows(target) and growth(state, job, more) == more else 0


def needed_where(turn: Turn, givers: Iterable[Job]) -> set[int]:
    """Processors of workers on nodes that jobs in the queue need for their memory, GPUs, names."""
    state, found = turn.state, set[int]()
    pool = state.processors
    held = [p for job in givers for p in job.allocation]
    for job in state.line(turn.now):
        needs = job.spec.needs
        if needs is None:
            continue
        missing = smallest_start(job, turn.config.moldable) - room(state, job)
        usable = [
            p for p in held if p not in found and capable(pool.nodes[pool.node_of[p]], needs) > 0
        ]
        vacating = sum(capable(pool.nodes[pool.node_of[p]], needs) > 0 for p in pool.vacating)
        if 0 < missing - vacating <= len(usable):
            found.update(usable[: missing - vacating])
    return found
