"""One simulation of a study, its result on disk, and many of them in parallel processes.

A result is a file named by a digest of all that it depends on: the log's bytes, the machine, the
configuration, the transformation, share and seed, and DQ's own code. A run whose file is there is
not repeated, so a study that was killed, or to which seeds were added, goes on where it was. Under
a policy that resizes nobody neither share nor seed matters: such a run is one for all of them.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dq_server.core.model.errors import SchedulerError
from dq_server.core.model.options import plain
from dq_server.sim.engine import Simulation
from dq_server.sim.errors import WorkloadError
from dq_server.sim.files import whole_file
from dq_server.sim.malleable import MalleableWorkload, resizes_nobody
from dq_server.sim.node_sets import Places, joined
from dq_server.sim.records import STATES, SimulatedJobs
from dq_server.sim.study.file import DAY_S, Scenario, Source
from dq_server.sim.workload import RigidWorkload, Workload

FORMAT = 1
JOB_COLUMNS = (
    *("run", "job", "user", "size", "malleable", "submit_s", "wait_s", "turnaround_s"),
    *("bounded_slowdown", "processors", "processor_s", "expands", "shrinks", "state"),
)
# Where the distribution functions of a run are evaluated: s, or a slowdown.
EDGES = np.concatenate([[0.0], np.logspace(-1, 9, 401)])
LINES = 20_000  # of jobs.csv at a time
DISTRIBUTED = ("wait_s", "turnaround_s", "bounded_slowdown")


@dataclass(frozen=True, slots=True)
class Task:
    """A simulation that stands for one or more runs of a study."""

    key: str
    scenario: Scenario

    def jobs(self, rigid: RigidWorkload, nodes: int) -> Workload:
        """The workload of the log, or of a part of it, on a machine with `nodes`."""
        if makes_all_rigid(self.scenario):
            return rigid
        return MalleableWorkload(rigid, nodes, self.scenario.how, self.scenario.seed)

    def run(
        self, rigid: RigidWorkload, places: Sequence[Places]
    ) -> tuple[SimulatedJobs, bytearray]:
        """Simulate; the records, and which jobs are malleable. `places`: of the node sets."""
        source, config = self.scenario.source, self.scenario.config
        if not source.sets:
            jobs = self.jobs(rigid, source.nodes)
            return source.simulation(jobs, config).run(), _malleable(jobs)
        malleable, parts = bytearray(len(rigid)), []
        for these, node_set in zip(places, source.sets, strict=True):
            jobs = self.jobs(rigid.part(these.tolist()), node_set.processors)
            parts.append((these, Simulation(jobs, node_set.processors, config).run()))
            for place, drawn in zip(these.tolist(), _malleable(jobs), strict=True):
                malleable[place] = drawn
        return joined(rigid, source.nodes, parts), malleable


def _malleable(jobs: Workload) -> bytearray:
    """1 for each job that is malleable."""
    if not isinstance(jobs, MalleableWorkload):
        return bytearray(len(jobs))
    return bytearray(jobs.malleable(k) for k in range(len(jobs)))


def makes_all_rigid(scenario: Scenario) -> bool:
    """Whether neither share nor seed matters."""
    how = scenario.how
    return how.fraction == 0 or (resizes_nobody(scenario.config) and how.keeps_sizes)


class Tasks:
    """What of a study has to be simulated, by the digest of what it depends on."""

    def __init__(self) -> None:
        self.by_key: dict[str, Task] = {}
        self._logs: dict[Path, str] = {}

    def of(self, scenario: Scenario) -> Task:
        """The task that gives this run's result."""
        key = self._key(scenario)
        return self.by_key.setdefault(key, Task(key, scenario))

    def _key(self, scenario: Scenario) -> str:
        source, config = scenario.source, scenario.config
        if source.path not in self._logs:
            with source.path.open("rb") as file:
                self._logs[source.path] = hashlib.file_digest(file, "sha256").hexdigest()
        own = [name for name in (config.order, config.start, config.resize, config.grant)
               if ":" in name]  # fmt: skip
        parts: dict[str, Any] = {
            "format": FORMAT,
            "code": _code(),
            "own": {name: _code_of(name) for name in own},
            "log": self._logs[source.path],
            "source": {k: str(v) for k, v in asdict(source).items() if k not in ("path", "title")},
            "config": plain(config),
        }
        if not makes_all_rigid(scenario):
            parts |= {"how": plain(scenario.how), "seed": scenario.seed}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


@cache
def _code() -> str:
    """A digest of the simulator and the scheduler: all that a result depends on."""
    digest = hashlib.sha256()
    room = Path(__file__).parents[2]
    files = [*(room / "core").rglob("*.py"), *(room / "sim").glob("*.py"), Path(__file__)]
    for path in sorted(files):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _code_of(policy: str) -> str:
    """A digest of the module of a policy of one's own; it was imported when it was checked."""
    file = getattr(sys.modules.get(policy.partition(":")[0]), "__file__", None)
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""


