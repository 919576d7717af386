"""Conservative backfilling: every waiting job has a reservation that is never put off.

Source: Mu'alem & Feitelson 2001, 2.1. A new job gets the earliest start that disturbs nobody's
reservation. When processors come back earlier than planned, the waiting jobs are looked at in queue
order and each moves to the earliest start that is free now (compression): it may start earlier and
never later than it was promised. This is repeated until nobody moves, so that a promise never waits
for a moment at which nothing happens.

Choices where the text is silent. A job that outlives its estimate breaks the plan: it is then
expected to end at any moment, and all reservations are made afresh. In a queue that is not in
submission order, newcomers too are placed behind all promises already given. Promises are made for
the initial size; with moldable start a job starts before its time on a smaller one if that disturbs
nobody's reservation.
"""

from __future__ import annotations

from collections.abc import Iterable

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import Job
from dq_server.core.model.state import State
from dq_server.core.model.stepfunction import StepFunction
from dq_server.core.planning import INF
from dq_server.core.planning.backfill import Promise, due, in_line, promises
from dq_server.core.planning.timeline import Timeline
from dq_server.core.policies.base import Start, StartPolicy


class ConservativeStart(StartPolicy):
    def __init__(self, config: SchedulerConfig) -> None:
        self._moldable = config.moldable
        self._in_order = config.order == "fcfs"
        self.promised: dict[int, float] = {}  # see State.promised, where the scheduler keeps it
        # As of the last pass: taken by running and promised jobs, and of how many.
        self._taken, self._capacity = StepFunction(), -1.0

    def choose(
        self, state: State, queue: Iterable[Job], config: SchedulerConfig, now: float
    ) -> list[Start]:
        line = in_line(queue, None)
        self.promised = dict(state.promised)
        room = self._with_promises(state, line, now)
        if room is None:  # the plan is broken
            self.promised.clear()
            room = Timeline(state, now)
        elif not self._in_order or self._changed(room, now):
            # In submission order compressing again what did not change moves nobody, so the last
            # pass is only remembered to save time. In another order the queue itself may have
            # changed, and a server that was restarted, which remembers nothing, must agree.
            self._compress(room, line, now)
        fresh = [job for job in line if job.id not in self.promised]
        made = {promise.job.id: promise for promise in promises(fresh, room, now, depth=INF)}
        self.promised |= {job_id: promise.start_s for job_id, promise in made.items()}
        self._taken, self._capacity = room.taken, room.capacity
        if self._moldable:
            made |= self._adapted(state, room, line, now)
        kept: list[Promise] = []
        for job in line:
            start_s = self.promised[job.id]
            if start_s <= now or not kept or kept[-1].start_s <= now:
                kept.append(made.get(job.id) or Promise(job, start_s, job.preferred))
        return due(kept, state.idle, now)

    def _with_promises(self, state: State, line: list[Job], now: float) -> Timeline | None:
        """The room beside all promises; None if they cannot be kept."""
        waiting = {job.id for job in line}
        self.promised = {k: at_s for k, at_s in self.promised.items() if k in waiting}
        room = Timeline(state, now)
        for job in line:
            start_s = self.promised.get(job.id, INF)
            if start_s < now:
                return None
            room.keep(job, start_s)
        return room if room.taken.max(now, INF) <= room.capacity else None

    def _changed(self, room: Timeline, now: float) -> bool:
        """Whether there is other room than the last pass expected for the time from `now` on."""
        if now > self._taken.origin_s:
            self._taken.forget_before(now)
        return room.capacity != self._capacity or room.taken != self._taken

    def _compress(self, room: Timeline, line: list[Job], now: float) -> None:
        """Move promises forward, in the order of the line, until none moves."""
        promised = [job for job in line if job.id in self.promised]
        moved = True
        while moved:
            moved = False
            for job in promised:
                before_s = self.promised[job.id]
                if before_s <= now:
                    continue
                room.keep(job, before_s, -1)
                start_s = room.promise(job, now)
                self.promised[job.id] = INF if start_s is None else start_s
                moved = moved or self.promised[job.id] < before_s

    def _adapted(
        self, state: State, room: Timeline, line: list[Job], now: float
    ) -> dict[int, Promise]:
        """Who starts now on a smaller size instead of waiting for what was promised."""
        smaller = Timeline(state, now, moldable=True, taken=room.taken)
        found: dict[int, Promise] = {}
        for job in line:
            promised_s = self.promised[job.id]
            if promised_s <= now:
                continue
            smaller.keep(job, promised_s, -1)
            configuration = smaller.start(job)
            if configuration is None:
                smaller.keep(job, promised_s)
            else:
                found[job.id] = Promise(job, now, configuration)
                self.promised[job.id] = now
        return found
