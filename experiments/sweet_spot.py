"""Sweet spots found by the running scheduler: thesis, Figures 4 to 6, Tables 1 and 2.

    python -m experiments.sweet_spot --quick
    python -m experiments.sweet_spot --app matmul --n 2400 4800 9600
    python -m experiments.sweet_spot --app lu --n 4800 --network fast slow
    python -m experiments.sweet_spot --n 2400 --network fast --repeat 10

A malleable job starts on 2 processors of 36 emulated ones and grows along 2, 4, 6, 9, 12, 16, 20,
25 until growing no longer pays: the scheduler's sweet spot. The sizes it did not try are measured
afterwards by jobs of a fixed size, and the knee of the whole curve (the last size before the first
gain of at most the threshold) is compared with the scheduler's choice. With --repeat the scheduler
searches several times, each with a new job; the curve is the median over all of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from experiments.calibration import (
    Calibration,
    add_calibration_option,
    calibrate,
    in_words,
    save_beside,
)
from harness.live import NETWORKS, NODE_GFLOPS, START_S, LiveCluster
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
THRESHOLD = 0.05
DISCARD = 1
GIVE_UP = 1.3  # sizes beyond one that takes so many times the best are not measured
APPS = {"matmul": 2.0, "lu": 2.0 / 3.0}  # floating-point operations per iteration, over n³
ENDLESS = 1_000_000

# Improvement of the iteration time in per cent, N = 9600, Gigabit Ethernet.
THESIS = {
    "matmul": ("Table 1", (46.9, 20.9, 25.8, 9.4, 19.7, 4.1, 0.0)),
    "lu": ("Table 2", (51.9, 11.3, 28.5, 12.6, 12.0, -20.5, None)),
}


@dataclass(frozen=True, slots=True)
class Curve:
    """One application and size on one network: seconds per iteration by processors."""

    app: str
    n: int
    network: str
    time_s: dict[int, float]
    found: tuple[int, ...]  # the scheduler's sweet spot, of every search
    redistribution_s: dict[int, float]  # arriving at this size

    @property
    def gains(self) -> list[float | None]:
        """Improvement from each size to the next, in per cent."""
        steps = pairwise(self.time_s.get(size) for size in SIZES)
        return [None if a is None or b is None else 100 * (1 - b / a) for a, b in steps]

    @property
    def knee(self) -> int:
        """The last size before the first gain that does not exceed the threshold."""
        for size, gain in zip(SIZES, self.gains, strict=False):
            if gain is None or gain <= 100 * THRESHOLD:
                return size
        return SIZES[-1]

    @property
    def sweet_spot(self) -> int:
        """The size that the scheduler found most often."""
        return statistics.mode(self.found)

    def agrees(self, found: int) -> bool:
        """Whether a choice of the scheduler is the knee, or as good within the threshold."""
        here, there = self.time_s[found], self.time_s[self.knee]
        return found == self.knee or abs(1 - here / there) <= THRESHOLD

    @property
    def agreeing(self) -> int:
        """How many searches agree with the knee."""
        return sum(map(self.agrees, self.found))


def estimate_s(app: str, n: int, samples: int, repeat: int) -> float:
    """Estimated time of a curve: every size at the speed of its nodes, half of them twice."""
    alone_s = APPS[app] * n**3 / (NODE_GFLOPS * 1e9)
    each_s = [1.15 * alone_s / p * (samples + DISCARD) + 2 * START_S for p in SIZES]
    return sum(each_s) + (repeat - 1) * sum(each_s[: len(SIZES) // 2])


def measure(
    cluster: LiveCluster, app: str, n: int, network: str, samples: int, repeat: int
) -> Curve:
    """Let the scheduler find the sweet spot, then measure the sizes it did not try."""
    program = ["-m", f"apps.{app}", "--n", str(n)]
    times: dict[int, list[float]] = defaultdict(list)
    moved_s: dict[int, float] = {}
    found = []
    for number_ in range(1, repeat + 1):
        job = search(cluster, program, samples)
        found.append(job["sweet_spot"] or job["processors"])
        if repeat > 1:
            note(f"search {number_} of {repeat}: {found[-1]}")
        for stay in job["sizes"]:
            if stay["iteration_time_s"] and stay["iterations"] >= samples:
                times[stay["processors"]].append(stay["iteration_time_s"])
            moved_s.setdefault(stay["processors"], stay["redistribution_time_s"])
    time_s = {size: statistics.median(times[size]) for size in sorted(times)}
    for size in SIZES:
        worst = time_s[max(time_s)] > GIVE_UP * min(time_s.values())
        if size > max(time_s) and worst:
            break  # larger sizes are slower still
        if size not in time_s:
            count = ["--iterations", str(samples + DISCARD)]
            fixed = cluster.start([*program, *count], "--sizes", str(size))
            done = cluster.wait([fixed])[0]
            time_s[size] = done["sizes"][-1]["iteration_time_s"]
    return Curve(app, n, network, dict(sorted(time_s.items())), tuple(found), moved_s)


def search(cluster: LiveCluster, program: Sequence[str], samples: int) -> dict[str, Any]:
    """Run one job until the scheduler has found its sweet spot; its `dq job --json` then."""
    sizes = ["--sizes", ",".join(map(str, SIZES))]
    adaptive = cluster.start([*program, "--iterations", str(ENDLESS)], *sizes)
    job = cluster.wait([adaptive], lambda job: is_settled(job, samples), limit_s=4 * 3600)[0]
    cluster.dq("kill", adaptive)
    cluster.wait([adaptive])
    return job


def is_settled(job: dict[str, Any], samples: int) -> bool:
    """Whether the job has found its sweet spot, or has been measured on the largest size."""
    if not job["sizes"]:
        return False
    if job["sweet_spot"] is not None:
        return True
    last = job["sizes"][-1]
    return bool(last["processors"] == SIZES[-1] and last["iterations"] >= samples + DISCARD + 2)


def as_text(curves: Sequence[Curve]) -> str:
    lines = []
    for curve in curves:
        name, paper = THESIS[curve.app]
        lines += ["", f"{curve.app}, N = {curve.n}, {curve.network} network"]
        gains = [None, *curve.gains]
        printed = [None, *paper]
        rows = [
            [
                str(size),
                number(curve.time_s.get(size)),
                number(gain, "+.1f"),
                number(theirs, "+.1f"),
                "sweet spot" if size == curve.sweet_spot else "",
            ]
            for size, gain, theirs in zip(SIZES, gains, printed, strict=True)
        ]
        head = ["processors", "s/iteration", "gain %", f"thesis {name} %", ""]
        lines.append(table(head, rows))
        found = ", ".join(map(str, curve.found))
        verdict = f"{curve.agreeing} of {len(curve.found)} the same, within the threshold"
        lines.append(f"scheduler's sweet spot {found}; knee {curve.knee}: {verdict}")
    lines += ["", differences()]
    return "\n".join(lines)


def differences() -> str:
    """A sentence on how our curves differ from the thesis's, and why."""
    return (
        "The thesis's gains are for N = 9600. Our product moves its panels while it computes and"
        " uses all links at once,\nso at the same N it gains longer than the thesis's PBLAS did;"
        " the shape (falling, square grids ahead) is to be compared."
    )


