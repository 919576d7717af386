"""What others want of the processors that workers hold, or could take (features/workers.py).

Three kinds of others: jobs in the queue, as far as nobody has promised them a start; running jobs
that wait for more, by an order of their user, a request of their own or the next size that they are
still to try; and promises, which are due at a time (planning/).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import nextafter

from dq_server.core.model.jobs import AT_WORK, Job, JobKind, smallest_start
from dq_server.core.model.placing import capable, growth, room
from dq_server.core.model.points import is_resizable, next_larger
from dq_server.core.model.pool import prospect
from dq_server.core.model.requests import Asked, WaitingRequests
from dq_server.core.model.sizes import Configuration
from dq_server.core.model.state import State
from dq_server.core.model.workers import WorkerJobs
from dq_server.core.planning import ROUNDING_S, running
from dq_server.core.turn import INF, Turn


def in_order(state: State) -> list[Job]:
    """The worker jobs that are served: priority, then submission."""
    jobs = (state.active[k] for k in WorkerJobs.of(state).ids)
    served = [job for job in jobs if job.state in AT_WORK]
    return sorted(served, key=lambda job: (-job.spec.priority, job.id))


def grace_s(job: Job) -> float:
    """How long a worker of the job may take to leave, seconds."""
    assert job.spec.workers is not None
    return job.spec.workers.grace_s


def surplus(job: Job) -> int:
    """How many workers the job can be asked to give up."""
    return 0 if job.held is not None else job.size - job.spec.configurations[0].size


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

    for job, count in _asking(state):
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
    for job in state.unpromised(turn.now):  # `overdue` sees to those that are promised
        if left <= 0:
            break
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


def _asking(state: State) -> Iterator[tuple[Job, int]]:
    """Running jobs that wait for so many more: as their users ordered, then as they requested."""
    for job in state.active.values():
        target = job.wanted or job.held
        if target is not None and job.spec.kind is JobKind.MALLEABLE and job.resize is None:
            yield job, target.size - job.size
    for job in WaitingRequests.of(state).jobs.values():
        request = Asked.of(job).request
        if request is not None:
            yield job, request.more


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


def for_needs(turn: Turn, givers: list[tuple[Job, int]]) -> set[int]:
    """Processors of workers on nodes that jobs in the queue need for their memory, GPUs, names."""
    state, found = turn.state, set[int]()
    pool = state.processors
    held = [p for job, _ in givers for p in job.allocation]
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


def soon(now: float) -> float:
    """When what workers hold is back, as plans have it (`beyond`)."""
    return nextafter(nextafter(now, INF), INF)


def overdue(turn: Turn) -> int:
    """How many processors are promised within the grace of those who hold them now."""
    jobs = in_order(turn.state)
    if not sum(surplus(job) for job in jobs):
        return 0
    return max(0, -_unpromised(turn, max(grace_s(job) for job in jobs)))


def unclaimed(turn: Turn, job: Job) -> int:
    """How many idle processors are promised to nobody within the job's grace."""
    state = turn.state
    return min(state.idle, _unpromised(turn, grace_s(job))) if state.has_promises else state.idle


def _unpromised(turn: Turn, within_s: float) -> int:
    """Processors promised to nobody within this time, without those that workers can give back.

    Negative: so many that workers hold are promised.
    """
    state, back_s = turn.state, soon(turn.now)
    until_s = max(turn.now + within_s + ROUNDING_S, nextafter(back_s, INF))
    held = sum(surplus(job) for job in in_order(state))
    return prospect(state) - int(running(state, turn.now).max(back_s, until_s)) - held
