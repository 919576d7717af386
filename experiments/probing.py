"""The number of sizes tried before the sweet spot is found: the chain beside the fitted model.

    python -m experiments.probing [--json] [--csv F] [--plot F]

The chain is the thesis's rule (policy reshape), the model core/policies/resize_model.py (policy
reshape-model); both see the same iteration times and decide with 3 samples, 1 discarded iteration
and a threshold of 5 %. Each job runs alone, 150 iterations from 2 processors on, 5 s a
redistribution. Times: the thesis's Tables 1 and 2 (matrix multiplication and LU, times by their
gains from 100 s on 2 processors), and curves a + b/p + c*p whose best size is small, middle and
large, on the thesis's sizes and, `wide`, on 2, 4, ... 100. On `bumpy`, such a curve too, one
size that the model skips is faster than its neighbours.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from dq_server.core.model.jobs import JobKind, JobSpec
from dq_server.core.model.sizes import configurations, nearest_square
from dq_server.core.settings import named_config
from dq_server.sim.applications import Iterating
from dq_server.sim.engine import Simulation
from dq_server.sim.workload import ListedJob, ListedWorkload
from experiments.job_mixes import TABLE_1, TABLE_2, spread
from harness.output import Parser, add_options, check_options, pyplot, table, write_csv

ITERATIONS, REDISTRIBUTION_S = 150, 5.0
THESIS = (2, 4, 6, 9, 12, 16, 20, 25)
POLICIES = {"chain": "reshape", "model": "reshape-model"}


@dataclass(frozen=True, slots=True)
class Tried:
    """The result of one job: sizes in the order of its stays, run time, best possible run time."""

    times: str
    selector: str
    sizes: tuple[int, ...]
    probes: int
    last: int
    total_s: float
    from_best_s: float


def curve(sizes: Sequence[int], best: float, serial_s: float = 5.0) -> dict[int, float]:
    """a + b/p + c*p with its minimum at `best`."""
    return {p: serial_s + 200 / p + 200 / best**2 * p for p in sizes}


def all_times() -> dict[str, dict[int, float]]:
    """Iteration times (s) by processors, by name."""
    wide = range(2, 101, 2)
    bumpy = curve(THESIS, 40)
    bumpy[9] *= 0.5
    return {
        "matmul (Table 1)": spread({2: 100.0}, TABLE_1),
        "LU (Table 2)": spread({2: 100.0}, TABLE_2),
        "small": curve(THESIS, 4),
        "middle": curve(THESIS, 12),
        "large": curve(THESIS, 30),
        "bumpy": bumpy,
        "wide small": curve(wide, 8),
        "wide middle": curve(wide, 40),
        "wide large": curve(wide, 120),
    }


def tried(name: str, selector: str, times: Mapping[int, float]) -> Tried:
    """Simulate one job alone."""
    sizes = sorted(times)
    spec = JobSpec(name, JobKind.MALLEABLE, nearest_square(sizes[0]), configurations(sizes))

    def make() -> Iterating:
        return Iterating(ITERATIONS, lambda at: times[at.size], lambda _a, _b: REDISTRIBUTION_S)

    workload = ListedWorkload(name, [ListedJob(0.0, spec, make, 1)])
    records = Simulation(workload, sizes[-1], named_config(POLICIES[selector])).run()
    stays = (sizes[0], *(change.size for change in records.resizes.get(0, ())))
    total_s = float(records.end_s[0])
    best_s = ITERATIONS * min(times.values())
    return Tried(name, selector, stays, len(set(stays)), stays[-1], total_s, total_s - best_s)


def draw(path: str, results: Sequence[Tried]) -> None:
    """Bars: sizes tried, and run time relative to the chain's."""
    plt = pyplot()
    names = list(dict.fromkeys(r.times for r in results))
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4))
    for k, selector in enumerate(POLICIES):
        own = [r for r in results if r.selector == selector]
        at = [i + 0.4 * k for i in range(len(names))]
        left.bar(at, [r.probes for r in own], 0.4, label=selector)
        right.bar(at, [r.total_s for r in own], 0.4, label=selector)
    for axes, label in ((left, "sizes tried"), (right, "run time (s)")):
        axes.set_xticks([i + 0.2 for i in range(len(names))], names, rotation=40, ha="right")
        axes.set_ylabel(label)
        axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def verdict(results: Sequence[Tried]) -> str:
    """A sentence on the cases in which the model is worse, from the results."""
    by = {(r.times, r.selector): r for r in results}
    names = list(dict.fromkeys(r.times for r in results))
    losses = [
        f"{n} ({100 * (by[n, 'model'].total_s / by[n, 'chain'].total_s - 1):+.1f} % run time,"
        f" ends on {by[n, 'model'].last}, the chain on {by[n, 'chain'].last})"
        for n in names
        if by[n, "model"].total_s > by[n, "chain"].total_s
    ]
    if not losses:
        return "The model is nowhere slower than the chain."
    return f"The model is slower than the chain on: {'; '.join(losses)}."


def main(argv: Sequence[str] | None = None) -> int:
    """Run, print, write."""
    parser = Parser(prog="experiments.probing", description=__doc__)
    add_options(parser, quick="no difference, it takes a second")
    options = parser.parse_args(argv)
    check_options(parser, options)
    results = [tried(n, s, times) for n, times in all_times().items() for s in POLICIES]
    rows = [
        (
            r.times, r.selector, str(r.probes), str(r.last), f"{r.total_s:.0f}",
            f"{r.from_best_s:.0f}", " ".join(map(str, r.sizes[:14])),
        )
        for r in results
    ]  # fmt: skip
    head = ("times", "selector", "tried", "ends on", "total s", "above best s", "sizes")
    if options.csv:
        write_csv(options.csv, head, rows)
    if options.plot:
        draw(str(options.plot), results)
    if options.json:
        body = {"schema": 1, "runs": [asdict(r) for r in results], "verdict": verdict(results)}
        print(json.dumps(body))
    else:
        print(table(head, rows))
        print(verdict(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
