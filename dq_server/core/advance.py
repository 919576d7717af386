"""Advance reservations: processors kept from a time on, for the jobs that name the reservation.

Whoever plans, starts or expands a job sees a reservation as taken (planning.running), so that
nobody gets processors that would have to be back before the job's planned end: its estimate, else
its walltime, else never. Jobs submitted with the reservation's name stand outside the queue's order
and run inside it, first come first served.

Choices. A reservation is made only if its processors will be there if all jobs end as planned,
where malleable jobs that have reached a remap point may be asked to shrink: they do so at their
first remap point within LEAD_S (or two of their iterations, if that is longer) of the beginning. A
job past its planned end that is in the way when a reservation begins is killed. A job inside a
reservation keeps its size, and is killed when the reservation ends. If one starts with a walltime
that is too long for what is left, it waits; what still waits at the end becomes an ordinary job.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dq_server.core.errors import InfeasibleRequest, InvalidSpec, UnknownReservation
from dq_server.core.events import ReservationCancelled, ReservationMade
from dq_server.core.jobs import Job, JobSpec, JobState
from dq_server.core.planning import running
from dq_server.core.points import resizable
from dq_server.core.policies.base import Start, Verdict
from dq_server.core.reasons import Reason, because
from dq_server.core.sizes import largest_at_most
from dq_server.core.state import AdvanceReservation, State

if TYPE_CHECKING:
    from dq_server.core.actions import Action
    from dq_server.core.scheduler import Scheduler

LEAD_S = 60.0


# --- making and ending -----------------------------------------------------------------------


def made(s: Scheduler, event: ReservationMade, now: float, actions: list[Action]) -> None:
    """`dq reserve`; the same request again changes nothing."""
    state, wanted = s.state, event.reservation
    known = state.booked.get(wanted.name)
    if known is not None and known.request_id == wanted.request_id:
        return
    if known is not None:
        raise InvalidSpec(f"there is a reservation named {wanted.name} already")
    _check(state, wanted, now)
    state.booked[wanted.name] = wanted
    s.schedule(now, actions)


def _check(state: State, wanted: AdvanceReservation, now: float) -> None:
    count, capacity = wanted.processors, state.processors.capacity
    if count < 1 or not wanted.start_s < wanted.end_s < float("inf"):
        raise InvalidSpec("a reservation needs at least one processor and a duration above 0 s")
    if wanted.end_s <= now:
        raise InvalidSpec("the reservation would be over already")
    if count > capacity:
        raise InfeasibleRequest(
            f"the reservation asks for {count} processors, the cluster has {capacity}"
        )
    taken = running(state, now).max(max(now, wanted.start_s), wanted.end_s)
    free = capacity - int(taken)
    can_give = sum(job.size - job.spec.configurations[0].size for job in resizable(state))
    if count > free + can_give:
        raise InfeasibleRequest(
            f"the reservation asks for {count} processors: at that time {max(0, free)} are free"
            f" and malleable jobs can give back {can_give} (a job without walltime and estimate"
            " counts as running for ever)"
        )


def cancelled(s: Scheduler, event: ReservationCancelled, now: float, actions: list[Action]) -> None:
    """`dq reserve --cancel`: its jobs, waiting or running, go on as ordinary ones."""
    if event.name not in s.state.booked:
        raise UnknownReservation(f"no reservation {event.name}")
    _over(s.state, event.name)
    s.schedule(now, actions)


def _over(state: State, name: str) -> list[Job]:
    """The reservation is no more. Returns the jobs that ran inside it."""
    del state.booked[name]
    state.begun.discard(name)
    inside = [job for job in state.active.values() if job.inside == name]
    for job in inside:
        job.inside = ""
    return inside


# --- time ------------------------------------------------------------------------------------


def in_the_way(state: State, now: float) -> list[tuple[Job, Reason]]:
    """Reservations begin and end: the jobs that must be killed for it, and why."""
    gone: list[tuple[Job, Reason]] = []
    for r in [r for r in state.booked.values() if r.end_s <= now]:
        why = because("reservation_over", reservation=r.name)
        gone += [(job, why) for job in _over(state, r.name) if job.state is not JobState.KILLING]
    begun = [r for r in state.booked.values() if r.start_s <= now]
    state.begun |= {r.name for r in begun}
    short = sum(r.processors - held_inside(state, r.name) for r in begun)
    short -= state.idle + state.incoming()
    for job in reversed(list(state.active.values()) if short > 0 else []):
        late = job.planned is not None and job.planned[0] <= now
        if short > 0 and late and not job.inside and job.state is not JobState.KILLING:
            short -= job.size
            gone.append((job, because("reservation_begins", reservation=begun[0].name)))
    return gone


def deadlines(state: State) -> Iterator[float]:
    """When the next reservations begin or end."""
    for r in state.booked.values():
        yield r.end_s if r.name in state.begun else r.start_s


# --- jobs inside -----------------------------------------------------------------------------


def held_inside(state: State, name: str) -> int:
    """Processors that the reservation's jobs hold."""
    return sum(len(job.holds()) for job in state.active.values() if job.inside == name)


