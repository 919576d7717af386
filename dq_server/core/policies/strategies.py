"""The strategies for malleable jobs carried out: who starts, who shrinks for whom, who expands.

Source: see sharing.py, whose plan says who shrinks.

Starts. After the jobs that fit in queue order come those for which others gave processors away, as
`hand_on` says, then the rest: EASY backfilling against the first job that cannot be served
(planning/timeline.py), on processors kept for nobody. Beside reservations or profiles known in
advance jobs start by a plan of depth 1, as under EASY. With `hand_on = "pool"` nothing is kept, and
EASY protects the first job that waits.

Resizes. Processors that are idle, promised to nobody and kept for no waiting job go to running jobs
in the order that `balance` says. A job that failed to resize, or gave way a moment ago where
`settle` is set, does not expand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import Job
from dq_server.core.model.placing import growth
from dq_server.core.model.points import may_resize
from dq_server.core.model.reasons import because, declare
from dq_server.core.model.sizes import Configuration, largest_at_most, smallest_at_least
from dq_server.core.model.state import State
from dq_server.core.planning import INF, backfill, free
from dq_server.core.planning.timeline import Shadow
from dq_server.core.policies.base import ResizePolicy, Start, StartPolicy, Verdict
from dq_server.core.policies.sharing import (
    EXPANDS,
    Giver,
    Plan,
    SharingOptions,
    in_line,
    plan,
    starting,
)

declare(
    sharing_gives="makes room for job {head}: from {size} to {next_size}",
    sharing_expands="{idle} are idle and not kept for another job: from {size} to {next_size}",
    sharing_stays="no job needs its processors, and idle ones go to others: stays on {size}",
    sharing_served="on {size} of {idle} idle processors, for which running jobs made room",
)


EFFICIENT = 0.5  # Zojer et al. 2026: a job's largest size is that with this efficiency


class SharingResize(ResizePolicy):
    polls = False

    def __init__(self, config: SchedulerConfig) -> None:
        self._options = config.of(SharingOptions)

    def decide(self, state: State, job: Job, config: SchedulerConfig, now: float) -> Verdict:
        made, size = self._plan(state, now), job.size
        given = made.gives.get(job.id)
        if given is not None:
            target, head = given
            reason = because("sharing_gives", head=head.id, size=size, next_size=target.size)
            return Verdict(target, reason)
        for other, target in self._expansions(state, made, now):
            if other is job:
                figures = {"idle": state.idle, "size": size, "next_size": target.size}
                return Verdict(target, because("sharing_expands", **figures))
        return Verdict(None, because("sharing_stays", size=size))

    def calls(self, state: State, config: SchedulerConfig, now: float) -> Iterator[Job]:
        if not state.queue and not state.idle:
            return
        made = self._plan(state, now)
        for job_id in made.gives:
            if not state.active[job_id].called:
                yield state.active[job_id]
        for job, _ in self._expansions(state, made, now):
            if not job.called:
                yield job

    def _plan(self, state: State, now: float) -> Plan:
        if not state.queue:
            return Plan()
        return plan(state, state.unpromised(now), state.idle, self._options, now)

    def _expansions(
        self, state: State, made: Plan, now: float
    ) -> Iterator[tuple[Job, Configuration]]:
        """Who expands to what, on processors that are idle and not kept for waiting jobs."""
        room = free(state, now, INF) - made.kept
        if room <= 0:
            return
        jobs = [
            Giver.of(job)
            for job in state.active.values()
            if may_resize(state, job) and not job.settle and job.id not in made.gives
        ]
        options = self._options
        beyond = options.beyond == "always" or (options.beyond == "waits" and not state.queue)
        if options.balance == "average":
            yield from _evenly(state, jobs, room, beyond=beyond)
            return
        key = EXPANDS[options.balance]
        rounds = [(key, beyond, 0.0)]
        if options.balance == "preferred" and beyond:
            rounds = [(key, False, 0.0), (key, True, 0.0)]
        if options.balance == "remaining":
            rounds = [(key, beyond, EFFICIENT), (EXPANDS["min"], beyond, 0.0)]
        chosen: dict[Giver, Configuration] = {}
        for key, far, efficiency in rounds:
            for giver in sorted(jobs, key=key):
                if room <= 0:
                    break
                target = _larger(state, giver, room, beyond=far)
                if efficiency and target is not None:
                    target = _efficient(giver, target, efficiency)
                if target is None or not self._pays(giver.job, target, now):
                    continue
                room -= target.size - giver.size
                giver.size = target.size
                chosen[giver] = target
        yield from ((giver.job, target) for giver, target in chosen.items())

    def _pays(self, job: Job, target: Configuration, now: float) -> bool:
        """Whether the job ends earlier for it, its cost included; only asked with "remaining"."""
        known, left_s = job.spec.scalability, job.planned_end_s - now
        if self._options.balance != "remaining" or known is None or not 0 < left_s < INF:
            return True
        ratio = known.ratio(target.size) / known.ratio(job.size)
        return left_s * ratio + known.overhead_s(job.size, target.size) < left_s


def _larger(state: State, giver: Giver, room: int, *, beyond: bool) -> Configuration | None:
    """The largest configuration that the job may expand to; None: there is none."""
    most = giver.most if beyond else giver.preferred
    more = min(room, most - giver.size)
    if more <= 0:
        return None
    held = giver.size - giver.job.size  # what the plan has given it before
    more = growth(state, giver.job, more + held) - held
    target = largest_at_most(giver.job.chain, giver.size + more)
    return target if target is not None and target.size > giver.size else None


def _efficient(giver: Giver, target: Configuration, least: float) -> Configuration | None:
    """The target, or a smaller one, on which the additional processors are that efficient.

    Their efficiency is the gain in speed per gain in size. Unknown: the target.
    """
    known = giver.job.spec.scalability
    found: Configuration | None = target
    while known is not None and found is not None:
        gain = known.ratio(giver.size) / known.ratio(found.size) - 1
        if gain >= least * (found.size / giver.size - 1):
            break
        found = largest_at_most(giver.job.chain, (found.size + giver.size) // 2)
        if found is not None and found.size <= giver.size:
            return None
    return found


def _evenly(
    state: State, jobs: list[Giver], room: int, *, beyond: bool
) -> Iterator[tuple[Job, Configuration]]:
    """The job with the smallest share of its range goes to its next larger size, repeatedly."""
    chosen: dict[Giver, Configuration] = {}
    line = [(giver.fill(giver.size), giver.job.id, giver) for giver in jobs]
    heapify(line)
    while line and room > 0:
        *_, giver = heappop(line)
        target = smallest_at_least(giver.job.chain, giver.size + 1)
        most = giver.most if beyond else giver.preferred
        if target is None or target.size > min(most, giver.size + room):
            continue
        more = target.size - giver.job.size
        if growth(state, giver.job, more) < more:
            continue
        room -= target.size - giver.size
        giver.size = target.size
        chosen[giver] = target
        heappush(line, (giver.fill(giver.size), giver.job.id, giver))
    yield from ((giver.job, target) for giver, target in chosen.items())


class SharingStart(StartPolicy):
    def __init__(self, config: SchedulerConfig) -> None:
        self._options = config.of(SharingOptions)

    def choose(
        self, state: State, queue: Iterable[Job], config: SchedulerConfig, now: float
    ) -> list[Start]:
        if state.has_promises:
            return backfill.planned(state, queue, now, moldable=True, depth=1)
        room = Shadow(state, now, moldable=True, fits=self._fits)
        line = list(queue)
        made = backfill.promises(line, room, now, depth=0)
        starts = backfill.due(made, state.idle, now)
        if len(made) < len(line) and room.idle:
            rest = in_line(line[len(made) :], self._options)
            starts += self._around(state, rest, room, now)
        return starts

    def _fits(self, job: Job, idle: int, _moldable: bool) -> Configuration | None:
        return starting(job, idle, self._options)

    def _around(self, state: State, waiting: list[Job], room: Shadow, now: float) -> list[Start]:
        """Starts behind the first job that has to wait."""
        made = plan(state, waiting, room.idle, self._options, now)
        starts = self._handed_on(made, room.idle)
        started = {start.job.id for start in starts}
        idle = room.idle - sum(start.configuration.size for start in starts)
        head, kept = made.blocked, 0
        if self._options.hand_on == "pool":
            head = next((job for job in waiting if job.id not in started), None)
        else:
            kept = sum(s.kept for s in made.served if s.job.id not in started)
        # What is kept for a served job it takes; the rest goes by the reservation of the blocked.
        room.idle = max(0, idle - kept)
        if head is None or not room.idle:
            return starts
        start_s = room.promise(head, now)
        left_out = started | {head.id}
        if kept or head is made.blocked:
            left_out |= {served.job.id for served in made.served}
        behind = [backfill.Promise(head, INF if start_s is None else start_s, head.preferred)]
        for job in waiting:
            configuration = room.start(job) if job.id not in left_out else None
            if configuration is not None:
                behind.append(backfill.Promise(job, now, configuration))
        return starts + backfill.due(behind, idle, now)

    def _handed_on(self, made: Plan, idle: int) -> list[Start]:
        """Starts of jobs that are served, as far as the idle processors go."""
        starts: list[Start] = []
        for served in made.served:
            size = served.configuration.size
            if size <= (served.kept if self._options.hand_on == "agreement" else idle):
                reason = because("sharing_served", size=size, idle=idle)
                starts.append(Start(served.job, served.configuration, reason))
                idle -= size
        return starts
