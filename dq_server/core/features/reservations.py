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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dq_server.core.feature import Feature, Rank, handles
from dq_server.core.model import events as ev
from dq_server.core.model.decisions import Start, Verdict
from dq_server.core.model.errors import (
    InfeasibleRequest,
    InvalidSpec,
    InvariantViolation,
    UnknownReservation,
)
from dq_server.core.model.events import AdvanceReservation
from dq_server.core.model.jobs import Job, JobKind, JobSpec, JobState
from dq_server.core.model.points import resizable
from dq_server.core.model.pool import prospect
from dq_server.core.model.reasons import Reason, because, declare
from dq_server.core.model.records import Record
from dq_server.core.model.sizes import largest_at_most
from dq_server.core.model.state import Place, PlaceOf, Promises, State
from dq_server.core.model.stepfunction import StepFunction
from dq_server.core.planning import running
from dq_server.core.turn import Turn

LEAD_S = 60.0

declare(
    started_inside="inside reservation {reservation}, on {size} of {idle} idle processors",
    reservation_later="reservation {reservation} begins in {in_s:.0f} s",
    reservation_short="of reservation {reservation} {left_s:.0f} s are left, less than the"
    " walltime",
    reservation_full="the job needs {size} processors; of the {processors} of reservation"
    " {reservation} its jobs hold {held}, {idle} are idle, and jobs start in their order",
    inside_reservation="a job inside a reservation ({reservation}) keeps its size {size}",
    shrink_for_reservation="reservation {reservation} begins in {in_s:.0f} s: from {size} to"
    " {next_size}",
    reservation_begins="past its planned end, and reservation {reservation} begins",
    reservation_over="reservation {reservation} is over",
)


@dataclass(slots=True)
class Booked(Record, key="Booked"):
    """Of the state: reservations that are not over."""

    by_name: dict[str, AdvanceReservation] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)  # those whose beginning was noticed


class Reservations(Feature, Promises):
    claimant = "a reservation"

    # --- making and ending ----------------------------------------------------------------------

    @handles(ev.ReservationMade)
    def made(self, turn: Turn, event: ev.ReservationMade) -> None:
        """`dq reserve`; the same request again changes nothing."""
        booked, wanted = Booked.of(turn.state).by_name, event.reservation
        known = booked.get(wanted.name)
        if known is not None and known.request_id == wanted.request_id:
            return
        if known is not None:
            raise InvalidSpec(f"there is a reservation named {wanted.name} already")
        _check(turn.state, wanted, turn.now)
        booked[wanted.name] = wanted
        turn.schedule()

    @handles(ev.ReservationCancelled)
    def cancelled(self, turn: Turn, event: ev.ReservationCancelled) -> None:
        """`dq reserve --cancel`: its jobs, waiting or running, go on as ordinary ones."""
        if event.name not in Booked.of(turn.state).by_name:
            raise UnknownReservation(f"no reservation {event.name}")
        _over(turn.state, event.name)
        turn.schedule()

    def tick(self, turn: Turn) -> None:
        """Reservations begin and end: who is in the way is killed."""
        if Booked.of(turn.state).by_name:
            for job, why in _in_the_way(turn.state, turn.now):
                if job.state is not JobState.KILLING:  # its own may end when another one begins
                    turn.kill(job, why)

    def deadline(self, turn: Turn) -> Iterable[float]:
        """When the next reservations begin or end."""
        booked = Booked.of(turn.state)
        for r in booked.by_name.values():
            yield r.end_s if r.name in booked.begun else r.start_s

    # --- jobs inside ----------------------------------------------------------------------------

    def admit(self, turn: Turn, spec: JobSpec, count: int, *, running: bool) -> None:
        """Refuse a job that names a reservation which it can never run in."""
        if not spec.reservation:
            return
        r = Booked.of(turn.state).by_name.get(spec.reservation)
        if r is None or r.end_s <= turn.now:
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

    def line(self, state: State) -> PlaceOf | None:
        """Jobs that wait for a reservation stand outside the queue's order."""
        booked = Booked.of(state).by_name
        if not booked:
            return None
        return lambda job: Place.ASIDE if job.spec.reservation in booked else Place.IN_ORDER

    def starts(self, turn: Turn) -> list[Start]:
        """Who starts inside a reservation."""
        state, now = turn.state, turn.now
        booked = Booked.of(state).by_name
        if not booked:
            return []
        idle, found = state.idle, []
        room = {
            r.name: r.processors - held_inside(state, r.name)
            for r in booked.values()
            if r.start_s <= now < r.end_s
        }
        for job in turn.policies.order.ordered(state, now) if room else ():
            name, size = job.spec.reservation, job.preferred.size
            if name not in room or not _in_time(job, booked[name], now):
                continue
            if size > min(room[name], idle):
                room[name] = 0  # first come, first served
                continue
            room[name] -= size
            idle -= size
            reason = because("started_inside", reservation=name, size=size, idle=state.idle)
            found.append(Start(job, job.preferred, reason))
        return found

    def started(self, turn: Turn, job: Job) -> None:
        """While there is its reservation, only `starts` starts it: it stands aside."""
        job.keeps_size = job.spec.reservation in Booked.of(turn.state).by_name

    def stopped(self, turn: Turn, job: Job, *, goes_on: bool) -> None:
        """This start of the job is over."""
        if not goes_on:
            job.keeps_size = False

    # --- what others may have -------------------------------------------------------------------

    def promises(self, state: State) -> Promises | None:
        return self if Booked.of(state).by_name else None

    def claims(self, state: State, taken: StepFunction, now: float, *, to_promise: bool) -> None:
        """The whole of each reservation, whoever runs inside it."""
        for r in Booked.of(state).by_name.values():
            taken.add(max(now, r.start_s), r.end_s, r.processors)

    def beyond(
        self, state: State, job: Job, end_s: float, held: int, now: float, *, to_promise: bool
    ) -> tuple[float, int]:
        """Jobs that run inside a reservation hold processors of that."""
        within = Booked.of(state).by_name.get(reservation_of(job))
        if within is None:
            return end_s, held
        return (end_s, 0) if within.end_s > now else (now, held)

    def may_take(self, state: State, job: Job) -> int | None:
        """A job inside a reservation has what that has left."""
        name = reservation_of(job)
        if not name:
            return None
        return Booked.of(state).by_name[name].processors - held_inside(state, name)

    def verdict(self, turn: Turn, job: Job, rank: Rank) -> Verdict | None:
        """Keep its size inside a reservation; make room for one that begins soon."""
        booked = Booked.of(turn.state).by_name
        if rank is Rank.BEFORE_USER or not booked or job.spec.kind is not JobKind.MALLEABLE:
            return None
        name = reservation_of(job)
        if name:
            return Verdict(None, because("inside_reservation", reservation=name, size=job.size))
        return _make_room(turn, job, booked.values())

    # --- to be seen -----------------------------------------------------------------------------

    def explain(self, turn: Turn, job: Job) -> list[Reason]:
        """Why a job that names a reservation waits."""
        r = Booked.of(turn.state).by_name.get(job.spec.reservation)
        if r is None or job.state is not JobState.QUEUED:
            return []
        if turn.now < r.start_s:
            in_s = r.start_s - turn.now
            return [because("reservation_later", reservation=r.name, in_s=in_s)]
        if not _in_time(job, r, turn.now):
            left_s = r.end_s - turn.now
            return [because("reservation_short", reservation=r.name, left_s=left_s)]
        reason = because(
            "reservation_full",
            reservation=r.name,
            processors=r.processors,
            held=held_inside(turn.state, r.name),
            size=job.preferred.size,
            idle=turn.state.idle,
        )
        return [reason]

    def view(self, state: State, job: Job) -> Mapping[str, Any]:
        return {"reservation": job.spec.reservation}

    def check(self, state: State) -> None:
        for r in Booked.of(state).by_name.values():
            inside = held_inside(state, r.name)
            if inside > r.processors:
                raise InvariantViolation(f"{inside} processors held inside {r}")


