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
from dq_server.core.model.pool import prospect
from dq_server.core.model.reasons import because
from dq_server.core.model.sizes import Configuration
from dq_server.core.model.state import State
from dq_server.core.model.stepfunction import StepFunction
from dq_server.core.planning import INF, adapted, in_line, place, running
from dq_server.core.policies.base import Start, StartPolicy


class ConservativeStart(StartPolicy):
    """See the module's docstring."""

    def __init__(self, config: SchedulerConfig) -> None:
        self._moldable = config.moldable
        self._in_order = config.order == "fcfs"
        self.promised: dict[int, float] = {}  # see State.promised, where the scheduler keeps it
        self._taken = StepFunction()  # by running and promised jobs, as of the last pass

    def choose(
        self,
        state: State,
        queue: Iterable[Job],
        config: SchedulerConfig,
        now: float,
    ) -> list[Start]:
        """See StartPolicy."""
        line = in_line(queue, None)
        self.promised = dict(state.promised)
        capacity = prospect(state)
        taken = self._with_promises(state, line, now)
        if taken is None:  # the plan is broken
            self.promised.clear()
            taken = running(state, now)
        elif not self._in_order or taken != self._seen_from(now):
            # In submission order compressing again what did not change moves nobody, so the last
            # pass is only remembered to save time. In another order the queue itself may have
            # changed, and a server that was restarted, which remembers nothing, must agree.
            self._compress(taken, line, capacity, now)
        for job in line:
            if job.id not in self.promised:
                self.promised[job.id] = place(taken, job, capacity, now)
        self._taken = taken
        smaller = self._adapt(line, capacity, now) if self._moldable else {}
        return self._due(state, line, smaller, now)

    def _with_promises(self, state: State, line: list[Job], now: float) -> StepFunction | None:
        """What is taken if all promises are kept; None if they cannot be."""
        waiting = {job.id for job in line}
        self.promised = {k: at_s for k, at_s in self.promised.items() if k in waiting}
        taken = running(state, now)
        for job in line:
            start_s = self.promised.get(job.id, INF)
            if start_s < now:
                return None
            _take(taken, job, start_s, job.preferred.size)
        return taken if taken.max(now, INF) <= prospect(state) else None

    def _seen_from(self, now: float) -> StepFunction:
        """The last pass's view of the time from `now` on."""
        if now > self._taken.origin_s:
            self._taken.forget_before(now)
        return self._taken

    def _compress(self, taken: StepFunction, line: list[Job], capacity: int, now: float) -> None:
        promised = [job for job in line if job.id in self.promised]
        moved = True
        while moved:
            moved = False
            for job in promised:
                before_s = self.promised[job.id]
                if before_s <= now:
                    continue
                _take(taken, job, before_s, -job.preferred.size)
                start_s = self.promised[job.id] = place(taken, job, capacity, now)
                moved = moved or start_s < before_s

    def _adapt(self, line: list[Job], capacity: int, now: float) -> dict[int, Configuration]:
        """Who starts now on a smaller size instead of waiting for its reservation, and on what."""
        found: dict[int, Configuration] = {}
        taken = self._taken
        for job in line:
            promised_s = self.promised[job.id]
            if promised_s <= now:
                continue
            _take(taken, job, promised_s, -job.preferred.size)
            smaller = adapted(taken, job, capacity, now)
            if smaller is not None:
                found[job.id] = smaller
                self.promised[job.id] = now
            else:
                _take(taken, job, promised_s, job.preferred.size)
        return found

    def _due(
        self, state: State, line: list[Job], smaller: dict[int, Configuration], now: float
    ) -> list[Start]:
        idle = state.idle
        starts: list[Start] = []
        waiting: Job | None = None  # the first that must wait
        for job in line:
            if self.promised[job.id] > now:
                waiting = waiting or job
                continue
            configuration = smaller.get(job.id, job.preferred)
            size = configuration.size
            reason = because("started", size=size, idle=idle)
            if waiting is not None:
                why = "it disturbs no reservation"
                reason = because("backfilled", size=size, idle=idle, why=why, head=waiting.id)
            starts.append(Start(job, configuration, reason))
            idle -= size
        return starts


def _take(taken: StepFunction, job: Job, start_s: float, amount: int) -> None:
    """Take `amount` processors for as long as the job plans to run; nothing for a start at +inf."""
    if start_s < INF:
        planned_s = job.spec.planned_s
        taken.add(start_s, INF if planned_s is None else start_s + planned_s, amount)