def as_json(curves: Sequence[Curve], calibrations: Sequence[Calibration]) -> str:
    return json.dumps(
        {
            "schema": 1,
            "experiment": "sweet_spot",
            "threshold": THRESHOLD,
            "calibration": list(calibrations),
            "curves": [
                {
                    "app": c.app,
                    "n": c.n,
                    "network": c.network,
                    "iteration_time_s": {str(k): v for k, v in c.time_s.items()},
                    "gain_percent": c.gains,
                    "thesis_gain_percent": THESIS[c.app][1],
                    "sweet_spot": c.sweet_spot,
                    "found": c.found,
                    "knee": c.knee,
                    "agrees": c.agrees(c.sweet_spot),
                    "agreeing": c.agreeing,
                    "redistribution_s": {str(k): v for k, v in c.redistribution_s.items()},
                }
                for c in curves
            ],
        }
    )


def save(path: Path, curves: Sequence[Curve]) -> None:
    rows = [
        [c.app, c.n, c.network, size, time_s, int(size == c.sweet_spot), int(size == c.knee)]
        for c in curves
        for size, time_s in c.time_s.items()
    ]
    head = ["app", "n", "network", "processors", "iteration_time_s", "sweet_spot", "knee"]
    write_csv(path, head, rows)


def draw(path: Path, curves: Sequence[Curve]) -> None:
    """Left: iteration times, sweet spots marked. Right: gains beside the thesis's."""
    plt = pyplot()
    figure, (times, gains) = plt.subplots(1, 2, figsize=(13, 5), layout="constrained")
    steps = [f"{a}→{b}" for a, b in pairwise(SIZES)]
    for number_, c in enumerate(curves):
        label = f"{c.app} N={c.n}, {c.network}"
        colour = f"C{number_}"
        times.plot(list(c.time_s), list(c.time_s.values()), "o-", color=colour, label=label)
        if c.sweet_spot in c.time_s:
            spot = c.time_s[c.sweet_spot]
            times.plot(c.sweet_spot, spot, "*", ms=17, color=colour, mec="black")
        gains.plot(steps, [float("nan") if g is None else g for g in c.gains], "o-", color=colour)
    for app in sorted({c.app for c in curves}):
        name, paper = THESIS[app]
        values = [float("nan") if g is None else g for g in paper]
        style = "--" if app == "matmul" else ":"
        gains.plot(steps, values, f"s{style}", color="black", label=f"thesis {name}, {app} N=9600")
    times.set(yscale="log", xlabel="processors", ylabel="seconds per iteration")
    times.set_xticks(SIZES)
    times.set_title("star: the sweet spot that the scheduler found", fontsize=10)
    gains.axhline(100 * THRESHOLD, color="grey", lw=0.8)
    gains.set(xlabel="from → to processors", ylabel="improvement of the iteration time, %")
    times.legend(fontsize=8)
    gains.legend(fontsize=8)
    for ax in (times, gains):
        ax.grid(alpha=0.3)
    figure.savefig(path, dpi=110)