def held_inside(state: State, name: str) -> int:
    """Processors that the reservation's jobs hold."""
    return sum(len(job.holds()) for job in state.active.values() if reservation_of(job) == name)


def reservation_of(job: Job) -> str:
    """The reservation that the job runs in; empty: none."""
    return job.spec.reservation if job.keeps_size else ""


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
    free = prospect(state) - int(taken)
    can_give = sum(job.size - job.spec.configurations[0].size for job in resizable(state))
    if count > free + can_give:
        raise InfeasibleRequest(
            f"the reservation asks for {count} processors: at that time {max(0, free)} are free"
            f" and malleable jobs can give back {can_give} (a job without walltime and estimate"
            " counts as running for ever)"
        )


def _over(state: State, name: str) -> list[Job]:
    """The reservation is no more. Returns the jobs that ran inside it."""
    booked = Booked.of(state)
    del booked.by_name[name]
    booked.begun.discard(name)
    inside = [job for job in state.active.values() if reservation_of(job) == name]
    for job in inside:
        job.keeps_size = False
        state.touch(job)
    return inside


def _in_the_way(state: State, now: float) -> list[tuple[Job, Reason]]:
    """Reservations begin and end: the jobs that must be killed for it, and why."""
    gone: list[tuple[Job, Reason]] = []
    booked = Booked.of(state)
    for r in [r for r in booked.by_name.values() if r.end_s <= now]:
        why = because("reservation_over", reservation=r.name)
        gone += [(job, why) for job in _over(state, r.name) if job.state is not JobState.KILLING]
    begun = [r for r in booked.by_name.values() if r.start_s <= now]
    booked.begun |= {r.name for r in begun}
    short = sum(r.processors - held_inside(state, r.name) for r in begun)
    short -= state.idle + state.incoming()
    # The last that started first: it has the least to lose.
    for job in reversed(list(state.active.values()) if short > 0 else []):
        late = job.planned is not None and job.planned[0] <= now
        if short > 0 and late and not job.keeps_size and job.state is not JobState.KILLING:
            short -= state.processors.returning(job.allocation)
            gone.append((job, because("reservation_begins", reservation=begun[0].name)))
    return gone


def _in_time(job: Job, r: AdvanceReservation, now: float) -> bool:
    walltime_s = job.spec.walltime_s
    return walltime_s is None or now + walltime_s <= r.end_s


def _make_room(turn: Turn, job: Job, booked: Iterable[AdvanceReservation]) -> Verdict | None:
    """A shrink of a malleable job for a reservation that begins soon; None: none is needed."""
    state, now = turn.state, turn.now
    lead_s = max(LEAD_S, 2 * max(job.performance.known.values(), default=0.0))
    near = [r for r in booked if r.start_s <= now + lead_s and r.end_s > now]
    for r in near:
        taken = int(running(state, now).max(max(now, r.start_s), r.end_s))
        short = taken - prospect(state) - state.incoming()
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
