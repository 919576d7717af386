"""Job mixes of the ReSHAPE thesis (4.3) on the live system: real server, agents, ranks, matrices.

    python -m experiments.job_mixes --live --mix 1 [--quick]      (or experiments.job_mixes_live)

Mix 1 (Figure 9, Tables 3 and 4): three long jobs start on 4 processors and expand; halfway a short
job of 12 is submitted, for which two of them shrink; afterwards they expand again. The same
applications then run under static scheduling: on 6 processors each, so that the short job fits
beside them (Table 3), and on 9 each, so that it has to wait (Table 4).

Mix 2 (Figure 10): eight jobs, short ones first, that expand and shrink in the same way.

The text names 32 processors, but its jobs hold 9 + 12 + 12 = 33: we run with 33.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dq_server.core.model.config import SchedulerConfig
from experiments.calibration import (
    Calibration,
    add_calibration_option,
    calibrate,
    in_words,
    save_beside,
)
from experiments.mix_runs import PROCESSORS, Outcome, Ran, draw, save
from experiments.twin import simulate
from harness.live import HOSTFILES, Job, LiveCluster
from harness.output import Parser, add_options, check_options, minutes, note, table

# Samples per size, and iterations before a job that gave way grows again: small, for short runs.
SCHEDULER: dict[str, Any] = {
    "samples": 2,
    "discard": 1,
    "threshold": 0.05,
    "settle": 2,
    "sweet_spot": "thesis",
}


@dataclass(frozen=True, slots=True)
class Spec:
    """One job of a mix. `at`: when it is submitted, as a share of the long jobs' run."""

    name: str
    app: str
    initial: int
    sizes: tuple[int, ...]
    iterations: int  # of the full form at N = 2400; the quick form at N = 1200 has the same
    at: float = 0.0


GROWING = (4, 6, 9, 12)
MIX_1 = (
    Spec("Job 0", "matmul", 4, (4, 6, 9), 130),
    Spec("Job 1", "matmul", 4, GROWING, 130),
    Spec("Job 2", "matmul", 4, GROWING, 130),
    Spec("Job 3", "matmul", 12, (12,), 16, at=0.5),
)
MIX_2 = (
    Spec("Job 0", "matmul", 9, (9, 12, 16), 150),
    Spec("Job 1", "matmul", 9, (9, 12), 60),
    Spec("Job 2", "matmul", 6, (6,), 8),
    Spec("Job 3", "matmul", 4, (4,), 8),
    Spec("Job 4", "matmul", 4, GROWING, 50, at=0.25),
    Spec("Job 5", "matmul", 6, (6, 9, 12), 40, at=0.55),
    Spec("Job 6", "matmul", 4, GROWING, 40, at=0.6),
    Spec("Job 7", "matmul", 4, (4, 6, 9, 12, 16, 20, 25), 90, at=0.7),
)
MIXES = {1: MIX_1, 2: MIX_2}


def cluster_file(folder: Path) -> str:
    """opteron36 with the number of nodes of the mixes; returns its path without .toml."""
    text = (HOSTFILES / "opteron36.toml").read_text().replace("n[01-36]", f"n[01-{PROCESSORS}]")
    path = folder / "mix.toml"
    path.write_text(text.replace('"opteron36"', f'"opteron{PROCESSORS}"'))
    return str(path.with_suffix(""))


