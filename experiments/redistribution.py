"""Redistribution beside iteration time: thesis, Figures 7 and 8, and Jacobi, which 4.2.4 names.

    python -m experiments.redistribution --quick
    python -m experiments.redistribution --app lu --n 9600

A job expands along 2, 4, 6, 9, 12, 16, 20, 25; for every size its iteration time and the time of
the redistribution to it are reported, as in the figures. Product and factorization need n³
operations on n² data: a redistribution costs a fraction of an iteration. Jacobi needs n² operations
on n² data: a redistribution costs as much as many iterations.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from experiments.calibration import (
    Calibration,
    add_calibration_option,
    calibrate,
    in_words,
    save_beside,
)
from harness.live import NODE_GFLOPS, START_S, Job, LiveCluster
from harness.output import (
    Parser,
    add_options,
    check_options,
    minutes,
    note,
    number,
    pyplot,
    table,
    whole_number,
    write_csv,
)

SIZES = (2, 4, 6, 9, 12, 16, 20, 25)
WORK = {"matmul": (2.0, 3), "lu": (2 / 3, 3), "jacobi": (5.0, 2)}  # operations: factor, power of n
FIGURES = {"matmul": "Figure 7", "lu": "Figure 8", "jacobi": "4.2.4"}
SAMPLES, DISCARD = 1, 1
ENDLESS = 1_000_000


@dataclass(frozen=True, slots=True)
class Point:
    """One size: seconds per iteration, and of the redistribution to it (None: the first size)."""

    app: str
    n: int
    processors: int
    iteration_s: float
    move_s: float | None

    @property
    def ratio(self) -> float | None:
        """Redistribution time in iterations."""
        return None if self.move_s is None else self.move_s / self.iteration_s


def program(app: str, n: int) -> list[str]:
    module = "experiments.jacobi_sweeps" if app == "jacobi" else f"apps.{app}"
    return ["-m", module, "--n", str(n), "--iterations", str(ENDLESS)]


def measure(cluster: LiveCluster, app: str, n: int) -> list[Point]:
    """Resize one job to every size in turn (`dq resize`) and read the redistribution times."""
    job = cluster.start(program(app, n), "--sizes", ",".join(map(str, SIZES)))
    points = []
    for size in SIZES:
        if size != SIZES[0]:
            cluster.dq("resize", job, size)
        limit_s = 60 + 6 * estimate_s(app, n)
        on_size = partial(is_measured, size=size)
        found = cluster.wait([job], on_size, limit_s=limit_s, every_s=0.3)[0]
        stay = found["sizes"][-1]
        moved_s = stay["redistribution_time_s"] if size != SIZES[0] else None
        points.append(Point(app, n, size, stay["iteration_time_s"], moved_s))
    cluster.dq("kill", job)
    cluster.wait([job])
    return points


def is_measured(job: Job, *, size: int) -> bool:
    """Whether the job has this size and enough iterations on it."""
    if not job["sizes"]:
        return False
    stay = job["sizes"][-1]
    enough = stay["iterations"] >= SAMPLES + DISCARD
    return bool(stay["processors"] == size and enough and stay["iteration_time_s"])


def estimate_s(app: str, n: int) -> float:
    """How long `measure` takes."""
    factor, power = WORK[app]
    alone_s = factor * float(n) ** power / (NODE_GFLOPS * 1e9)
    moved_s = 3 * 8.0 * n * n / 125e6 / 2
    return sum((SAMPLES + DISCARD + 1) * alone_s / p + moved_s / p + 2 * START_S for p in SIZES)


def as_text(points: Sequence[Point]) -> str:
    lines = []
    for app, n in dict.fromkeys((p.app, p.n) for p in points):
        some = [p for p in points if (p.app, p.n) == (app, n)]
        rows = [
            [
                str(p.processors),
                number(p.iteration_s),
                number(p.move_s),
                number(p.ratio, ".2f"),
            ]
            for p in some
        ]
        lines += ["", f"{app}, N = {n} (thesis {FIGURES[app]})"]
        head = ["processors", "s/iteration", "redistribution s", "redistribution/iteration"]
        lines += [table(head, rows), verdict(app, some)]
    lines += [
        "",
        "The thesis prints these figures without numbers; it says that redistribution is far less"
        " than one iteration\nfor product and factorization, and significant for Jacobi. Ours"
        " leaves out what packing would take on a slow processor.",
    ]
    return "\n".join(lines)


def verdict(app: str, points: Sequence[Point]) -> str:
    ratios = [p.ratio for p in points if p.ratio is not None]
    most, least = max(ratios), min(ratios)
    if app == "jacobi":
        return f"above an iteration everywhere: {'yes' if least > 1 else 'NO'} ({least:.1f} times)"
    return f"below an iteration everywhere: {'yes' if most < 1 else 'NO'} (at most {most:.2f})"


def as_json(points: Sequence[Point], calibrations: Sequence[Calibration]) -> str:
    rows = [
        {
            "app": p.app,
            "n": p.n,
            "processors": p.processors,
            "iteration_time_s": p.iteration_s,
            "redistribution_time_s": p.move_s,
            "ratio": p.ratio,
        }
        for p in points
    ]
    return json.dumps(
        {
            "schema": 1,
            "experiment": "redistribution",
            "calibration": list(calibrations),
            "rows": rows,
        }
    )


def save(path: Path, points: Sequence[Point]) -> None:
    head = ["app", "n", "processors", "iteration_time_s", "redistribution_time_s"]
    write_csv(path, head, [[p.app, p.n, p.processors, p.iteration_s, p.move_s] for p in points])


def draw(path: Path, points: Sequence[Point]) -> None:
    """One panel per application: two bars per size, as in the thesis."""
    plt = pyplot()
    kinds = list(dict.fromkeys((p.app, p.n) for p in points))
    figure, axes = plt.subplots(
        1, len(kinds), figsize=(5 * len(kinds), 4.2), layout="constrained", squeeze=False
    )
    for ax, (app, n) in zip(axes[0], kinds, strict=True):
        some = [p for p in points if (p.app, p.n) == (app, n)]
        at = range(len(some))
        ax.bar([i - 0.2 for i in at], [p.iteration_s for p in some], 0.4, label="one iteration")
        moves = [p.move_s or 0.0 for p in some]
        ax.bar([i + 0.2 for i in at], moves, 0.4, label="redistribution to this size")
        ax.set_xticks(list(at), [str(p.processors) for p in some])
        ax.set(title=f"{app}, N = {n}", xlabel="processors", ylabel="seconds")
        ax.grid(axis="y", alpha=0.3)
        ax.legend(fontsize=8)
    figure.savefig(path, dpi=110)


def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(prog="experiments.redistribution", description=__doc__)
    add_options(parser, quick="matmul and lu N = 2400, jacobi N = 4000")
    parser.add_argument("--app", choices=sorted(WORK), nargs="+", default=list(WORK))
    parser.add_argument("--n", type=whole_number(1), help="instead of 4800 (jacobi: 8000)")
    add_calibration_option(parser)
    options = parser.parse_args(argv)
    check_options(parser, options)
    orders = {app: order(app, options.n, quick=options.quick) for app in options.app}
    whole_s = sum(estimate_s(app, n) for app, n in orders.items())
    note(f"{', '.join(options.app)}: about {minutes(whole_s)}")
    calibrations = calibrate(["fast"], options=options)
    points: list[Point] = []
    scheduler = {"samples": SAMPLES, "discard": DISCARD, "resize": "none"}
    with LiveCluster("fast", scheduler=scheduler) as c:
        for app, n in orders.items():
            note(f"{app}, N = {n} ...")
            points += measure(c, app, n)
    if options.csv:
        save(options.csv, points)
        save_beside(options.csv, calibrations)
    if options.plot:
        draw(options.plot, points)
    if options.json:
        print(as_json(points, calibrations))
    else:
        print(as_text(points), in_words(calibrations), sep="\n")
    return 0


def order(app: str, wanted: int | None, *, quick: bool) -> int:
    """Rows and columns of the matrix."""
    if wanted is not None:
        return wanted
    if app == "jacobi":
        return 4000 if quick else 8000
    return 2400 if quick else 4800


if __name__ == "__main__":
    sys.exit(main())
