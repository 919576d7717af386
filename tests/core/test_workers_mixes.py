"""Mixes of worker jobs and others: nobody waits longer for workers than their grace.

The same rigid jobs are run with and without worker jobs beside them. Workers leave as late as they
may, so the worst that may be is the grace, once for each job that starts before.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dq_server.core.model import events as ev
from dq_server.core.model.actions import JobAccepted, ResizeWorkers, StartJob, VacateProcessors
from dq_server.core.model.jobs import JobKind, JobSpec
from dq_server.core.model.sizes import nearest_square
from dq_server.core.model.workers import Workers, sizes_between
from dq_server.core.scheduler import Scheduler
from dq_server.core.settings import configured
from harness.examples import examples

GRACE_S = 5


@dataclass(frozen=True)
class Rigid:
    submit_s: int
    size: int
    takes_s: int


@dataclass(frozen=True)
class Crew:
    submit_s: int
    least: int
    most: int


RIGID = st.builds(Rigid, st.integers(0, 60), st.integers(1, 8), st.integers(1, 40))
CREW = st.builds(lambda s, a, b: Crew(s, min(a, b), max(a, b, 1)), st.integers(0, 60),
                 st.just(0), st.integers(1, 10))  # fmt: skip


def starts(start: str, rigid: list[Rigid], crews: list[Crew], leaves_in_s: int) -> list[int]:
    """When each of the rigid jobs starts, second by second; each knows how long it takes."""
    s = Scheduler(configured(start=start))
    for n in range(8):
        s.handle(ev.NodeJoined(f"n{n}", 1), 0.0)
    due: dict[int, list[ev.Event]] = {}
    numbers: dict[int, int] = {}
    started: dict[int, int] = {}

    def handle(event: ev.Event, now: int) -> int:
        accepted = 0
        for action in s.handle(event, float(now)):
            if isinstance(action, JobAccepted):
                accepted = action.job
            elif isinstance(action, StartJob) and s.state.job(action.job).spec.workers is None:
                started[action.job] = now
                handle(ev.JobStarted(action.job, action.instance), now)
                end = now + int(s.state.job(action.job).spec.estimate_s or 0)
                due.setdefault(end, []).append(ev.JobEnded(action.job, action.instance, 0))
            elif isinstance(action, VacateProcessors):
                late = leaves_in_s if s.state.job(action.job).spec.workers is not None else 0
                empty = ev.ProcessorsVacated(action.job, action.processors)
                due.setdefault(now + late, []).append(empty)
            elif isinstance(action, ResizeWorkers):
                assert (
                    len(s.state.job(action.job).allocation)
                    <= s.state.job(action.job).spec.configurations[-1].size
                )
        s.state.check()
        return accepted

    for now in range(60 + 60 * (len(rigid) + 1)):
        while due.get(now):
            handle(due[now].pop(0), now)
        for crew in (crew for crew in crews if crew.submit_s == now):
            sizes = sizes_between(crew.least, crew.most)
            handle(ev.JobSubmitted(JobSpec("crew", JobKind.WORKERS, sizes[0], sizes,
                                           workers=Workers(grace_s=GRACE_S))), now)  # fmt: skip
        for k, job in enumerate(rigid):
            if job.submit_s == now:
                shape = nearest_square(job.size)
                spec = JobSpec("rigid", JobKind.RIGID, shape, (shape,), estimate_s=job.takes_s)
                numbers[k] = handle(ev.JobSubmitted(spec), now)
        while due.get(now):
            handle(due[now].pop(0), now)
    return [started[numbers[k]] for k in range(len(rigid))]


MIXES = (st.lists(RIGID, min_size=1, max_size=8), st.lists(CREW, min_size=1, max_size=3))


# Not under EASY: a smaller job may be backfilled before one for which a worker is still leaving.
@settings(max_examples=examples(100), deadline=None)
@given(*MIXES, st.sampled_from(["fcfs", "conservative"]))
@example([Rigid(0, 1, 1), Rigid(0, 8, 1), Rigid(0, 1, 2), Rigid(0, 7, 1)], [Crew(0, 0, 1)], "easy")
def test_workers_that_leave_at_once_change_no_start(
    rigid: list[Rigid], crews: list[Crew], start: str
) -> None:
    alone = starts(start, rigid, [], 0)
    assert starts(start, rigid, crews, 0) == alone


@settings(max_examples=examples(100), deadline=None)
@given(*MIXES)
def test_nobody_waits_longer_for_workers_than_their_grace(
    rigid: list[Rigid], crews: list[Crew]
) -> None:
    """In order of arrival each start can be late by the grace, beside what those before are."""
    alone = starts("fcfs", rigid, [], 0)
    beside = starts("fcfs", rigid, crews, GRACE_S)
    late = [b - a for a, b in zip(alone, beside, strict=True)]
    assert min(late) >= 0
    assert max(late) <= GRACE_S * len(rigid)
