"""Strategies for malleable jobs beside EASY, DQ's own beside the best of the others, and the paper.

    python -m experiments.family RESULTS [--json]
    python -m experiments.family --theta JOBS.csv theta.swf.gz [--since 2023-01-12] [--days 14]
    python -m experiments.family --lublin FILE.swf [--jobs 600] [--nodes 100] [--load 0.9]

RESULTS is the folder of `dq sim study experiments/family.toml -o RESULTS`. Changes against EASY are
paired by seed, with 95 % intervals. Beside each metric of `shortest-first` stands how it compares
with the best other policy: "better" or "worse" if the paired interval excludes zero, else "equal".
Then who waits longer than under EASY: quantiles of the change of each job's turnaround. Last, the
ranges that the paper gives for the best strategy of each machine (Cori, Eagle, Theta).

`--theta` makes a log of the job data that Argonne publishes of Theta (ANL-ALCF-DJC-THETA_*.csv):
jobs queued from midnight of --since on, for --days.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from dq_server.sim.intervals import mean_and_interval
from dq_server.sim.swf import write_swf
from harness.generators.lublin import lublin
from harness.output import Parser, note, table

OWN, BASE = "shortest-first", "easy"
METRICS = ("mean_turnaround_s", "mean_wait_s", "makespan_s")
# Of the best strategy of each machine, against rigid jobs, in percent (abstract of the paper).
PUBLISHED = {
    "mean_turnaround_s": (-67, -37),
    "mean_wait_s": (-99, -73),
    "makespan_s": (-65, -16),
    "utilisation": (5, 52),
}
THETA_NODES = 4392
WHOLE = ("COBALT_JOBID", "NODES_USED", "RUNTIME_SECONDS", "WALLTIME_SECONDS")
QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
Case = tuple[str, str]  # log and share
Runs = dict[Case, dict[str, dict[str, dict[str, float]]]]  # policy -> seed -> metric
Row = dict[str, Any]


def read_runs(folder: Path) -> Runs:
    """The runs of a study."""
    found: Runs = defaultdict(lambda: defaultdict(dict))
    with (folder / "runs.csv").open() as file:
        for row in csv.DictReader(file):
            figures = {name: float(row[name]) for name in PUBLISHED}
            found[row["log"], row["share"]][row["policy"]][row["seed"]] = figures
    return found


def changes(runs: Runs) -> Iterator[Row]:
    """By log, share, policy and metric: mean change against EASY in percent, half its interval."""
    for (log, share), policies in runs.items():
        for policy in policies:
            if policy == BASE:
                continue
            row: Row = {"log": log, "share": float(share), "policy": policy}
            for metric in METRICS:
                row[metric], row[f"{metric}_half"] = _change(policies, policy, BASE, metric)
            yield row


def _change(
    policies: dict[str, dict[str, dict[str, float]]], policy: str, base: str, metric: str
) -> tuple[float, float]:
    """Mean change against another policy in percent, paired by seed, and half its interval."""
    return mean_and_interval(
        [
            100 * (of[metric] / policies[base][seed][metric] - 1)
            for seed, of in policies[policy].items()
        ]
    )


def verdicts(runs: Runs) -> Iterator[Row]:
    """By log, share and metric: DQ's own beside the other policy with the best mean."""
    for (log, share), policies in runs.items():
        for metric in METRICS:
            means = {
                policy: fmean(of[metric] for of in seeds.values())
                for policy, seeds in policies.items()
                if policy != OWN
            }
            best = min(means, key=lambda policy: means[policy])
            mean, half = _change(policies, OWN, best, metric)
            verdict = "equal" if abs(mean) <= half else "better" if mean < 0 else "worse"
            yield {"log": log, "share": float(share), "metric": metric, "best": best,
                   "change": mean, "half": half, "verdict": verdict}  # fmt: skip


def published(runs: Runs) -> Iterator[Row]:
    """By log, at the largest share: the paper's ranges, its best strategy here, and DQ's own.

    The best strategy is that with the shortest mean turnaround among all but EASY and DQ's own.
    """
    for log in dict.fromkeys(log for log, _ in runs):
        share = max((share for of, share in runs if of == log), key=float)
        policies = runs[log, share]
        means = {
            policy: fmean(of["mean_turnaround_s"] for of in seeds.values())
            for policy, seeds in policies.items()
            if policy not in (OWN, BASE)
        }
        best = min(means, key=lambda policy: means[policy])
        for metric, (least, most) in PUBLISHED.items():
            yield {"log": log, "share": float(share), "metric": metric, "least": least,
                   "most": most, "best": best,
                   "best_change": _change(policies, best, BASE, metric)[0],
                   "own_change": _change(policies, OWN, BASE, metric)[0]}  # fmt: skip