def admit(state: State, spec: JobSpec, now: float) -> None:
    """Refuse a job that names a reservation which it can never run in."""
    r = state.booked.get(spec.reservation)
    if r is None or r.end_s <= now:
        raise UnknownReservation(f"no reservation {spec.reservation}")
    if spec.profile:
        raise InvalidSpec("a job with a profile cannot run inside a reservation")
    if r.user and spec.user != r.user:
        raise InfeasibleRequest(f"reservation {r.name} is for user {r.user}")
    if spec.initial.size > r.processors:
        raise InfeasibleRequest(
            f"the job asks for {spec.initial.size} processors, reservation {r.name} has"
            f" {r.processors}"
        )
    if spec.walltime_s is not None and spec.walltime_s > r.end_s - r.start_s:
        raise InfeasibleRequest(
            f"a walltime of {spec.walltime_s:g} s is longer than reservation {r.name}"
        )


def starts(s: Scheduler, now: float) -> list[Start]:
    """Part of every scheduling pass: who starts inside a reservation."""
    state = s.state
    idle, found = state.idle, []
    room = {
        r.name: r.processors - held_inside(state, r.name)
        for r in state.booked.values()
        if r.start_s <= now < r.end_s
    }
    for job in s.order.ordered(state, now) if room else ():
        name, size = job.spec.reservation, job.preferred.size
        if name not in room or not _in_time(job, state.booked[name], now):
            continue
        if size > min(room[name], idle):
            room[name] = 0  # first come, first served
            continue
        room[name] -= size
        idle -= size
        reason = because("started_inside", reservation=name, size=size, idle=state.idle)
        found.append(Start(job, job.preferred, reason))
    return found


def _in_time(job: Job, r: AdvanceReservation, now: float) -> bool:
    walltime_s = job.spec.walltime_s
    return walltime_s is None or now + walltime_s <= r.end_s


def explain(s: Scheduler, job: Job, now: float) -> Reason:
    """Why a job that names a reservation waits."""
    r = s.state.booked[job.spec.reservation]
    if now < r.start_s:
        return because("reservation_later", reservation=r.name, in_s=r.start_s - now)
    if not _in_time(job, r, now):
        left_s = r.end_s - now
        return because("reservation_short", reservation=r.name, left_s=left_s)
    held = held_inside(s.state, r.name)
    size, idle = job.preferred.size, s.state.idle
    return because(
        "reservation_full",
        reservation=r.name,
        processors=r.processors,
        held=held,
        size=size,
        idle=idle,
    )


# --- jobs outside ----------------------------------------------------------------------------


def verdict(s: Scheduler, job: Job, now: float) -> Verdict | None:
    """What a malleable job does at its remap point because of reservations; None: as it likes."""
    state = s.state
    if job.inside:
        return Verdict(None, because("inside_reservation", reservation=job.inside, size=job.size))
    times_s = job.performance.known.values()
    lead_s = max(LEAD_S, 2 * max(times_s, default=0.0))
    near = [r for r in state.booked.values() if r.start_s <= now + lead_s and r.end_s > now]
    for r in near:
        taken = int(running(state, now).max(max(now, r.start_s), r.end_s))
        short = taken - state.processors.capacity - state.incoming()
        if short <= 0:
            continue
        legal, size = job.chain, job.size
        target = largest_at_most(legal, size - short) if size - short >= legal[0].size else None
        target = target or legal[0]
        if target.size < size:
            in_s = max(0.0, r.start_s - now)
            figures = {"size": size, "next_size": target.size}
            reason = because("shrink_for_reservation", reservation=r.name, in_s=in_s, **figures)
            return Verdict(target, reason)
    return None
