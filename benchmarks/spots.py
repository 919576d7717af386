"""How well sweet spots are found: drawn speed-up curves, each run by the scheduler itself.

    python -m benchmarks.spots [--quick] [--curves 1200] [--seed 1] [--json] [--csv F] [--plot F]

A malleable job runs alone for a number of iterations on a machine that has room for its largest
size. The core decides at each remap point; nothing is simulated but times. For each curve are
drawn, from `--seed`: a family, a chain of legal sizes, 60, 200 or 1,000 iterations, noise, and what
a resize costs. The job starts on the smallest size of its chain.

    families  amdahl    T(p) = f + (1 - f)/p                     f from 0.02 to 0.5
              power     T(p) = p**-e                             e from 0.2 to 0.8
              log       T(p) = f + (1 - f)/p + c*log2(p)         c from 0.005 to 0.1
              linear    T(p) = f + (1 - f)/p + c*p               smallest at 2 to 32 processors
              ragged    one of these, each size times a factor of its own (lognormal, 3 to 15 %)
              valley    one of these, one stretch of sizes 1.2 to 2 times as long
    chains    1, 2, 4 ... 64; 1, 2, 4, 6, 9, 12, 16, 20, 25, 30, 36; 1 to 16; 1 to 64
    noise     2, 8 or 20 % (lognormal); 1 iteration in 50 is an outlier of 1.5 to 4 times its time
    resizes   take 0.05, 1 or 5 iterations' time on the best size

Loss: the time of the whole run, its search and all its resizes included, over that of the same
number of iterations on the one size of the chain whose true time is the smallest, minus one, in
percent. Both are reckoned with true times, without noise, so that luck is nobody's merit. `off`:
the share of jobs whose last size has a true time more than 10 % above the smallest of the chain.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from math import exp, log, log2
from statistics import fmean, median
from typing import Any

from dq_server.core.model import events as ev
from dq_server.core.model.actions import AnswerRemap, StartJob
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import JobKind, JobSpec
from dq_server.core.model.sizes import configurations, nearest_square
from dq_server.core.scheduler import Scheduler
from dq_server.core.settings import configured
from harness.output import (
    Parser,
    add_options,
    check_options,
    pyplot,
    table,
    whole_number,
    write_csv,
)

CHAINS: Mapping[str, tuple[int, ...]] = {
    "doublings": (1, 2, 4, 8, 16, 32, 64),
    "squares": (1, 2, 4, 6, 9, 12, 16, 20, 25, 30, 36),
    "1 to 16": tuple(range(1, 17)),
    "1 to 64": tuple(range(1, 65)),
}
FAMILIES = ("amdahl", "power", "log", "linear", "ragged", "valley")
ITERATIONS, NOISE, RESIZES = (60, 200, 1000), (0.02, 0.08, 0.2), (0.05, 1.0, 5.0)
OFF = 0.10
RULES: Mapping[str, Mapping[str, Any]] = {
    "thesis": {"samples": 1, "discard": 0, "threshold": 0.0, "settle": 0},
    "kept": {},
    "search": {"sweet_spot": "search"},
}
Times = Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Curve:
    """What a job meets. `true`: time of an iteration by size; `noise`: a factor per iteration."""

    family: str
    chain: str
    iterations: int
    sigma: float
    resize: float  # iterations
    true: Times
    noise: Sequence[float]


@dataclass(frozen=True, slots=True)
class Ran:
    """One job under one rule. `off_pct`: of its last size, over the best; `sizes`: its stays."""

    rule: str
    seed: str
    family: str
    chain: str
    iterations: int
    sigma: float
    resize: float
    loss_pct: float
    off_pct: float
    best: int
    sizes: tuple[int, ...]


def smooth(draw: random.Random, family: str) -> Callable[[int], float]:
    """A curve of one of the four smooth families; 1 on one processor, or somewhat more."""
    serial = exp(draw.uniform(log(0.02), log(0.5)))
    if family == "power":
        exponent = draw.uniform(0.2, 0.8)
        return lambda p: float(p**-exponent)
    each = 0.0
    if family == "log":
        each = exp(draw.uniform(log(0.005), log(0.1)))
        return lambda p: serial + (1 - serial) / p + each * log2(p)
    if family == "linear":
        each = 2.0 ** (-2 * draw.uniform(1, 5))
    return lambda p: serial + (1 - serial) / p + each * p


def drawn(seed: str) -> Curve:
    """A curve by seed: the same for all rules."""
    draw = random.Random(seed)
    family, chain = draw.choice(FAMILIES), draw.choice(list(CHAINS))
    sizes = CHAINS[chain]
    plain = family if family in FAMILIES[:4] else draw.choice(FAMILIES[:4])
    curve = smooth(draw, plain)
    true = {p: curve(p) for p in sizes}
    if family == "ragged":
        spread = draw.uniform(0.03, 0.15)
        true = {p: t * exp(draw.gauss(0, spread)) for p, t in true.items()}
    if family == "valley":
        first = draw.randrange(1, len(sizes) - 1)
        last = first + draw.randint(0, len(sizes) // 8)
        factor = draw.uniform(1.2, 2)
        true |= {p: true[p] * factor for p in sizes[first : last + 1]}
    iterations, sigma = draw.choice(ITERATIONS), draw.choice(NOISE)
    resize, scale = draw.choice(RESIZES), exp(draw.uniform(-3, 3))
    noise = [
        exp(draw.gauss(0, sigma)) * (draw.uniform(1.5, 4) if draw.random() < 1 / 50 else 1.0)
        for _ in range(iterations)
    ]
    return Curve(
        family, chain, iterations, sigma, resize, {p: scale * t for p, t in true.items()}, noise
    )


def run(curve: Curve, config: SchedulerConfig) -> list[tuple[int, float]]:
    """Drive the scheduler with one job alone: of each iteration its size and its true time, with
    what a resize before it took."""
    sizes = sorted(curve.true)
    scheduler = Scheduler(config)
    scheduler.handle(ev.NodeJoined("n", sizes[-1]), 0.0)
    spec = JobSpec("job", JobKind.MALLEABLE, nearest_square(sizes[0]), configurations(sizes))
    actions = scheduler.handle(ev.JobSubmitted(spec), 0.0)
    start = next(a for a in actions if isinstance(a, StartJob))
    scheduler.handle(ev.JobStarted(start.job, start.instance), 0.0)
    job, done, extra_s, now = scheduler.state.job(start.job), 0, 0.0, 0.0
    ran = list[tuple[int, float]]()
    for k, noise in enumerate(curve.noise):
        true_s = curve.true[job.size]
        ran.append((job.size, true_s + extra_s))
        now += true_s * noise
        point = ev.RemapPoint(job.id, job.instance, k + 1, job.size, done, true_s * noise)
        answer = next(a.answer for a in scheduler.handle(point, now) if isinstance(a, AnswerRemap))
        extra_s = 0.0
        if answer.what != "continue" and k + 1 < curve.iterations:
            done, extra_s = answer.resize_id, curve.resize * min(curve.true.values())
            now += extra_s
            scheduler.handle(ev.ResizeCommitted(job.id, job.instance, done, extra_s), now)
    return ran


def measured(rule: str, seed: str, curve: Curve, ran: Sequence[tuple[int, float]]) -> Ran:
    """The figures of one job."""
    best = min(curve.true, key=curve.true.__getitem__)
    least_s, last = curve.true[best], ran[-1][0]
    total_s = sum(took_s for _, took_s in ran)
    stays = [ran[0][0]] + [b for (a, _), (b, _) in pairwise(ran) if a != b]
    return Ran(
        rule, seed, curve.family, curve.chain, curve.iterations, curve.sigma, curve.resize,
        100 * (total_s / (least_s * len(ran)) - 1), 100 * (curve.true[last] / least_s - 1),
        best, tuple(stays),
    )  # fmt: skip


def one(seed: int, rules: Mapping[str, Mapping[str, Any]], number: int) -> list[Ran]:
    """All rules on one curve."""
    key = f"{seed} {number}"
    curve = drawn(key)
    usual = configured(keep_decisions=0, confirm_vacated=False)
    return [
        measured(rule, key, curve, run(curve, configured(usual, **how)))
        for rule, how in rules.items()
    ]


def row(name: str, rule: str, own: Sequence[Ran]) -> tuple[str, ...]:
    """Figures of some jobs."""
    losses = sorted(r.loss_pct for r in own)
    off = sum(r.off_pct > 100 * OFF for r in own) / len(own)
    return (
        name, rule, str(len(own)), f"{fmean(losses):.1f}", f"{median(losses):.1f}",
        f"{losses[int(0.95 * len(losses))]:.1f}", f"{100 * off:.1f}",
        f"{fmean(len(r.sizes) - 1 for r in own):.1f}",
    )  # fmt: skip


HEAD = ("curves", "rule", "jobs", "loss", "median", "p95", "off", "resizes")


def rows_of(results: Sequence[Ran]) -> list[tuple[str, ...]]:
    """The table: all curves, then by what was drawn."""
    rules = list(dict.fromkeys(r.rule for r in results))
    rows = [row("all", rule, [r for r in results if r.rule == rule]) for rule in rules]
    for what in ("family", "chain", "iterations", "sigma", "resize"):
        for value in dict.fromkeys(sorted(getattr(r, what) for r in results)):
            for rule in rules:
                own = [r for r in results if r.rule == rule and getattr(r, what) == value]
                rows.append(row(f"{what} {value}", rule, own))
    return rows


def draw_losses(path: str, results: Sequence[Ran]) -> None:
    """The distribution of the loss: one line for each rule."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(6, 4))
    for rule in dict.fromkeys(r.rule for r in results):
        own = sorted(r.loss_pct for r in results if r.rule == rule)
        axes.plot(own, [(k + 1) / len(own) for k in range(len(own))], label=rule)
    axes.set_xscale("symlog", linthresh=10)
    axes.set_xticks([0, 5, 10, 25, 100, 1000], ["0", "5", "10", "25", "100", "1000"])
    axes.set_xlabel("loss against the best size from the first iteration on (%)")
    axes.set_ylabel("share of the jobs")
    axes.legend(loc="lower right")
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main(argv: Sequence[str] | None = None) -> int:
    """Run, print, write."""
    parser = Parser(prog="benchmarks.spots", description=__doc__)
    add_options(parser, quick="60 curves")
    parser.add_argument("--curves", type=whole_number(1), default=1200)
    parser.add_argument("--seed", type=whole_number(0), default=1)
    options = parser.parse_args(argv)
    check_options(parser, options)
    curves = 60 if options.quick else options.curves
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(partial(one, options.seed, RULES), range(curves), chunksize=10)
        results = [ran for own in found for ran in own]
    rows = rows_of(results)
    if options.csv:
        write_csv(options.csv, HEAD, rows)
    if options.plot:
        draw_losses(str(options.plot), results)
    if options.json:
        print(json.dumps({"schema": 1, "runs": [asdict(r) for r in results]}))
    else:
        print(table(HEAD, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
