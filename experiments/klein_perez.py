"""Tables 1 and 2 of Klein & Pérez 2011, ours beside theirs.

    python -m experiments.klein_perez [--json] [--tests 1000] [--seed 1] [--csv F] [--plot F]

Every schedule is checked: requested profiles only delayed or expanded within the limit (C1), never
more nodes than the cluster has (C2). The paper's averages look truncated to the printed digits. An
average counts as reproduced if ours, truncated in the same way, is within 2 % or one printed unit
of the paper's: another seed changes the averages of 1000 tests by about 1 %. Minimum and maximum
depend on single draws and are shown as ranges.
"""

from __future__ import annotations

import csv
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from dq_server.core.model.profile import FIT_RULES
from dq_server.sim.evolution import plan_offline
from harness.generators.klein_perez import N_NODES, draw_tests
from harness.klein_perez_paper import ALGORITHMS, METRICS, Metric, Range
from harness.output import Parser, check_options, whole_number
from harness.plan_metrics import PlanMetrics, check_plan, measure

TOLERANCE_PERCENT = 2.0
ROUNDING = 1e-9
QUIET_S = 2.0  # progress is shown from then on

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of one algorithm: (least, average, most) over tests or applications."""

    metric: Metric
    algorithm: str
    ours: Range

    @property
    def paper(self) -> Range:
        return self.metric.printed[self.algorithm]

    @property
    def deviation(self) -> float:
        """Our average minus the paper's."""
        return self.ours[1] - self.paper[1]

    @property
    def reproduced(self) -> bool:
        unit = self.metric.unit
        printed = math.floor(self.ours[1] / unit + ROUNDING) * unit
        allowed = max(unit, TOLERANCE_PERCENT / 100 * self.paper[1])
        return abs(printed - self.paper[1]) <= allowed * (1 + ROUNDING)


def run_tests(
    seed: int, count: int, progress: Progress = lambda _done, _all: None
) -> dict[str, list[PlanMetrics]]:
    """Metrics of every algorithm on every test, all on the same applications."""
    results: dict[str, list[PlanMetrics]] = {name: [] for name in ALGORITHMS}
    for done, queue in enumerate(draw_tests(seed, count)):
        plans = {}
        for name in ALGORITHMS:
            started = time.process_time()
            plans[name] = plan_offline(queue, N_NODES, FIT_RULES[name])
            spent_ms = 1000 * (time.process_time() - started)
            check_plan(queue, plans[name], N_NODES, FIT_RULES[name])
            results[name].append(measure(queue, plans[name], plans["rigid"], N_NODES, spent_ms))
        progress(done + 1, count)
    return results


def rows_of(results: dict[str, list[PlanMetrics]]) -> list[Row]:
    """Aggregate: metrics of one application over all applications, the others over tests."""
    rows = []
    for metric in METRICS:
        for name in ALGORITHMS:
            values = np.concatenate(
                [np.atleast_1d(getattr(m, metric.field)) for m in results[name]]
            )
            ours = float(values.min()), float(values.mean()), float(values.max())
            rows.append(Row(metric, name, ours))
    return rows


def as_text(rows: Sequence[Row], count: int, seed: int) -> str:
    lines = [f"{count} tests, {N_NODES} nodes, seed {seed}; least, average, most of each"]
    for metric in METRICS:
        digits = 3 if metric.unit < 0.1 else 2
        lines += ["", f"Table {metric.table}: {metric.title}"]
        lines.append(f"  {'':8}{'ours':^30}{'paper':^27}{'deviation of the average':>24}")
        for row in (row for row in rows if row.metric is metric):
            ours = "".join(f"{value:10.{digits}f}" for value in row.ours)
            paper = "".join(f"{value:9g}" for value in row.paper)
            verdict = f"{row.deviation:+12.{digits}f}  {'ok' if row.reproduced else 'NO'}"
            lines.append(f"  {row.algorithm:8}{ours}{paper}{verdict if metric.judged else ''}")
    judged = [row for row in rows if row.metric.judged]
    met = sum(row.reproduced for row in judged)
    lines += ["", f"{met} of {len(judged)} averages reproduced (within 2 % or one printed unit)"]
    return "\n".join(lines)


