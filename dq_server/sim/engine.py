"""The discrete-event shell round the scheduler: simulated time, applications, records.

Theory of operation. The scheduler is the one the server runs; this shell hands it events with
simulated times and carries its actions out on simulated applications. Events under way wait in a
heap, submissions in the workload. Of one instant, first come the ends and then the submissions, all
with one scheduling pass (`Scheduler.handle_together`), as in textbook simulators; after them the
rest one by one, in the order in which they were set going. A sequence number makes ties
deterministic and names the event for cancelling.

Processors are anonymous (core/model/processors.py) and ended jobs forgotten, so that memory depends
on the jobs that wait or run, beside some numbers per job in Records.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from typing import Any

from dq_server.core.model import actions as act
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.errors import InfeasibleRequest
from dq_server.core.model.events import (
    AdvanceReservation,
    DynamicRequested,
    Event,
    JobStarted,
    JobSubmitted,
    NodeJoined,
    NodeLeft,
    NodeLost,
    PointsPassed,
    RemapPoint,
    ReservationMade,
    Tick,
)
from dq_server.core.model.jobs import JobSpec, JobState
from dq_server.core.model.launching import Launching
from dq_server.core.model.pool import PoolOptions
from dq_server.core.model.processors import Processors
from dq_server.core.model.quotas import QuotaOptions
from dq_server.core.model.reasons import because, declare
from dq_server.core.model.spec import RETRY_MAX
from dq_server.core.model.state import State
from dq_server.core.scheduler import Scheduler
from dq_server.core.settings import configured
from dq_server.sim.anonymous import AnonymousProcessors
from dq_server.sim.applications import ENDS, OTHERS, Application, Asking, Crew, Iterating
from dq_server.sim.counted import may_count, run_counted
from dq_server.sim.errors import WorkloadError
from dq_server.sim.feedback import Feedback
from dq_server.sim.malleable import MalleableWorkload, resizes_nobody
from dq_server.sim.pool import PlayedEngine, SimPool
from dq_server.sim.records import SimulatedJobs
from dq_server.sim.resting import Resting, may_rest
from dq_server.sim.workload import ListedWorkload, Outage, RigidWorkload, Workload

declare(request_impossible="{why}")

INF = float("inf")


def _check_nodes(joining: Sequence[NodeJoined], processors: int, pool: SimPool | None) -> None:
    """WorkloadError unless the nodes of the workload are those that are simulated."""
    have = sum(node.processors for node in joining)
    if pool is not None:
        raise WorkloadError("the workload has nodes of its own and cannot be run on a pool")
    if have != processors:
        raise WorkloadError(f"the workload's nodes have {have} processors, not {processors}")


class Simulation:
    """One run of one workload under one configuration. `run` may be called once."""

    def __init__(
        self,
        workload: Workload,
        nodes: int,
        config: SchedulerConfig,
        *,
        processors: Processors | None = None,
        reservations: Sequence[AdvanceReservation] = (),
        outages: Sequence[Outage] = (),
        pool: SimPool | None = None,
        seed: int = 0,
        by_events: bool = False,
    ) -> None:
        """`pool`: the processors come from it, `nodes` is not used; `seed`: of its start-ups.

        outages    no two at a time. The processors with the lowest numbers fail, which jobs take
                   first; jobs on them start again, from their beginning
        by_events  hand every event to the scheduler, also where counting gives the same schedule
        """
        if isinstance(workload, MalleableWorkload) and resizes_nobody(config):
            workload = workload.rigid
        self.workload = workload
        nodes = nodes if pool is None else pool.processors
        self.records = SimulatedJobs(workload, nodes)
        remembered = len(workload) if workload.follows else 0  # what others may come after
        # No ranks: so none rotate, whatever starts them on the server that the configuration is of.
        config = replace(config, confirm_vacated=False, keep_ended=remembered, keep_decisions=0,
                         launching=Launching.MPIEXEC)  # fmt: skip
        joining = workload.nodes if isinstance(workload, ListedWorkload) else ()
        if joining:
            _check_nodes(joining, nodes, pool)
        if outages:
            joining = Outage.parts(nodes, outages)
        if joining:
            processors = processors or Processors()
        if processors is None:  # those of a pool come and go with their nodes, which have names
            processors = AnonymousProcessors() if pool is None else Processors()
        config = configured(config, pool=PoolOptions() if pool is None else pool.options)
        self.scheduler = Scheduler(config, State(processors=processors))
        self._quotas = config.of(QuotaOptions).limited
        policies = self.scheduler.policies
        self.polls = policies.resize.polls or policies.shrink is not None
        self.now = 0.0
        self.submitted = 0  # jobs whose time has come
        # Time, rank, when it was set going, number, event: what of one instant comes first.
        self._heap: list[tuple[float, int, float, int, Event]] = []
        self._seq = 0
        self._cancelled: set[int] = set()
        self._refused: set[int] = set()  # jobs that asked for what can never be
        self._running: dict[int, Application] = {}
        self._outages = outages
        self._by_events = by_events or bool(reservations or outages) or pool is not None
        self.resting: Resting | None = None
        if not self._by_events and may_rest(workload, self.scheduler):
            self.resting = Resting(self)
        self._feedback = Feedback(workload, self.records) if workload.follows else None
        self._tick: tuple[float, int] = (INF, 0)  # the next one that is due, and its number
        self._carry_out: dict[type, Callable[[Any], None]] = {
            act.JobAccepted: self._ignore,
            act.StartJob: self._start,
            act.JobFinished: self._finished,
            act.JobRestarts: self._restarts,
            act.AnswerRemap: self._answer,
            act.AnswerRequest: self._answer_request,
            act.CallRemap: self._call,
            act.KillJob: self._kill,
            act.WarnJob: self._ignore,
            act.NodeEmptied: self._emptied,
            act.ResizeWorkers: self._resize_workers,
        }
        self._engine: PlayedEngine | None = None
        if pool is not None:
            self._engine = engine = PlayedEngine(pool, seed, self.at, self.cancel)
            self._carry_out |= {
                act.AskNodes: lambda action: engine.ask(action, self.now),
                act.GiveNode: lambda action: engine.give(action, self.now),
                act.NodeEmptied: lambda action: engine.emptied(action, self.now),
            }
            self.records.pool = engine.history
            self._book(reservations)
            return
        for node in joining or (NodeJoined("cluster", nodes),):
            for action in self.scheduler.handle(node, 0.0):
                raise AssertionError(f"an empty cluster has nothing to do: {action}")
        self._book(reservations)
        for outage in outages:
            for part in outage.of(joining):
                self.at(outage.start_s, NodeLost(part.node, "outage"))
                self.at(outage.end_s, part, ENDS)

    def _book(self, reservations: Iterable[AdvanceReservation]) -> None:
        for reservation in reservations:
            self.scheduler.handle(ReservationMade(reservation), 0.0)
            # Each a tick of its own: what another one at the same moment frees, this one sees.
            self.at(reservation.start_s, Tick())
            self.at(reservation.end_s, Tick())

    # -- what applications use -------------------------------------------------------------------

    def at(
        self, time_s: float, event: Event, rank: int = OTHERS, issued_s: float | None = None
    ) -> int:
        """Let `event` happen at `time_s`; returns the number to cancel it by.

        issued_s  since when it would have been under way, if not since now
        """
        self._seq += 1
        issued_s = self.now if issued_s is None else issued_s
        heappush(self._heap, (time_s, rank, issued_s, self._seq, event))
        return self._seq

    def cancel(self, number: int) -> None:
        """An event that has not happened yet will not; 0 is no event."""
        if number:
            self._cancelled.add(number)

    def resized(self, job: int, time_s: float, size: int, before: int) -> None:
        """For the records: from `time_s` on the job holds `size` processors."""
        self.records.resized(job, time_s, size, before)

    # -- the loop --------------------------------------------------------------------------------

    def run(self) -> SimulatedJobs:
        """Simulate until nothing is left to happen."""
        collecting = gc.isenabled()
        gc.disable()  # millions of short-lived objects and no cycles
        workload = self.workload
        try:
            if not self._by_events and may_count(workload, self.scheduler):
                assert isinstance(workload, RigidWorkload), "or its jobs could not be counted"
                run_counted(self, workload, self.records.nodes)
            else:
                self._loop()
        finally:
            if collecting:
                gc.enable()
        state = self.scheduler.state
        if self._engine is not None:
            self._engine.history.close(self.records.last_end_s)
        if self._feedback is not None:
            self._feedback.close()
        left = sum(job.state is JobState.WAITING for job in state.jobs.values())
        self.records.close(len(state.queue) + left)
        return self.records

    def _loop(self) -> None:
        heap, handle = self._heap, self.scheduler.handle
        submissions = self.submissions()
        submit_s, k = next(submissions)
        while True:
            now = heap[0][0] if heap and heap[0][0] < submit_s else submit_s
            if now == INF:
                return
            self.now = now
            batch: list[Event] = []
            while heap and heap[0][0] == now and heap[0][1] == ENDS:
                self._take(batch)
            while submit_s == now:
                if self._quotas and batch:  # how many a user has in the system, these included
                    self._do(self.scheduler.handle_together(batch, now))
                    batch = []
                self._submit(k, batch)
                submit_s, k = next(submissions)
            if batch:
                together = self.scheduler.handle_together
                self._do(handle(batch[0], now) if len(batch) == 1 else together(batch, now))
                if self.resting is not None:
                    self.resting.stir(None)
            elif heap and heap[0][0] == now:
                issued_s = heap[0][2]
                self._take(batch)
                for event in batch:
                    self._handle(event, issued_s)
            self._set_tick()

    def _handle(self, event: Event, issued_s: float) -> None:
        """An event that comes by itself; `issued_s`: when it was set going."""
        resting, scheduler, now = self.resting, self.scheduler, self.now
        if isinstance(event, RemapPoint) and event.job not in self._running:
            return  # its walltime ended at this very moment
        if isinstance(event, DynamicRequested):
            self._do(self._asked(event))
            return
        if resting is None:
            self._do(scheduler.handle(event, now))
            return
        if not isinstance(event, RemapPoint):
            self._do(scheduler.handle(event, now))
            resting.stir(issued_s)
            return
        job = scheduler.state.jobs[event.job]
        application = self._running[event.job]
        assert isinstance(application, Iterating), "no other kind reports remap points here"
        count = resting.passes(job, event.instance, application)
        if count:
            application.pass_by(self, event.job, event.instance, now, count)
            return
        passed = resting.passed(event.job)
        if passed:
            told = PointsPassed(event.job, event.instance, passed, event.iteration_time_s)
            self._do(scheduler.handle(told, now))
        before = resting.seen(job)
        actions = scheduler.handle(event, now)
        learned = resting.learned(before, job)
        self._do(actions)
        if learned:
            resting.stir(issued_s)

    def _asked(self, event: DynamicRequested) -> list[act.Action]:
        """What the scheduler does with a request; one that can never be granted is rejected."""
        try:
            return self.scheduler.handle(event, self.now)
        except InfeasibleRequest as error:
            if event.job not in self._refused:
                self._refused.add(event.job)
                self.records.notes["requests refused: more than the machine, or a quota, has"] += 1
            why = because("request_impossible", why=str(error))
            answer = act.RequestAnswer(event.request, act.Outcome.REJECTED, event.more, None, why)
            return [act.AnswerRequest(event.job, event.instance, answer)]

    def _set_tick(self) -> None:
        """Make sure that a tick comes when the scheduler wants one."""
        wanted_s = self.scheduler.next_wakeup(self.now)
        at_s, number = self._tick
        if wanted_s is not None and (wanted_s != at_s or at_s <= self.now):
            if at_s > self.now:
                self.cancel(number)
            self._tick = wanted_s, self.at(max(wanted_s, self.now), Tick())

    def _take(self, batch: list[Event]) -> None:
        """Move the first event of the heap to `batch`, unless it was cancelled."""
        *_, number, event = heappop(self._heap)
        if number in self._cancelled:
            self._cancelled.remove(number)
        else:
            if self._feedback is not None and isinstance(event, JobSubmitted):
                k = self._feedback.due(number)
                spec = self._feedback.spec(k, self.scheduler.state)
                if spec is None or self._refuses(spec, k):
                    self._release(self._feedback.gone(k))
                    return
                event = JobSubmitted(spec)
                self._number(k, self._feedback)
            batch.append(event)

    def submissions(self) -> Iterator[tuple[float, int]]:
        """Time and number of the workload's jobs in order; at the end one at +inf."""
        workload, records = self.workload, self.records
        held: list[tuple[float, int]] = []  # larger than what is up: until that is back
        for k, submit_s in enumerate(workload.submit_s):
            while held and held[0][0] <= submit_s:
                yield heappop(held)
            size = workload.size(k)
            if size > records.nodes:
                records.too_large()
                continue
            left = next((o for o in self._outages if o.start_s < submit_s < o.end_s), None)
            if left is not None and size > records.nodes - left.processors:
                heappush(held, (left.end_s, k))
                continue
            yield submit_s, k
        while held:
            yield heappop(held)
        yield INF, -1

    def _submit(self, k: int, batch: list[Event]) -> None:
        """Job k's time in the workload has come."""
        self.submitted += 1
        feedback = self._feedback
        later = feedback is not None and k in self.workload.follows
        if not later and self._refuses(self.workload.spec(k), k):
            if feedback is not None:
                self._release(feedback.gone(k))
            return
        if feedback is None:
            self.records.submitted(k)
            spec = self.workload.spec(k)
            if self._outages:
                spec = replace(spec, retry=RETRY_MAX)
            batch.append(JobSubmitted(spec))
            return
        if k not in self.workload.follows:
            self._number(k, feedback)
            batch.append(JobSubmitted(self.workload.spec(k)))
        elif not feedback.awaits(k):  # once what ends at this instant has ended
            self._submit_later(k, self.now, feedback)

    def _refuses(self, spec: JobSpec, k: int) -> bool:
        """Whether a quota does not let job k into the system."""
        if not self._quotas:
            return False
        try:
            self.scheduler.turn(self.now).ask_features(spec)
        except InfeasibleRequest:
            self.records.refused()
            if self._feedback is not None:
                self._feedback.refused(k)
            return True
        return False

    def _release(self, jobs: Iterable[tuple[int, float]]) -> None:
        """Submit these, each so long (s) from now."""
        assert self._feedback is not None, "or none comes after another"
        for k, think_s in jobs:
            self._submit_later(k, self.now + think_s, self._feedback)

    def _submit_later(self, k: int, time_s: float, feedback: Feedback) -> None:
        """Job k, which comes after others, is submitted at `time_s`."""
        feedback.expect(self.at(time_s, JobSubmitted(self.workload.spec(k))), k)

    def _number(self, k: int, feedback: Feedback) -> None:
        """Job k is the next that the scheduler numbers."""
        feedback.submitted(k, self.records.submitted(k, self.now))

    # -- carrying actions out --------------------------------------------------------------------

    def _do(self, actions: list[act.Action]) -> None:
        for action in actions:
            self._carry_out[type(action)](action)

    def _ignore(self, action: act.Action) -> None:
        """Nothing in a simulation depends on it."""

    def _emptied(self, action: act.NodeEmptied) -> None:
        """Its time ends, and nothing is left there: it goes."""
        self.at(self.now, NodeLeft(action.node))

    def _start(self, action: act.StartJob) -> None:
        job, now = action.job, self.now
        k = self.records.started(job, now, action)
        application = self._running[job] = self.workload.application(k)
        walltime_s = self.scheduler.state.jobs[job].spec.walltime_s
        if walltime_s is not None:
            self.at(now + walltime_s, Tick())  # a tick of its own, whatever else is due then
        self._do(self.scheduler.handle(JobStarted(job, action.instance), now))
        application.start(self, action, now)

    def _answer(self, action: act.AnswerRemap) -> None:
        self._running[action.job].answer(self, action, self.now)

    def _answer_request(self, action: act.AnswerRequest) -> None:
        application = self._running[action.job]
        assert isinstance(application, Asking), "only who asks is answered"
        application.request_answer(self, action, self.now)

    def _call(self, action: act.CallRemap) -> None:
        self._running[action.job].call(self, action, self.now)

    def _resize_workers(self, action: act.ResizeWorkers) -> None:
        application = self._running.get(action.job)
        if application is None:  # it has ended, and gives back what it had
            return
        assert isinstance(application, Crew), "no other kind has workers"
        application.resized(self, action, self.now)

    def _kill(self, action: act.KillJob) -> None:
        self._running[action.job].kill(self, action, self.now)

    def _restarts(self, action: act.JobRestarts) -> None:
        """It is in the queue again, and begins from its start."""
        if self._running.pop(action.job, None) is not None:
            self.records.restarted(action.job)
        if self.resting is not None:
            self.resting.over(action.job)

    def _finished(self, action: act.JobFinished) -> None:
        ran = self._running.pop(action.job, None) is not None
        if self.resting is not None:
            self.resting.over(action.job)
        k = self.records.finished(action.job, self.now, action.state, ran=ran)
        feedback = self._feedback
        if feedback is not None:
            self._release(feedback.ended(k))