def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(prog="experiments.sweet_spot", description=__doc__)
    add_options(parser, quick="N = 1200 and 2400 fast, 2400 slow; two samples per size")
    parser.add_argument("--app", choices=sorted(APPS), default="matmul")
    parser.add_argument("--n", type=whole_number(1), nargs="+", help="sizes of the matrices")
    parser.add_argument("--network", choices=sorted(NETWORKS), nargs="+")
    parser.add_argument("--fidelity", choices=("paced", "contained"), default="paced")
    parser.add_argument(
        "--repeat", type=whole_number(1), default=1, help="how often the scheduler searches"
    )
    add_calibration_option(parser)
    options = parser.parse_args(argv)
    check_options(parser, options)
    samples = 2 if options.quick else 3
    runs = chosen(options)
    whole_s = sum(estimate_s(options.app, n, samples, options.repeat) for _, n in runs)
    note(f"{len(runs)} curves of {options.app}, about {minutes(whole_s)}")
    scheduler = {
        "samples": samples,
        "discard": DISCARD,
        "threshold": THRESHOLD,
        "sweet_spot": "thesis",
    }
    networks = list(dict.fromkeys(net for net, _ in runs))
    calibrations = calibrate(networks, fidelity=options.fidelity, options=options)
    curves = []
    for network in networks:
        with LiveCluster(network, scheduler=scheduler, fidelity=options.fidelity) as cluster:
            for n in (n for net, n in runs if net == network):
                note(f"{options.app}, N = {n}, {network} network ...")
                curve = measure(cluster, options.app, n, network, samples, options.repeat)
                curves.append(curve)
    if options.csv:
        save(options.csv, curves)
        save_beside(options.csv, calibrations)
    if options.plot:
        draw(options.plot, curves)
    if options.json:
        print(as_json(curves, calibrations))
    else:
        print(as_text(curves), in_words(calibrations), sep="\n")
    return 0


def chosen(options: argparse.Namespace) -> list[tuple[str, int]]:
    """Networks and sizes of the curves."""
    if options.quick and not options.network:
        runs = [("fast", n) for n in options.n or (1200, 2400)]
        return runs + ([] if options.n else [("slow", 2400)])
    sizes = options.n or ((1200, 2400) if options.quick else (1200, 2400, 4800))
    return [(net, n) for net in options.network or ("fast", "slow") for n in sizes]


if __name__ == "__main__":
    sys.exit(main())
