"""A turn: one event (or the events of one instant) on its way through the scheduler.

A handler gets its event and a Turn: state, options and policies to read, `now`, the actions so
far, and the operations that several features need. A handler that frees processors or adds work
asks for a scheduling pass with `schedule`; the scheduler makes at most one, when the handler is
done. Only who has to know what the queue took before going on asks for it at once (`make_pass`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dq_server.core.feature import Change, Feature, Features, What
from dq_server.core.model.actions import (
    Action,
    CallRemap,
    JobAccepted,
    JobFinished,
    KillJob,
    StartJob,
    VacateProcessors,
)
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.decisions import Ending, Start
from dq_server.core.model.errors import InfeasibleRequest, InvalidSpec
from dq_server.core.model.events import Event
from dq_server.core.model.jobs import ENDED, Job, JobKind, JobSpec, JobState, Stay, adapts
from dq_server.core.model.launching import Worlds
from dq_server.core.model.needs import Needs
from dq_server.core.model.placing import claim, hide_and_keep, spots
from dq_server.core.model.pool import PoolOptions, possible
from dq_server.core.model.quotas import QuotaOptions, meter
from dq_server.core.model.reasons import Reason
from dq_server.core.model.sizes import Configuration, largest_at_most
from dq_server.core.model.state import State
from dq_server.core.policies.base import Policies

INF = float("inf")
NOT_STARTED = (JobState.QUEUED, JobState.HELD, JobState.WAITING, JobState.RESTARTING)


@dataclass(slots=True)
class Turn:
    state: State
    config: SchedulerConfig
    policies: Policies
    features: Features
    now: float
    actions: list[Action] = field(default_factory=list)
    pass_wanted: bool = False
    batched: bool = False  # the pass comes after all events of this instant, not before
    decided: bool = False  # it follows records: whether somebody may is not asked again
    doomed: deque[tuple[Job, JobState, Reason]] = field(default_factory=deque)

    @property
    def capacity_max(self) -> int:
        """Processors on the nodes that are up and on those that could be asked for."""
        return possible(self.state, self.config.of(PoolOptions))

    def perform(self, event: Event) -> None:
        """Let an event happen that a feature brings about, as a part of this turn.

        It is not journaled: a replay of the turn's own event brings it about again.
        """
        self.features.handler_of[type(event)](self, event)

    # --- the cluster ----------------------------------------------------------------------------

    def changed(self, what: What, node: str = "", reason: Reason | None = None) -> None:
        """Tell the features of a change of the cluster."""
        change = Change(what, node, reason)
        for feature in self.features[Feature.changed]:
            feature.changed(self, change)

    def capacity_changed(self) -> None:
        """Nodes have come or gone: tell the features, and make a pass after this."""
        self.changed(What.CAPACITY)
        self.schedule()

    # --- the scheduling pass --------------------------------------------------------------------

    def schedule(self) -> None:
        """Processors may have become free, or work may have come: make a pass after this."""
        self.pass_wanted = True

    def make_pass(self) -> None:
        """Start what features and policies choose, call those whom they want to resize."""
        self.pass_wanted = False
        state, policies, now = self.state, self.policies, self.now
        if self.batched or state.paused:
            return
        if state.processors.kept:
            state.processors.unkeep()
        # Promises first: their processors are idle now, and the queue would take them.
        for feature in self.features[Feature.starts]:
            for start in feature.starts(self):
                self.start(start)
        hide_and_keep(state, now, moldable=self.config.moldable)
        if state.queue and (state.idle or policies.start.promised is not None):
            starts = policies.start.choose(state, state.line(now), self.config, now)
            # A policy may be replaced, or the server restarted: promises are kept in the state.
            if policies.start.promised is not None:
                state.promised = policies.start.promised
            for start in starts:
                self.start(start)
        for job in policies.resize.calls(state, self.config, now):
            self.call(job)
        self.changed(What.PASSED)

    def call(self, job: Job) -> None:
        """Ask the job to come to a remap point."""
        job.called = True
        self.actions.append(CallRemap(job.id, job.instance))

    # --- starts ---------------------------------------------------------------------------------

    def accepted_before(self, spec: JobSpec) -> bool:
        """Whether this is a submission said again: then its job is the answer once more."""
        known = self.state.by_request.get(spec.request_id) if spec.request_id else None
        if known is None:
            return False
        if known not in self.state.jobs:
            raise InvalidSpec(f"request {spec.request_id!r} was for array {known}: use another one")
        self.actions.append(JobAccepted(known))
        return True

    def admit(self, spec: JobSpec, count: int = 1) -> None:
        """Raise a SchedulerError if a job of this description can never run. Changes nothing.

        `count`: so many of them are submitted together.
        """
        spec.validate()
        if spec.needed > self.capacity_max:
            processors = self.state.processors
            capacity, draining = processors.capacity, len(processors.withheld)
            more = f", and {draining} on nodes that drain" if draining else ""
            if self.capacity_max > capacity:
                more += f"; with all nodes of the pool it would have {self.capacity_max}"
            raise InfeasibleRequest(
                f"the job asks for {spec.needed} processors, the cluster has {capacity}{more}"
            )
        self.ask_features(spec, count)

    def ask_features(self, spec: JobSpec, count: int = 1, *, running: bool = False) -> None:
        """The part of `admit` that features decide."""
        for feature in self.features[Feature.admit]:
            feature.admit(self, spec, count, running=running)

    def accept(self, spec: JobSpec) -> Job:
        """A new job that is neither on hold nor queued yet; `spec` was checked."""
        state = self.state
        job = Job(
            state.next_job, spec, JobState.HELD, self.now, keep_decisions=self.config.keep_decisions
        )
        state.next_job += 1
        state.jobs[job.id] = job
        state.touch(job)
        if spec.request_id:
            state.by_request[spec.request_id] = job.id
        self.actions.append(JobAccepted(job.id))
        return job

    def enter(self, job: Job) -> None:
        """A job that was just accepted: into the queue, or where it has to wait before."""
        held = job.spec.hold
        for feature in self.features[Feature.entered]:
            held |= feature.entered(self, job)
        if not held and self.let_in(job):
            self.schedule()

    def let_in(self, job: Job, *, by: Feature | None = None) -> bool:
        """A job that is not on hold any more: into the queue; False: a feature holds it back.

        `by`: a feature that lets it in, and is not asked once more.
        """
        asked = (f for f in self.features[Feature.holds_back] if f is not by)
        holds = [hold for f in asked if (hold := f.holds_back(self.state, job)) is not None]
        if holds:
            if job.state is not JobState.WAITING:
                job.move(JobState.WAITING)
            if all(hold.then is not None for hold in holds):
                for hold in holds:
                    assert hold.then is not None
                    hold.then(self)
            return False
        job.move(JobState.QUEUED)
        self.enqueue(job)
        return True

    def enqueue(self, job: Job) -> None:
        """The job, which has just become QUEUED, enters the queue."""
        self.state.enqueue(job)
        for feature in self.features[Feature.queued]:
            feature.queued(self, job)

    def withdraw(self, job: Job) -> None:
        """The job is no longer to be started or served."""
        self.state.queue.pop(job.id, None)
        self.state.touch(job)
        for feature in self.features[Feature.withdrawn]:
            feature.withdrawn(self, job)

    def start(self, start: Start) -> None:
        """Give a queued job its processors.

        One that needs certain nodes may not find them any more after other starts of this pass:
        then it waits.
        """
        job, configuration, state, now = start.job, start.configuration, self.state, self.now
        if job.spec.needs is not None:
            placed = self._placed(start, job.spec.needs)
            if placed is None:
                return
            start = placed
            configuration = start.configuration
        if job.restarts:  # it has found out already which grid is the best of this size
            configuration = job.on_best_grid(configuration)
        places = start.processors or self._usable(job, configuration.size)
        if places is not None and len(places) < configuration.size:
            return  # idle are others than it can use
        job.move(JobState.STARTING)
        del state.queue[job.id]
        state.active[job.id] = job
        job.instance = max(job.instance + 1, state.next_instance)
        if places:
            claim(state, job, places)
        job.allocation = list(places or state.processors.take(configuration.size))
        job.first_processor = job.allocation[0] if job.allocation else -1
        job.launching = start.launching or self.config.launching
        job.configuration = configuration
        job.start_s = job.charged_s = now
        planned_s = job.spec.planned_on_s(configuration.size)
        state.plan(job, INF if planned_s is None else now + planned_s)
        if job.spec.kind is not JobKind.RIGID:
            job.stay(Stay(configuration, now))
        job.note(now, "start", start.reason)
        for feature in self.features[Feature.started]:
            feature.started(self, job)
        self.actions.append(
            StartJob(job.id, job.instance, tuple(job.allocation), configuration, start.reason)
        )

    def _placed(self, start: Start, needs: Needs) -> Start | None:
        """The start on processors that the job can use, smaller if it may; None: there are none."""
        job, state = start.job, self.state
        lasting = self._usable(job, state.idle)
        usable = [p for p in spots(state, job, needs) if lasting is None or p in lasting]
        target: Configuration | None = start.configuration
        if len(usable) < start.configuration.size:
            may = adapts(job, self.config.moldable)
            target = largest_at_most(job.spec.configurations, len(usable)) if may else None
        if target is None:
            return None
        return replace(start, configuration=target, processors=tuple(usable[: target.size]))

    def _usable(self, job: Job, count: int) -> tuple[int, ...] | None:
        """The `count` idle processors, or fewer, that the job is to start on; None: any will do."""
        found: Sequence[int] | None = None
        for feature in self.features[Feature.usable]:
            idle = self.state.processors.idle if found is None else found
            mine = feature.usable(self, job, idle)
            found = found if mine is None else mine
        return None if found is None else tuple(sorted(found[:count]))

    # --- ends -----------------------------------------------------------------------------------

    def kill(self, job: Job, reason: Reason, *, to: JobState = JobState.FAILED) -> None:
        """Kill a job in any state but an end state. `to`: KILLED if somebody asked for it."""
        now = self.now
        if job.state in NOT_STARTED:
            self.finish(job, JobState.KILLED, reason)
            self.schedule()
            return
        if job.state is not JobState.KILLING:
            job.move(JobState.KILLING)
            self.withdraw(job)
            self.state.plan(job, now)
            job.end_reason, job.killed_to = reason, to
            job.note(now, "kill", reason)
        if not job.holds():  # nobody is there to report its end
            self.finish(job, to, reason)
            self.schedule()
            return
        # Also if it is being killed already: who asks again may do so because nothing happened.
        self.actions.append(KillJob(job.id, job.instance, tuple(job.holds()), reason))

    def restart_if_possible(self, job: Job, ending: Ending) -> bool:
        """Start the job again, whose start has ended so, if a feature says how; False: it ends."""
        for feature in self.features[Feature.restart_of]:
            restart = feature.restart_of(self, job, ending)
            if restart is not None:
                restart(self)
                return True
        return False

    def doom(self, job: Job, to: JobState, reason: Reason) -> None:
        """End this job as well, once the one that is ending now has ended."""
        self.doomed.append((job, to, reason))

    def finish(self, job: Job, to: JobState, reason: Reason) -> None:
        """Move a job to an end state and let go of its processors; then those that it dooms.

        A chain of jobs that end with each other may be long, so this does not recurse.
        """
        state = self.state
        self._finish_one(job, to, reason)
        while self.doomed:
            other, to, why = self.doomed.popleft()
            if other.state not in ENDED:
                self._finish_one(other, to, why)
        while len(state.ended) > self.config.keep_ended:
            old = state.jobs.pop(state.ended.popleft())
            state.by_request.pop(old.spec.request_id, None)

    def _finish_one(self, job: Job, to: JobState, reason: Reason) -> None:
        job.move(to)
        job.end_s, job.end_reason = self.now, reason
        self.withdraw(job)
        self.state.ended.append(job.id)
        self.stop(job)
        job.note(self.now, str(to), reason)
        self.actions.append(JobFinished(job.id, to, reason))
        for feature in self.features[Feature.ended]:
            feature.ended(self, job)

    def stop(self, job: Job) -> None:
        """A job that is not active any more lets go of all it holds and asked for."""
        state = self.state
        leaving = job.holds()  # what is reserved, too: spawned ranks may run there
        self.charge(job)
        for feature in self.features[Feature.stopped]:
            feature.stopped(self, job, goes_on=False)
        job.end_stay()
        job.allocation, job.reserved, job.spawned, job.resize = [], (), (), None
        if job.launching.by_agents:
            Worlds.of(job).clear()
        state.active.pop(job.id, None)
        if job.planned is not None:
            state.unplan(job)
        self.let_go(job, leaving)

    def queue_again(
        self,
        job: Job,
        why: Reason,
        start: StartJob | None = None,
        ran_on: frozenset[int] = frozenset(),
    ) -> None:
        """A job whose start cannot be accounted for waits again, as if it had not started.

        Where its processes may be (`ran_on`) nothing starts until they are gone.
        """
        state = self.state
        if job.id in state.active:
            self.stop(job)
        if start is not None:
            job.instance = max(job.instance, start.instance)  # the next start is another one
            there = tuple(sorted(ran_on & set(state.processors.idle)))
            state.processors.claim(there)
            state.processors.start_vacating(there, job.id)
        if job.state is not JobState.QUEUED:
            self.withdraw(job)
            job.state = JobState.QUEUED
            self.enqueue(job)
        job.end_reason = None
        job.note(self.now, "restart", why)

    # --- processors -----------------------------------------------------------------------------

    def let_go(self, job: Job, leaving: list[int]) -> None:
        """Processors leave a job: idle at once, or once the node confirms that they are empty."""
        processors = self.state.processors
        if not self.config.confirm_vacated:
            processors.give_back(leaving)
            return
        pending = processors.start_vacating(leaving, job.id)
        if pending:
            self.actions.append(VacateProcessors(job.id, job.instance, pending))

    def charge(self, job: Job) -> None:
        """The job stops using what it holds now: its user's usage grows."""
        meter(self.state, self.config.of(QuotaOptions), job, self.now)
        if self.policies.order.charges and job.charged_s is not None:
            used = job.in_use * (self.now - job.charged_s)
            half_life_s = self.policies.order.half_life_s
            self.state.usage.charge(job.spec.user, used, self.now, half_life_s)
            job.charged_s = self.now
