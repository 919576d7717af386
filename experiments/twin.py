"""A live job mix repeated in simulation, with an application model fitted to the live run.

The model: seconds per iteration by size (medians over all stays of jobs that run the same program;
other sizes by a fit of a/p + b), a factor for time that the median does not contain (slower
iterations, remap points), seconds per rank for a start (ranks start one after the other on the few
real cores) and seconds for a resize; these three by least squares over all stays of all jobs. The
scheduler is the same code.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dq_server.core.model.actions import StartJob
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import JobKind, JobSpec
from dq_server.core.model.sizes import configurations, nearest_square
from dq_server.core.settings import named_config
from dq_server.sim.applications import Iterating
from dq_server.sim.engine import Simulation
from dq_server.sim.workload import ListedJob, ListedWorkload
from experiments.mix_runs import Ran
from harness.live import Job


@dataclass(frozen=True, slots=True)
class Model:
    """The parameters fitted to the live run of one program, in seconds."""

    measured: Mapping[int, float]
    over_p: float
    constant: float
    start_per_rank_s: float
    resize_s: float

    def iteration_s(self, size: int) -> float:
        """One iteration on `size` processors."""
        return self.measured.get(size) or max(1e-3, self.over_p / size + self.constant)


def fit(jobs: Sequence[Job]) -> Model:
    """The model of jobs that ran the same program (`dq job --json` of each)."""
    times: dict[int, list[float]] = {}
    for job in jobs:
        for stay in job["sizes"]:
            if stay["iteration_time_s"]:
                times.setdefault(stay["processors"], []).append(stay["iteration_time_s"])
    measured = {size: statistics.median(found) for size, found in times.items()}
    matrix = np.array([[1 / size, 1.0] for size in measured])
    over_p, constant = np.linalg.lstsq(matrix, np.array(list(measured.values())), rcond=None)[0]
    slower, start_s, resize_s = _overheads(jobs, measured)
    times_s = {size: slower * time_s for size, time_s in measured.items()}
    return Model(times_s, slower * float(over_p), slower * float(constant), start_s, resize_s)


def _overheads(jobs: Sequence[Job], measured: Mapping[int, float]) -> tuple[float, float, float]:
    """Factor on the median, start per rank, resize: by least squares over all stays.

    A stay lasts (iterations x median) x factor, plus the start of its ranks for the first stay, a
    resize for every other.
    """
    rows, lasted_s = [], []
    for job in jobs:
        stays = job["sizes"]
        ends_s = [*(stay["since_s"] for stay in stays[1:]), job["end_s"]]
        for number, (stay, end_s) in enumerate(zip(stays, ends_s, strict=True)):
            computing_s = stay["iterations"] * measured.get(stay["processors"], 0.0)
            started = stay["processors"] if number == 0 else 0
            rows.append([computing_s, float(started), float(number > 0)])
            lasted_s.append(end_s - stay["since_s"])
    slower, start_s, resize_s = np.linalg.lstsq(np.array(rows), np.array(lasted_s), rcond=None)[0]
    return max(1.0, float(slower)), max(0.0, float(start_s)), max(0.0, float(resize_s))


class Starting(Iterating):
    """An iterating application that takes time to start."""

    __slots__ = ("start_per_rank_s",)

    def __init__(self, iterations: int, model: Model) -> None:
        super().__init__(
            iterations, lambda at: model.iteration_s(at.size), lambda _a, _b: model.resize_s
        )
        self.start_per_rank_s = model.start_per_rank_s

    def start(self, sim: Simulation, action: StartJob, now: float) -> None:
        """See Application."""
        self._at, self._done = action.configuration, 0
        self._go_on(
            sim, action.job, action.instance, now + self.start_per_rank_s * len(action.processors)
        )


def simulate(
    jobs: Sequence[Job], iterations: Sequence[int], processors: int, scheduler: SchedulerConfig
) -> list[Ran]:
    """Simulate the same jobs, submitted at the same times, under the same scheduler."""
    model = fit(jobs)
    zero_s = min(job["submit_s"] for job in jobs)
    order = sorted(range(len(jobs)), key=lambda k: jobs[k]["submit_s"])
    listed = []
    for number in order:
        job = jobs[number]
        legal = tuple(job["legal_sizes"])
        initial = job["sizes"][0]["processors"] if job["sizes"] else legal[0]
        kind = JobKind.MALLEABLE if len(legal) > 1 else JobKind.RIGID
        shape = nearest_square(initial)
        spec = JobSpec(job["name"], kind, shape, configurations(legal))
        listed.append(
            ListedJob(job["submit_s"] - zero_s, spec, _maker(iterations[number], model), number)
        )
    config = named_config("reshape", scheduler)
    records = Simulation(ListedWorkload("twin", listed), processors, config).run()
    found: dict[int, Ran] = {}
    for k in records.ran.tolist():
        number = int(records.workload.number(k))
        start_s = float(records.start_s[k])
        steps = [(start_s, int(records.processors[k]))]
        steps += [(change.time_s, change.size) for change in records.resizes.get(k, ())]
        name, submit_s = jobs[number]["name"], float(records.workload.submit_s[k])
        found[number] = Ran(name, submit_s, start_s, float(records.end_s[k]), tuple(steps))
    return [found[number] for number in range(len(jobs))]


def _maker(iterations: int, model: Model) -> Callable[[], Starting]:
    return lambda: Starting(iterations, model)