def as_json(rows: Sequence[Row], count: int, seed: int) -> str:
    def triple(values: Range) -> dict[str, float]:
        return dict(zip(("min", "avg", "max"), values, strict=True))

    return json.dumps(
        {
            "schema": 1,
            "experiment": "klein_perez",
            "tests": count,
            "nodes": N_NODES,
            "seed": seed,
            "rows": [
                {
                    "table": row.metric.table,
                    "metric": row.metric.field,
                    "algorithm": row.algorithm,
                    "ours": triple(row.ours),
                    "paper": triple(row.paper),
                    "deviation": row.deviation,
                    "reproduced": row.reproduced if row.metric.judged else None,
                }
                for row in rows
            ],
        }
    )


def write_csv(path: Path, results: dict[str, list[PlanMetrics]]) -> None:
    """One line per test and algorithm; metrics of single applications as their averages."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["test", "algorithm", *(metric.field for metric in METRICS)])
        for name, metrics in results.items():
            for test, one in enumerate(metrics):
                fields = asdict(one)
                means = (float(np.mean(fields[metric.field])) for metric in METRICS)
                writer.writerow([test, name, *means])


def write_plot(path: Path, rows: Sequence[Row]) -> None:
    """One panel per metric: our average and range beside the paper's."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    shown = [metric for metric in METRICS if metric.judged]
    figure, axes = plt.subplots(3, 3, figsize=(13, 10), layout="constrained")
    for metric, ax in zip(shown, axes.flat, strict=True):
        for shift, label, colour in ((-0.15, "DQ", "tab:blue"), (0.15, "paper", "tab:orange")):
            values = np.array(
                [row.ours if label == "DQ" else row.paper for row in rows if row.metric is metric]
            )
            low, mean, high = values.T
            at = np.arange(len(ALGORITHMS)) + shift
            ax.errorbar(
                at, mean, [mean - low, high - mean], fmt="o", ms=5, capsize=3, color=colour,
                label=label,
            )  # fmt: skip
        if max(row.ours[2] for row in rows if row.metric is metric) > 200:
            ax.set_yscale("symlog", linthresh=10)
        ax.set_ylim(bottom=0)
        ax.set_xticks(range(len(ALGORITHMS)), ALGORITHMS)
        ax.set_title(metric.title, fontsize=10)
        ax.grid(axis="y", alpha=0.3)
    axes.flat[0].legend()
    figure.suptitle("Klein & Pérez 2011, Tables 1 and 2: average and range")
    figure.savefig(path, dpi=110)


def show_progress(started: float) -> Progress:
    def show(done: int, count: int) -> None:
        if time.monotonic() - started > QUIET_S and (done % 50 == 0 or done == count):
            end = "\n" if done == count else ""
            print(f"\r{done} of {count} tests", end=end, file=sys.stderr, flush=True)

    return show


def main(argv: Sequence[str] | None = None) -> None:
    parser = Parser(prog="experiments.klein_perez", description=__doc__)
    parser.add_argument("--tests", type=whole_number(1), default=1000)
    parser.add_argument("--seed", type=whole_number(0), default=1)
    parser.add_argument("--json", action="store_true", help='one object, "schema": 1')
    parser.add_argument("--csv", type=Path, help="one line per test and algorithm")
    parser.add_argument("--plot", type=Path, help="a figure (PNG, PDF, SVG)")
    options = parser.parse_args(argv)
    check_options(parser, options)
    results = run_tests(options.seed, options.tests, show_progress(time.monotonic()))
    rows = rows_of(results)
    try:
        if options.csv:
            write_csv(options.csv, results)
        if options.plot:
            write_plot(options.plot, rows)
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}")
    print((as_json if options.json else as_text)(rows, options.tests, options.seed))


if __name__ == "__main__":
    main()