def run(title: str, mix: Sequence[Spec], n: int, unit_s: float, static: int | None) -> Outcome:
    """Run a mix on a cluster of its own; `unit_s` scales the submission times.

    `static`: every job rigid, the growing ones on so many processors, in the thesis's order: all
    are submitted at once.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        LiveCluster(cluster_file(Path(folder)), scheduler=SCHEDULER) as cluster,
    ):
        begin, ids = time.time(), []
        for spec in sorted(mix, key=lambda spec: spec.at):
            due_s = 0.0 if static is not None else spec.at * unit_s
            time.sleep(max(0.0, begin + due_s - time.time()))
            program = ["-m", f"apps.{spec.app}", "--n", str(n)]
            options = ["-n", str(spec.initial), "--sizes", ",".join(map(str, spec.sizes))]
            if static is not None:
                # A malleable job of one size: it does what a rigid one does, and is measured.
                size = spec.initial if len(spec.sizes) == 1 else static
                options = ["--sizes", str(size)]
            program += ["--iterations", str(spec.iterations)]
            ids.append(cluster.start(program, "--name", spec.name, *options))
        found = cluster.wait(ids, limit_s=3600, every_s=1.0)
    zero_s = min(job["submit_s"] for job in found)
    return Outcome(title, tuple(ran(job, zero_s) for job in found), tuple(found))


def ran(job: Job, zero_s: float) -> Ran:
    """The times of a job, from `dq job --json`."""
    steps = tuple((stay["since_s"] - zero_s, stay["processors"]) for stay in job["sizes"])
    submit_s, start_s, end_s = (job[key] - zero_s for key in ("submit_s", "start_s", "end_s"))
    return Ran(job["name"], submit_s, start_s, end_s, steps)


def run_all(mix: int, *, quick: bool) -> list[Outcome]:
    """The mix, and for mix 1 the static runs it is compared with."""
    n, unit_s = (1200, 36.0) if quick else (2400, 190.0)
    statics = [6, 9] if mix == 1 else []
    note(f"job mix {mix}, N = {n}: about {minutes((1.5 + 1.5 * len(statics)) * unit_s)}")
    outcomes = [run("ReSHAPE", MIXES[mix], n, unit_s, None)]
    for size in statics:
        note(f"static, {size} processors each ...")
        outcomes.append(run(f"static {size}", MIXES[mix], n, unit_s, size))
    return outcomes


def as_text(mix: int, outcomes: Sequence[Outcome]) -> str:
    lines = []
    for outcome in outcomes:
        head = ["job", "submitted", "start", "end", "turnaround", "sizes"]
        head += ["thesis start", "thesis end"] if mix == 1 else []
        rows = []
        for number, job in enumerate(outcome.jobs):
            sizes = " ".join(str(size) for _, size in job.steps)
            row = [job.name, *(f"{t:.1f}" for t in (job.submit_s, job.start_s, job.end_s))]
            row += [f"{job.turnaround_s:.1f}", sizes]
            row += [str(t) for t in outcome.printed[number]] if mix == 1 else []
            rows.append(row)
        lines += ["", f"Job mix {mix}, {outcome.title} (seconds)", table(head, rows)]
        lines.append(
            f"makespan {outcome.makespan_s:.1f} s,"
            f" mean turnaround {outcome.mean_turnaround_s:.1f} s,"
            f" thesis's throughput (last end / jobs) {outcome.makespan_s / len(rows):.1f} s/job"
        )
    if mix == 1:
        lines += ["", verdict(outcomes)]
    lines += ["", differences()]
    return "\n".join(lines)


def verdict(outcomes: Sequence[Outcome]) -> str:
    """The statements that mix 1 should show, with the figures."""
    dynamic, waits = outcomes[0], outcomes[-1]
    short = dynamic.jobs[-1]
    gave = [job.name for job in dynamic.jobs[:-1] if gave_way_and_grew_back(job, short)]
    wait_s = short.start_s - short.submit_s
    static_wait_s = waits.jobs[-1].start_s - waits.jobs[-1].submit_s
    return (
        f"gave way to Job 3 and grew back: {', '.join(gave) or 'none'}."
        f" Job 3 started {wait_s:.1f} s after it was submitted;"
        f" beside static jobs of 9 it waited {static_wait_s:.1f} s.\n"
        f"makespan: ReSHAPE {dynamic.makespan_s:.1f} s, "
        + ", ".join(f"{o.title} {o.makespan_s:.1f} s" for o in outcomes[1:])
    )


def gave_way_and_grew_back(job: Ran, short: Ran) -> bool:
    """Whether the job shrank for `short` and was larger again later."""
    for (_, before), (at_s, after), *later in windows(job.steps):
        if after < before and short.submit_s <= at_s <= short.end_s:
            return any(size > after for _, size in later)
    return False


def windows(steps: Sequence[tuple[float, int]]) -> list[Sequence[tuple[float, int]]]:
    """Every suffix of at least two steps."""
    return [steps[i:] for i in range(len(steps) - 1)]


def differences() -> str:
    """A sentence on how our results differ from the thesis's, and why."""
    return (
        "The thesis's jobs ran for 50 minutes on 1.4 GHz processors; ours are scaled down and grow"
        " for a larger part of their time,\nso they gain less over a good static choice. Its"
        " static Job 3 is listed as starting only when the last long job ends; FCFS starts ours"
        " as soon as 12 processors are free."
    )


