"""CPU time of the scheduler's decisions, and how it grows with jobs and nodes.

    python -m benchmarks.core [--json] [--repeats 5]

The core alone: no messages, no journal. Malleable jobs on 4 of the sizes 1, 2, 4 and 8 that have
found their sweet spot report at remap points, while nobody waits and processors are idle, and while
a job waits for which all together are too few; and jobs that still search for it, with quotas and
without. Then: submissions beside jobs that wait in the queue, or for a quota. Then: when something
is due next (`Scheduler.next_wakeup`), a tick, and nodes that join, are lost in mixed order, and
come back. The least of the repeats is reported, and the ratios to the smallest case of the same
run, of a submission with quotas to one without; limits: 1.3 for a remap point beside 1,000 jobs
while nobody waits, 2 while a job waits or while jobs search, 1.5 for a submission with quotas
beside 10,000 jobs, 10 us for `next_wakeup` at 10,000, 0.5 s for 10,000 nodes to join.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dq_server.core.model import events as ev
from dq_server.core.model.actions import AnswerRemap, JobAccepted
from dq_server.core.model.quotas import Limits, QuotaOptions
from dq_server.core.model.sizes import configurations
from dq_server.core.model.spec import JobKind, JobSpec
from dq_server.core.scheduler import Scheduler
from dq_server.core.settings import configured

SIZES = configurations([1, 2, 4, 8])
TIMES_S = {1: 8.0, 2: 4.2, 4: 2.5, 8: 2.45}
DECISIONS = 2000
PER_NODE = 16
WAITING = 10_000
NO_QUOTAS: dict[str, Any] = {}
QUOTAS: dict[str, Any] = {"quotas": QuotaOptions(user={"*": Limits(processors=10**6, jobs=10**5)})}
ONE_JOB: dict[str, Any] = {"quotas": QuotaOptions(user={"*": Limits(jobs=1)})}
JOIN_LIMIT_S, WAKEUP_LIMIT_US = 0.5, 10.0
SETTLED_LIMIT, RATIO_LIMIT, QUOTA_LIMIT = 1.3, 2.0, 1.5
SEARCHING, SUBMISSIONS = 4, 500  # remap points of a job that still searches; jobs submitted


@dataclass(frozen=True, slots=True)
class Figure:
    """`us` of CPU for one of `what` beside so many jobs or nodes; `ratio` to the smallest case."""

    what: str
    count: int
    us: float
    ratio: float
    limit: str = ""
    kept: bool = True


class Jobs:
    """Running malleable jobs that report in turn, and carry out what they are answered."""

    def __init__(self, count: int, idle: int, walltime_s: float | None = None, **how: Any) -> None:
        config = configured(samples=1, discard=0, settle=0, confirm_vacated=False, **how)
        self.scheduler = Scheduler(config)
        self.scheduler.handle(ev.NodeJoined("all", 8 * count + idle), 0.0)
        spec = JobSpec("job", JobKind.MALLEABLE, SIZES[2], SIZES, walltime_s=walltime_s, user="a")
        self.jobs = [self.submit(spec) for _ in range(count)]
        for job in self.jobs:
            self.scheduler.handle(ev.JobStarted(job, 1), 0.0)
        self.seq = dict.fromkeys(self.jobs, 0)
        self.done = dict.fromkeys(self.jobs, 0)
        self.now = 0.0

    def submit(self, spec: JobSpec) -> int:
        """Returns its id."""
        actions = self.scheduler.handle(ev.JobSubmitted(spec), 0.0)
        return next(a.job for a in actions if isinstance(a, JobAccepted))

    def points(self, each: int) -> None:
        """Every job comes to so many remap points."""
        handle, state = self.scheduler.handle, self.scheduler.state
        for _ in range(each):
            for job in self.jobs:
                self.now += 1e-3
                self.seq[job] += 1
                size = state.jobs[job].size
                time_s = TIMES_S[size] * (1 + job % 7 / 100)
                point = ev.RemapPoint(job, 1, self.seq[job], size, self.done[job], time_s)
                for action in handle(point, self.now):
                    if isinstance(action, AnswerRemap) and action.answer.what != "continue":
                        self.done[job] = action.answer.resize_id
                        done = ev.ResizeCommitted(job, 1, action.answer.resize_id, 0.01)
                        handle(done, self.now)


def cpu_us(what: Callable[[], object], count: int, repeats: int) -> float:
    """The least CPU time of `what`, for one of `count`."""
    spent = []
    for _ in range(repeats):
        began = time.process_time()
        what()
        spent.append(time.process_time() - began)
    return 1e6 * min(spent) / count


def decisions(repeats: int) -> list[Figure]:
    """Remap points beside 10, 100 and 1,000 jobs."""
    found: dict[str, list[tuple[int, float]]] = {}
    for count in (10, 100, 1000):
        jobs = Jobs(count, 64)
        jobs.points(6)
        each = DECISIONS // count
        for what in ("remap point, nobody waits", "remap point, a job waits"):
            us = cpu_us(lambda jobs=jobs, each=each: jobs.points(each), each * count, repeats)  # type: ignore[misc]
            found.setdefault(what, []).append((count, us))
            whole = configurations([jobs.scheduler.state.processors.capacity])
            jobs.submit(JobSpec("whole", JobKind.RIGID, whole[0], whole))
    settled, waits = found
    return [
        *_ratios(settled, found[settled], SETTLED_LIMIT), *_ratios(waits, found[waits], RATIO_LIMIT)
    ]  # fmt: skip


def searching(repeats: int) -> list[Figure]:
    """The first remap points of 10 and 1,000 jobs, with quotas and without."""
    figures = []
    for what, how in (("search", NO_QUOTAS), ("search, with quotas", QUOTAS)):
        rows = []
        for count in (10, 1000):
            some = max(1, 500 // count)
            spent = []
            for _ in range(repeats):
                clusters = [Jobs(count, 64, **how) for _ in range(some)]
                began = time.process_time()
                for jobs in clusters:
                    jobs.points(SEARCHING)
                spent.append(time.process_time() - began)
            rows.append((count, 1e6 * min(spent) / (some * count * SEARCHING)))
        figures += _ratios(f"remap point, {what}", rows, RATIO_LIMIT)
    return figures


def submissions(repeats: int) -> list[Figure]:
    """Submissions beside 10,000 jobs that wait: without quotas, with some that hold nobody back,
    and with one that nearly all wait for."""
    rows = []
    for what, how in (
        ("no quotas", NO_QUOTAS),
        ("within quotas", QUOTAS),
        ("behind a quota", ONE_JOB),
    ):
        spent = []
        for _ in range(repeats):
            scheduler = Scheduler(configured(start="easy", **how))
            scheduler.handle(ev.NodeJoined("all", 8), 0.0)
            for k in range(WAITING):
                scheduler.handle(_submitted(k), 0.0)
            began = time.process_time()
            for k in range(SUBMISSIONS):
                scheduler.handle(_submitted(k), 1.0)
            spent.append(time.process_time() - began)
        rows.append((what, 1e6 * min(spent) / SUBMISSIONS))
    figures = []
    for what, us in rows:
        ratio = us / rows[0][1]
        limit = "" if what == "no quotas" else f"{QUOTA_LIMIT:g} x"
        kept = not limit or ratio <= QUOTA_LIMIT
        figures.append(Figure(f"submission, {what}", WAITING, us, ratio, limit, kept))
    return figures


def _submitted(k: int) -> ev.JobSubmitted:
    size = configurations([6])
    return ev.JobSubmitted(JobSpec("job", JobKind.RIGID, size[0], size, user=f"u{k % 20}"))


def _ratios(what: str, rows: list[tuple[int, float]], limit: float | None) -> list[Figure]:
    first, last = rows[0][1], rows[-1][0]
    figures = []
    for count, us in rows:
        limited = limit is not None and count == last
        kept = not limited or us <= (limit or 0.0) * first
        limit_text = f"{limit:g} x" if limited else ""
        figures.append(Figure(what, count, us, us / first, limit_text, kept))
    return figures


def time_passes(repeats: int) -> list[Figure]:
    """When something is due next, and a tick at which nothing is."""
    wakeups, ticks = [], []
    for count in (10, 1000, 10_000):
        scheduler = Jobs(count, 0, walltime_s=1e6).scheduler
        scheduler.next_wakeup(0.0)

        def ask(scheduler: Scheduler = scheduler) -> None:
            for _ in range(100):
                scheduler.next_wakeup(0.0)

        def tick(scheduler: Scheduler = scheduler) -> None:
            for _ in range(100):
                scheduler.handle(ev.Tick(), 1.0)

        wakeups.append((count, cpu_us(ask, 100, repeats)))
        ticks.append((count, cpu_us(tick, 100, repeats)))
    figures = _ratios("next_wakeup", wakeups, None)
    last = figures[-1]
    limit = f"{WAKEUP_LIMIT_US:g} us"
    figures[-1] = Figure(
        last.what, last.count, last.us, last.ratio, limit, last.us <= WAKEUP_LIMIT_US
    )
    return figures + _ratios("tick", ticks, None)


def nodes(repeats: int) -> list[Figure]:
    """Nodes join, are lost, and come back."""
    found: dict[str, list[tuple[int, float]]] = {}
    for count in (1000, 10_000):
        mixed = [k * 7919 % count for k in range(count)]
        least: dict[str, float] = {}
        for _ in range(repeats):
            scheduler = Scheduler(configured())
            steps: dict[str, Sequence[ev.Event]] = {
                "node joins": [ev.NodeJoined(f"n{k}", PER_NODE) for k in range(count)],
                "node is lost": [ev.NodeLost(f"n{k}", "benchmark") for k in mixed],
                "node comes back": [ev.NodeJoined(f"n{k}", PER_NODE) for k in mixed],
            }
            for what, happen in steps.items():

                def let_happen(
                    happen: Sequence[ev.Event] = happen, scheduler: Scheduler = scheduler
                ) -> None:
                    for event in happen:
                        scheduler.handle(event, 0.0)

                us = cpu_us(let_happen, count, 1)
                least[what] = min(us, least.get(what, us))
        for what, us in least.items():
            found.setdefault(what, []).append((count, us))
    figures = []
    for what, rows in found.items():
        small, large = _ratios(what, rows, None)
        total_s = large.us * large.count / 1e6
        if what == "node joins":
            limit, kept = f"{JOIN_LIMIT_S:g} s for all", total_s <= JOIN_LIMIT_S
            large = Figure(what, large.count, large.us, large.ratio, limit, kept)
        figures += [small, large]
    return figures


def as_text(found: Sequence[Figure]) -> str:
    """A line per figure."""
    lines = [f"{'':28}{'beside':>8}{'CPU us':>10}{'ratio':>8}  limit"]
    for f in found:
        missed = "" if f.kept else "  MISSED"
        lines.append(f"{f.what:28}{f.count:>8,}{f.us:>10.1f}{f.ratio:>8.2f}  {f.limit}{missed}")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; exit code 1 if a limit is not kept."""
    parser = argparse.ArgumentParser(prog="benchmarks.core", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--json", action="store_true", help='one object, "schema": 1')
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(argv)
    if options.repeats < 1:
        parser.error("--repeats is at least 1")
    found = [
        *decisions(options.repeats), *searching(options.repeats), *submissions(options.repeats),
        *time_passes(options.repeats), *nodes(options.repeats),
    ]  # fmt: skip
    body = {"schema": 1, "benchmark": "core", "figures": [asdict(figure) for figure in found]}
    print(json.dumps(body) if options.json else as_text(found))
    return 0 if all(figure.kept for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main())