def fairness(folder: Path) -> Iterator[Row]:
    """By log and share: quantiles of turnaround under DQ's own minus that under EASY, hours."""
    runs: dict[str, list[tuple[str, str, str, str]]] = defaultdict(list)
    with (folder / "runs.csv").open() as file:
        for row in csv.DictReader(file):
            if row["policy"] in (OWN, BASE):
                runs[row["run"]].append((row["log"], row["share"], row["seed"], row["policy"]))
    by_run: dict[str, dict[str, float]] = {run: {} for run in runs}
    with gzip.open(folder / "jobs.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            if row["run"] in by_run:
                by_run[row["run"]][row["job"]] = float(row["turnaround_s"])
    of = {case: by_run[run] for run, cases in runs.items() for case in cases}
    found: dict[Case, list[float]] = defaultdict(list)
    for (log, share, seed, policy), jobs in of.items():
        if policy == OWN:
            base = of[log, share, seed, BASE]
            found[log, share] += [jobs[job] - base[job] for job in jobs]
    for (log, share), values in sorted(found.items()):
        hours = np.quantile(values, QUANTILES) / 3600
        later = 100 * fmean(value > 60 for value in values)
        yield {"log": log, "share": float(share), "later_pct": later} | {
            f"q{100 * q:g}": float(value) for q, value in zip(QUANTILES, hours, strict=True)
        }


def as_text(found: dict[str, list[Row]]) -> str:
    """The four tables."""
    body = [
        [row["log"], f"{row['share']:g}", row["policy"]]
        + [f"{row[m]:+.1f} ±{row[m + '_half']:.1f}" for m in METRICS]
        for row in found["changes"]
    ]
    parts = [table(["log", "share", "policy", "turnaround %", "wait %", "makespan %"], body)]
    body = [
        [row["log"], f"{row['share']:g}", row["metric"], row["best"],
         f"{row['change']:+.2f} ±{row['half']:.2f}", row["verdict"]]
        for row in found["verdicts"]
    ]  # fmt: skip
    parts.append(table(["log", "share", "metric", "best other", f"{OWN} %", ""], body))
    quantiles = [f"q{100 * q:g}" for q in QUANTILES]
    body = [
        [row["log"], f"{row['share']:g}", f"{row['later_pct']:.0f}"]
        + [f"{row[q]:+.1f}" for q in quantiles]
        for row in found["fairness"]
    ]
    parts.append(table(["log", "share", "later %", *(f"{q} h" for q in quantiles)], body))
    body = [
        [row["log"], f"{row['share']:g}", row["metric"], f"{row['least']:+} to {row['most']:+}",
         f"{row['best']} {row['best_change']:+.1f}", f"{row['own_change']:+.1f}"]
        for row in found["published"]
    ]  # fmt: skip
    parts.append(table(["log", "share", "change %", "published", "best other", OWN], body))
    return "\n\n".join(parts)


def write_theta(source: Path, path: Path, since: datetime, days: float) -> int:
    """Write the jobs of Argonne's table that were queued in these days as a log; returns how many.

    Sizes are nodes, as the scheduler of Theta allotted them. Jobs that took none, or no time, never
    ran and are left out.

    Raises:
        ValueError: a column or a value is missing.
    """
    jobs, users = [], dict[str, int]()
    with source.open(encoding="utf-8-sig", newline="") as file:
        for line, row in enumerate(csv.DictReader(file), start=2):
            try:
                queued = datetime.strptime(row["QUEUED_TIMESTAMP"], "%Y-%m-%d %H:%M:%S")
                number, nodes, run_s, limit_s = (int(float(row[name])) for name in WHOLE)
            except (KeyError, ValueError, TypeError) as error:
                raise ValueError(f"{source}:{line}: no job of Argonne's table: {error}") from error
            if since <= queued < since + timedelta(days=days) and nodes > 0 and run_s > 0:
                user = users.setdefault(row.get("USERNAME_GENID") or "", len(users))
                submit_s = (queued - since).total_seconds()
                jobs.append([number, submit_s, -1, run_s, nodes, -1, -1, nodes, max(limit_s, run_s),
                             -1, 1, user, *[-1] * 6])  # fmt: skip
    jobs.sort(key=lambda job: job[1])
    write_swf(path, jobs, f"Computer: Theta\nMaxProcs: {THETA_NODES}")
    return len(jobs)


def write_lublin(path: Path, jobs: int, nodes: int, load: float) -> None:
    """Write a Lublin load as a log."""
    made = lublin(jobs, nodes, load=load, seed=1)
    rows = (
        [k + 1, made.submit_s[k], -1, made.run_s[k], made.processors[k], -1, -1,
         made.processors[k], made.estimate_s[k], -1, 1, k % 20, 1, -1, -1, -1, -1, -1]
        for k in range(jobs)
    )  # fmt: skip
    write_swf(path, rows, f"MaxProcs: {nodes}")


def main(argv: Sequence[str] | None = None) -> None:
    """See the module's docstring."""
    parser = Parser(description=__doc__)
    parser.add_argument("results", type=Path, nargs="?")
    parser.add_argument("--theta", nargs=2, metavar=("JOBS.csv", "LOG"))
    parser.add_argument("--since", type=datetime.fromisoformat, default="2023-01-12")
    parser.add_argument("--days", type=float, default=14.0)
    parser.add_argument("--lublin", type=Path, metavar="FILE")
    parser.add_argument("--jobs", type=int, default=600)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--load", type=float, default=0.9)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    if args.theta is not None:
        source, path = map(Path, args.theta)
        try:
            count = write_theta(source, path, args.since, args.days)
        except (OSError, ValueError) as error:
            parser.error(str(error))
        note(f"{path}: {count} jobs")
        return
    if args.lublin is not None:
        write_lublin(args.lublin, args.jobs, args.nodes, args.load)
        note(f"{args.lublin}: {args.jobs} jobs")
        return
    if args.results is None or not (args.results / "runs.csv").is_file():
        parser.error("name the folder of a study's results (dq sim study -o RESULTS)")
    runs = read_runs(args.results)
    found = {"changes": list(changes(runs)), "verdicts": list(verdicts(runs)),
             "fairness": list(fairness(args.results)),
             "published": list(published(runs))}  # fmt: skip
    print(json.dumps(found) if args.json else as_text(found))


if __name__ == "__main__":
    main()
