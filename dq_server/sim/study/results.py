"""Tables of a study: a row a run, the means with their intervals, and the jobs.

Runs are read one by one; of each group (log, variant, share, policy) only sums and the figures per
seed are kept. Confidence intervals are over the seeds, at 95 %, by Student's t. A change is
relative to the first policy of the study on the same log, share and seed.
"""

from __future__ import annotations

import csv
import gzip
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dq_server.sim.files import whole_file
from dq_server.sim.intervals import interval, mean_and_interval
from dq_server.sim.study.file import Scenario, Study
from dq_server.sim.study.runs import DISTRIBUTED, EDGES, JOB_COLUMNS, Cache, Tasks

# Column -> name in Records.metrics; the first ones are the contract of runs.csv.
FIGURES = {
    "mean_turnaround_s": "mean_turnaround_s",
    "mean_wait_s": "mean_wait_s",
    "makespan_s": "makespan_s",
    "utilisation": "utilization",
    "mean_bounded_slowdown": "mean_bounded_slowdown",
}
MORE = ("median_wait_s", "p95_wait_s", "median_turnaround_s", "p95_turnaround_s",
        "median_bounded_slowdown", "p95_bounded_slowdown", "jobs", "failed", "backfilled",
        "expands", "shrinks")  # fmt: skip
RUN_COLUMNS = ("log", "policy", "share", "seed", *FIGURES, *MORE, "nodes", "variant", "run")
SUMMARY_COLUMNS = ("log", "variant", "share", "policy", "metric", "runs", "mean",
                   "interval_95", "change_pct", "change_interval_95")  # fmt: skip
Floats = NDArray[np.float64]


@dataclass(slots=True)
class Group:
    """All seeds of a policy on a log with a share.

    figures   metric -> its values, one per seed
    reached   of DISTRIBUTED -> how many jobs of all seeds are at most each of EDGES
    classes   largest size of the class -> per seed the means of DISTRIBUTED
    users     user -> [jobs, sum of each of DISTRIBUTED] over all seeds
    """

    figures: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in FIGURES})
    reached: dict[str, Floats] = field(
        default_factory=lambda: {name: np.zeros(len(EDGES)) for name in DISTRIBUTED}
    )
    classes: dict[int, list[list[float]]] = field(default_factory=dict)
    users: dict[int, Floats] = field(default_factory=dict)

    def add(self, result: Mapping[str, Any]) -> None:
        """Take in a run."""
        for name, metric in FIGURES.items():
            self.figures[name].append(float(result["metrics"][metric]))
        for name in DISTRIBUTED:
            self.reached[name] += result["ecdf"][name]
        for size, (count, *sums) in result["classes"].items():
            self.classes.setdefault(int(size), []).append([total / count for total in sums])
        for user, row in result["users"].items():
            self.users[int(user)] = self.users.get(int(user), 0.0) + np.array(row)

    def changes_pct(self, base: Group, name: str) -> list[float]:
        """By seed, how much this figure differs from that of `base`, percent; [] if that is 0."""
        pairs = list(zip(self.figures[name], base.figures[name], strict=True))
        if any(other == 0 for _, other in pairs):
            return []
        return [100 * (value / other - 1) for value, other in pairs]


@dataclass(frozen=True, slots=True)
class StudyCase:
    """What a group is of."""

    log: str
    variant: str
    share: float
    policy: str

    @classmethod
    def of(cls, scenario: Scenario) -> StudyCase:
        """The group of this run."""
        return cls(scenario.source.title, scenario.variant.name, scenario.share, scenario.policy)


@dataclass(slots=True)
class Results:
    """All groups of a study, in its order, and what was odd about each log."""

    study: Study
    groups: dict[StudyCase, Group] = field(default_factory=dict)
    notes: dict[str, Counter[str]] = field(default_factory=dict)

    def base(self, place: StudyCase) -> Group:
        """The group that this one is compared with."""
        first = self.study.policies[0]
        return self.groups[StudyCase(place.log, place.variant, place.share, first)]

    def summary(self) -> Iterator[dict[str, Any]]:
        """Rows of summary.csv; None where there is no value."""
        for place, group in self.groups.items():
            for name, values in group.figures.items():
                mean, half = mean_and_interval(values)
                changes = group.changes_pct(self.base(place), name)
                change, change_half = mean_and_interval(changes) if changes else (None, None)
                found = (place.log, place.variant, place.share, place.policy, name, len(values),
                         mean, half, change, change_half)  # fmt: skip
                yield {
                    column: None if value != value else value
                    for column, value in zip(SUMMARY_COLUMNS, found, strict=True)
                }


def collect(study: Study, tasks: Tasks, cache: Cache, folder: Path) -> Results:
    """Write runs.csv, summary.csv and jobs.csv.gz, and return what figures are drawn of."""
    results = Results(study)
    with whole_file(folder / "runs.csv") as part, part.open("w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(RUN_COLUMNS)
        for scenario in study.scenarios():
            key = tasks.of(scenario).key
            result = cache.result(key)
            assert result is not None, "all runs have ended"
            writer.writerow(_row(scenario, key, result["metrics"]))
            results.groups.setdefault(StudyCase.of(scenario), Group()).add(result)
            notes = results.notes.setdefault(scenario.source.title, Counter())
            for note, count in result["notes"].items():
                notes[note] = max(notes[note], count)
    _write(folder / "summary.csv", SUMMARY_COLUMNS, results.summary())
    if cache.jobs:
        _join_jobs(folder / "jobs.csv.gz", tasks, cache)
    return results


def _row(scenario: Scenario, key: str, metrics: Mapping[str, float]) -> list[Any]:
    figures = [_text(metrics[name]) for name in (*FIGURES.values(), *MORE)]
    return [scenario.source.title, scenario.policy, f"{scenario.share:g}", scenario.seed, *figures,
            scenario.source.nodes, scenario.variant.name, key]  # fmt: skip


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _write(path: Path, head: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> None:
    with whole_file(path) as part, part.open("w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(head)
        writer.writerows([_text(value) for value in row.values()] for row in rows)


def _join_jobs(path: Path, tasks: Tasks, cache: Cache) -> None:
    """The jobs of all simulations; compressed files that follow each other are one."""
    with whole_file(path) as part, part.open("wb") as out:
        out.write(gzip.compress((",".join(JOB_COLUMNS) + "\n").encode(), 1, mtime=0))
        for key in tasks.by_key:
            with cache.jobs_of(key).open("rb") as lines:
                shutil.copyfileobj(lines, out)


def means_by_class(group: Group, column: int) -> list[tuple[int, float, float]]:
    """(largest size, mean over the seeds, half of its interval) of one of DISTRIBUTED."""
    found = []
    for size in sorted(group.classes):
        values = [row[column] for row in group.classes[size]]
        found.append((size, sum(values) / len(values), interval(values)))
    return found