@dataclass(frozen=True, slots=True)
class Cache:
    """Results in a folder: KEY.json, and KEY.csv.gz, the jobs, where they are wanted."""

    folder: Path
    jobs: bool

    def result(self, key: str) -> dict[str, Any] | None:
        """The result of a run that has ended; None: there is none."""
        if self.jobs and not self.jobs_of(key).exists():
            return None
        try:
            found = json.loads((self.folder / f"{key}.json").read_text())
        except (FileNotFoundError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def jobs_of(self, key: str) -> Path:
        """Its jobs: lines of jobs.csv without the first one, compressed."""
        return self.folder / f"{key}.csv.gz"

    def save(
        self, key: str, records: SimulatedJobs, malleable: bytearray, rigid: RigidWorkload
    ) -> None:
        """Write a result, whole or not at all. `rigid`: the jobs as in the log."""
        if self.jobs:
            with (
                whole_file(self.jobs_of(key)) as part,
                gzip.GzipFile(part, "wb", 1, mtime=0) as out,
            ):
                for lines in _job_lines(records, malleable, rigid, key):
                    out.write(lines)
        with whole_file(self.folder / f"{key}.json") as part:
            part.write_text(json.dumps(summarised(records, rigid)))


def run_all(tasks: Iterable[Task], cache: Cache, processes: int, ended: Callable[[], None]) -> None:
    """Simulate the tasks; `ended` is called after each. One process: in this one.

    Raises:
        WorkloadError: a run fails, or a process dies; results of runs that had ended are kept.
    """
    tasks = list(tasks)
    processes = min(processes, len(tasks))
    if processes <= 1:
        for task in tasks:
            simulate(task, cache)
            ended()
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, _follow_parent)
    try:
        for future in as_completed([pool.submit(simulate, task, cache) for task in tasks]):
            future.result()
            ended()
    except BrokenProcessPool as error:
        raise WorkloadError(
            "a process of the study died, perhaps for want of memory: run the same command again"
            " with fewer --processes; runs that have ended are kept"
        ) from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()
        pool.shutdown()


def _follow_parent() -> None:
    """Leave Ctrl-C to the parent, and end with it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None, "processes of the pool have one"

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


@lru_cache(maxsize=1)
def _jobs(source: Source) -> tuple[RigidWorkload, list[Places]]:
    return source.read()


def simulate(task: Task, cache: Cache) -> None:
    """Simulate a task and save its result."""
    scenario = task.scenario
    try:
        rigid, places = _jobs(scenario.source)
        records, malleable = task.run(rigid, places)
        if warm_up_s := scenario.source.warm_up_days * DAY_S:
            records.warm_up_until(rigid.submit_s[0] + warm_up_s)
        cache.save(task.key, records, malleable, rigid)
    except (WorkloadError, SchedulerError) as error:
        raise WorkloadError(f"{scenario}: {error}") from error
    except Exception as error:  # of a policy of one's own: name the run
        name = type(error).__name__
        raise WorkloadError(f"{scenario}: the simulation fails: {name}: {error}") from error


def summarised(records: SimulatedJobs, rigid: RigidWorkload) -> dict[str, Any]:
    """What tables and figures need of a run: its figures, distributions, classes and users."""
    ran = records.ran
    values = {"wait_s": records.wait, "turnaround_s": records.turnaround,
              "bounded_slowdown": records.bounded_slowdown}  # fmt: skip
    sizes = np.frombuffer(rigid.processors, np.int64)[ran]
    users = np.frombuffer(rigid.users, np.int64)[ran]
    return {
        "metrics": records.metrics(),
        "notes": dict(records.notes),
        "ecdf": {name: _counts(values[name]) for name in DISTRIBUTED},
        "classes": _sums(size_classes(sizes), values),
        "users": _sums(users, values),
    }


def _counts(values: NDArray[np.float64]) -> list[int]:
    """How many values are at most each of EDGES."""
    return [int(count) for count in np.searchsorted(np.sort(values), EDGES, side="right")]


def size_classes(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The largest size of the class of each job: 1, 4, 16, 64 ... (1, 2 to 4, 5 to 16 ...)."""
    exponents = np.ceil(np.log2(np.maximum(sizes, 1)) / 2).astype(np.int64)
    return 4**exponents


def _sums(
    group: NDArray[np.int64], values: Mapping[str, NDArray[np.float64]]
) -> dict[str, list[float]]:
    """By group: how many jobs, and the sum of each of DISTRIBUTED."""
    names, place = np.unique(group, return_inverse=True)
    columns = [np.bincount(place, minlength=len(names))]
    columns += [np.bincount(place, values[name], len(names)) for name in DISTRIBUTED]
    rows = np.stack(columns, axis=1).tolist() if len(names) else []
    return {str(name): row for name, row in zip(names.tolist(), rows, strict=True)}


def _job_lines(
    records: SimulatedJobs, malleable: bytearray, rigid: RigidWorkload, key: str
) -> Iterator[bytes]:
    """The run's lines of jobs.csv, so many at a time that memory stays small."""
    columns = (records.ran, records.submit, records.wait, records.turnaround,
               records.bounded_slowdown, records.processor_s)  # fmt: skip
    for start in range(0, len(records.ran), LINES):
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        part = (column[start : start + LINES].tolist() for column in columns)
        for k, submit_s, wait_s, turnaround_s, slowdown, held in zip(*part, strict=True):
            changes = records.resizes.get(k, ())
            writer.writerow((
                key, rigid.numbers[k], rigid.users[k], rigid.processors[k], malleable[k],
                f"{submit_s:.15g}", f"{wait_s:.15g}", f"{turnaround_s:.15g}", f"{slowdown:.6g}",
                records.processors[k], f"{held:.15g}",
                sum(change.size > change.before for change in changes),
                sum(change.size < change.before for change in changes),
                STATES[records.state[k]].value,
            ))  # fmt: skip
        yield text.getvalue().encode()