def as_json(mix: int, outcomes: Sequence[Outcome], calibrations: Sequence[Calibration]) -> str:
    return json.dumps(
        {
            "schema": 1,
            "experiment": "job_mixes_live",
            "mix": mix,
            "processors": PROCESSORS,
            "calibration": list(calibrations),
            "runs": [outcome.as_plain() for outcome in outcomes],
        }
    )


def twin_of(mix: Sequence[Spec], live: Outcome) -> Outcome:
    """The live run repeated in simulation."""
    iterations = {spec.name: spec.iterations for spec in mix}
    counts = [iterations[job["name"]] for job in live.details]
    found = simulate(live.details, counts, PROCESSORS, SchedulerConfig(**SCHEDULER))
    jobs = (Ran(j.name, j.submit_s, j.start_s, j.end_s, j.steps) for j in found)
    return Outcome("simulated", tuple(jobs), ())


def compared(live: Outcome, twin: Outcome) -> str:
    """The results of the simulation and their errors in per cent."""
    rows = [
        [a.name, f"{a.turnaround_s:.1f}", f"{b.turnaround_s:.1f}",
         f"{100 * (b.turnaround_s / a.turnaround_s - 1):+.1f}",
         " ".join(str(size) for _, size in b.steps)]
        for a, b in zip(live.jobs, twin.jobs, strict=True)
    ]  # fmt: skip
    error = 100 * (twin.makespan_s / live.makespan_s - 1)
    return (
        "\nLive beside simulated, the model fitted from this live run\n"
        + table(["job", "turnaround live", "simulated", "error %", "sizes simulated"], rows)
        + f"\nmakespan {live.makespan_s:.1f} s live,"
        f" {twin.makespan_s:.1f} s simulated: {error:+.1f} %"
    )


def main_live(options: argparse.Namespace) -> int:
    """The live form of `experiments.job_mixes`, with its options."""
    calibrations = calibrate(["fast"], options=options)
    outcomes = run_all(options.mix, quick=options.quick)
    twin = twin_of(MIXES[options.mix], outcomes[0])
    if options.csv:
        save(options.csv, [*outcomes, twin])
        save_beside(options.csv, calibrations)
    if options.plot:
        draw(options.plot, options.mix, outcomes, "live", twin)
    if options.json:
        print(as_json(options.mix, [*outcomes, twin], calibrations))
    else:
        print(as_text(options.mix, outcomes), compared(outcomes[0], twin), sep="\n")
        print(in_words(calibrations))
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """The live form alone."""
    parser = Parser(prog="experiments.job_mixes_live", description=__doc__)
    add_options(parser, quick="N = 1200 instead of 2400")
    parser.add_argument("--mix", type=int, choices=sorted(MIXES), default=1)
    add_calibration_option(parser)
    options = parser.parse_args(argv)
    check_options(parser, options)
    return main_live(options)


if __name__ == "__main__":
    sys.exit(main())
