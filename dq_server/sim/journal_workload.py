"""The jobs of a live journal as a workload, to simulate them under another policy.

A job that reported remap points becomes an application with as many iterations, whose time on each
grid is the median of what was measured there; sizes it never ran on follow the scalability that
fits the others best, other grids of a size take as long as the fastest that was measured. Any other
job lasts as long as it ran. Jobs that never ran to an end are left out and counted. The machine has
the most processors that were there at one time; losses of nodes, restarts, reservations and what
evolving jobs asked for are not repeated. `Lived.records` has what happened to the same jobs live.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

from dq_server.core.model import events as ev
from dq_server.core.model.actions import ArrayAccepted, JobAccepted
from dq_server.core.model.jobs import JobSpec, JobState
from dq_server.core.model.sizes import Configuration, Scalability
from dq_server.core.scheduler import Scheduler
from dq_server.sim.applications import Application, Iterating, Rigid
from dq_server.sim.errors import WorkloadError
from dq_server.sim.evolving import ProfiledApplication
from dq_server.sim.journal import JournalLine
from dq_server.sim.records import STATES, Resize, SimulatedJobs
from dq_server.sim.workload import ListedJob, ListedWorkload


@dataclass(slots=True)
class _Life:
    """What the journal says about a job."""

    spec: JobSpec
    submit_s: float
    start_s: float | None = None
    end_s: float | None = None
    points: int = 0
    asked: bool = False
    size: int = 0  # processors at the start
    resizes: list[Resize] = field(default_factory=list)
    state: JobState = JobState.DONE
    times: dict[Configuration, list[float]] = field(default_factory=lambda: defaultdict(list))
    costs_s: list[float] = field(default_factory=list)


class Lived(NamedTuple):
    """The jobs of a journal.

    processors  the most that were there at one time
    records     when the jobs started and ended live, as if it had been a simulation
    """

    workload: ListedWorkload
    processors: int
    records: SimulatedJobs


def jobs_of(path: Path, entries: Iterable[JournalLine]) -> Lived:
    """The jobs that ran to an end; WorkloadError if there was never a machine."""
    lives: dict[int, _Life] = {}
    most = 0
    nodes: list[ev.NodeJoined] = []  # when there were most
    scheduler = Scheduler()
    for entry in entries:
        event, now = entry.event, entry.time
        actions = scheduler.handle(event, now)
        if isinstance(event, ev.NodeJoined):
            if scheduler.state.processors.capacity > most:
                most = scheduler.state.processors.capacity
                nodes = _up(scheduler)
        elif isinstance(event, ev.JobSubmitted | ev.JobAttached):  # as if it had been submitted
            for action in actions:
                if isinstance(action, JobAccepted):
                    lives.setdefault(action.job, _Life(event.spec, now))
        elif isinstance(event, ev.ArraySubmitted):
            for action in actions:
                for job in action.jobs if isinstance(action, ArrayAccepted) else ():
                    lives.setdefault(job, _Life(scheduler.state.job(job).spec, now))
        elif isinstance(event, ev.DynamicRequested | ev.DynamicReleased):
            lives[event.job].asked = True
        elif isinstance(event, ev.JobStarted | ev.JobEnded | ev.RemapPoint | ev.ResizeCommitted):
            _live_on(lives[event.job], event, now, scheduler)
    if not most:
        raise WorkloadError(f"{path}: no node ever joined")
    whole = {number: life for number, life in lives.items() if _ran(life)}
    jobs = [_job(number, life, whole) for number, life in whole.items()]
    # Nodes matter only to jobs that ask for certain ones; processors that are alike are faster.
    asked = any(job.spec.needs is not None for job in jobs)
    if asked:
        most = sum(node.processors for node in nodes)
    workload = ListedWorkload(path.name, jobs, nodes=nodes if asked else ())
    if len(lives) > len(whole):
        workload.notes["left out: did not run to an end"] = len(lives) - len(whole)
    asking = sum(life.asked for life in whole.values())
    if asking:
        workload.notes["simulated without the requests that they made"] = asking
    return Lived(workload, most, _as_it_was(workload, most, whole))


def _as_it_was(workload: ListedWorkload, most: int, lives: Mapping[int, _Life]) -> SimulatedJobs:
    records = SimulatedJobs(workload, most)
    for k, job in enumerate(workload.jobs):
        life = lives[job.number]
        assert life.start_s is not None and life.end_s is not None, "it ran"
        records.start_s[k], records.end_s[k] = life.start_s, life.end_s
        records.processors[k] = life.size
        records.state[k] = STATES.index(life.state) if life.state in STATES else 0
        if life.resizes:
            records.resizes[k] = life.resizes
    return records


def _up(scheduler: Scheduler) -> list[ev.NodeJoined]:
    """The nodes that are up, as if they joined now."""
    return [
        ev.NodeJoined(
            node.name,
            len(node.processors),
            node.speed,
            memory=node.memory,
            gpus=node.gpus,
            features=node.features,
        )
        for node in scheduler.state.processors.nodes.values()
        if node.up
    ]


def _live_on(
    life: _Life,
    event: ev.JobStarted | ev.JobEnded | ev.RemapPoint | ev.ResizeCommitted,
    now: float,
    scheduler: Scheduler,
) -> None:
    if isinstance(event, ev.JobStarted):
        life.start_s, life.resizes = now, []
        life.size = _held(event.job, scheduler)
    elif isinstance(event, ev.JobEnded):
        life.end_s = now
        ended = scheduler.state.jobs.get(event.job)
        life.state = JobState.DONE if ended is None else ended.state
    elif isinstance(event, ev.RemapPoint):
        life.points += 1 + event.silent
        grid = scheduler.state.job(event.job).configuration
        assert grid is not None, "who comes to a remap point runs"
        life.times[grid] += [*event.passed, event.iteration_time_s]
    else:
        life.costs_s.append(event.redistribution_time_s)
        before = life.resizes[-1].size if life.resizes else life.size
        life.resizes.append(Resize(now, _held(event.job, scheduler), before))


def _held(job_id: int, scheduler: Scheduler) -> int:
    """The size on which a job runs."""
    return scheduler.state.job(job_id).size


def _ran(life: _Life) -> bool:
    return life.start_s is not None and life.end_s is not None and life.end_s >= life.start_s


def _job(number: int, life: _Life, whole: Container[int]) -> ListedJob:
    assert life.start_s is not None and life.end_s is not None
    run_s = life.end_s - life.start_s
    before = {name: tuple(k for k in getattr(life.spec, name) if k in whole)
              for name in ("after", "after_any")}  # fmt: skip
    spec = replace(
        life.spec, hold=False, request_id="", walltime_s=None, after=(), after_any=(), after_not=(),
        retry=0, protection=None, reservation="", element=None,
    )  # fmt: skip
    make: Callable[[], Application] = lambda: Rigid(run_s)  # noqa: E731  # the type must be said
    if spec.profile:
        cost_s = median(life.costs_s) if life.costs_s else 0.0
        return ListedJob(
            life.submit_s,
            spec,
            lambda: ProfiledApplication(spec.profile, redistribution_s=cost_s),
            number,
        )
    if life.points:
        on_grid = {grid: median(seconds) for grid, seconds in life.times.items()}
        times: dict[int, float] = {}  # by size
        for grid, time_s in on_grid.items():
            times[grid.size] = min(time_s, times.get(grid.size, time_s))
        nearest = min(times, key=lambda size: abs(size - spec.initial.size))
        known = Scalability.fitted(times, nearest)
        cost_s = median(life.costs_s) if life.costs_s else 0.0
        for shape in spec.configurations:
            times.setdefault(shape.size, times[nearest] * known.ratio(shape.size))
        iterations = life.points

        def make() -> Application:
            return Iterating(
                iterations,
                lambda at: on_grid.get(at, times[at.size]),
                lambda _before, _after: cost_s,
            )

        run_s = iterations * times[spec.initial.size]
        spec = replace(spec, scalability=replace(known, preferred=spec.initial.size))
    if spec.planned_s is None:
        spec = replace(spec, estimate_s=run_s)
    return ListedJob(life.submit_s, spec, make, number, **before, static_run_s=run_s)
