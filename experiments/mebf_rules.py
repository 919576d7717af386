"""What MEBF's choices are worth: partial shrinks, and backfilling on the preferred size only.

    python -m experiments.mebf_rules [--quick] [--seeds 10] [--json] [--csv F] [--plot F]
    python -m experiments.mebf_rules --log FILE.swf.gz --nodes N [--seeds 10] [the same]

Two choices where the paper leaves open what is right, each alone and both together:

    whole      jobs shrink only if all together make room for the job that waits (mebf_partial =
               false: the rule of 0.1)
    partial    they shrink all the same (the default)
    preferred  a job is backfilled only on the size it prefers (backfill_smaller = false)

Figures are the gain in mean turnaround over EASY, in percent: the mean, and the 95 % confidence
interval of that mean by Student's t; in brackets what the rule gains beside "whole" on the same
workloads, with the interval of that difference (workloads differ by more than rules). On the
paper's workload shapes (KIT-like, 500 nodes, all jobs malleable, medium scalability, full cost)
each seed draws another workload; a log is cut into as many parts of equally many jobs, and each
part begins on an empty machine.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from dq_server.core.settings import configured, named_config
from dq_server.sim.engine import Simulation
from dq_server.sim.errors import WorkloadError
from dq_server.sim.intervals import interval
from dq_server.sim.malleable import SCALABILITY, Malleability, MalleableWorkload
from dq_server.sim.swf import read_swf
from dq_server.sim.workload import RigidWorkload
from harness.generators.kit import INTENSIVE, NODES, NORMAL, kit_like
from harness.output import (
    Parser,
    add_options,
    check_options,
    pyplot,
    table,
    whole_number,
    write_csv,
)

POLICIES = ("mebf-handoff", "mebf-spare", "mebf-intensive")
RULES: Mapping[str, Mapping[str, Any]] = {
    "whole": {"mebf_partial": False},
    "partial": {},
    "whole, preferred": {"mebf_partial": False, "backfill_smaller": False},
    "partial, preferred": {"backfill_smaller": False},
}
SHAPES = {
    "normal, 1000 jobs": (1000, NORMAL),
    "intensive, 1000 jobs": (1000, INTENSIVE),
    "intensive, 5000 jobs": (5000, INTENSIVE),
}
HOW = Malleability(rho=SCALABILITY["medium"], overhead_s=10.0)


@dataclass(frozen=True, slots=True)
class Gain:
    """Over EASY, percent: the mean of all workloads, and half the width of its 95 % interval.

    more_pct, more_interval_pct  the same of the difference to the rule "whole", by workload
    """

    workload: str
    policy: str
    rule: str
    mean_pct: float
    interval_pct: float
    worst_pct: float
    more_pct: float
    more_interval_pct: float


def gains(name: str, workloads: Sequence[tuple[MalleableWorkload, int]]) -> Iterator[Gain]:
    """Each policy under each rule, on the same workloads; at least two."""
    easy = [_turnaround_s(workload, nodes, "easy", {}) for workload, nodes in workloads]
    for policy in POLICIES:
        whole: list[float] = []
        for rule, settings in RULES.items():
            found = [
                100 * (1 - _turnaround_s(workload, nodes, policy, settings) / easy_s)
                for (workload, nodes), easy_s in zip(workloads, easy, strict=True)
            ]
            whole = whole or found
            more = [a - b for a, b in zip(found, whole, strict=True)]
            yield Gain(
                name, policy, rule, fmean(found), interval(found), min(found), fmean(more),
                interval(more),
            )  # fmt: skip


def _turnaround_s(
    workload: MalleableWorkload, nodes: int, policy: str, settings: Mapping[str, Any]
) -> float:
    config = configured(named_config(policy), **settings)
    return Simulation(workload, nodes, config).run().metrics()["mean_turnaround_s"]


def drawn(shape: str, seeds: int) -> list[tuple[MalleableWorkload, int]]:
    """Workloads of one of the paper's shapes."""
    jobs, gaps = SHAPES[shape]
    return [
        (MalleableWorkload(kit_like(jobs, gaps=gaps, seed=seed), NODES, HOW, seed), NODES)
        for seed in range(1, seeds + 1)
    ]


def parts(path: Path, nodes: int, count: int) -> list[tuple[MalleableWorkload, int]]:
    """Consecutive parts of a log with equally many jobs, all of them malleable."""
    log = RigidWorkload.from_log(read_swf(path))
    each = len(log) // count
    found = []
    for k in range(count):
        a, b = k * each, (k + 1) * each
        begin_s = log.submit_s[a] if each else 0.0
        part = RigidWorkload(
            f"{log.name}, part {k + 1}",
            [submit_s - begin_s for submit_s in log.submit_s[a:b]],
            log.run_s[a:b],
            log.processors[a:b],
            log.estimate_s[a:b],
        )
        sizes_s = zip(part.processors, part.run_s, strict=True)
        if not any(size <= nodes and run_s > 0 for size, run_s in sizes_s):
            raise WorkloadError(f"{path}: no job of part {k + 1} of {count} runs on {nodes} nodes")
        found.append((MalleableWorkload(part, nodes, HOW, k + 1), nodes))
    return found


def _cell(gain: Gain) -> str:
    text = f"{gain.mean_pct:.1f} ± {gain.interval_pct:.1f}"
    if gain.rule == "whole":
        return text
    return f"{text} ({gain.more_pct:+.1f} ± {gain.more_interval_pct:.1f})"


def draw(path: Path, found: Sequence[Gain]) -> None:
    """Bars with their intervals, a panel per workload."""
    plt = pyplot()
    workloads = list(dict.fromkeys(gain.workload for gain in found))
    figure, axes = plt.subplots(
        1, len(workloads), figsize=(2 + 3.6 * len(workloads), 3.6), squeeze=False, sharey=True,
        layout="constrained",
    )  # fmt: skip
    for panel, workload in zip(axes.flat, workloads, strict=True):
        for k, rule in enumerate(RULES):
            here = [g for g in found if g.workload == workload and g.rule == rule]
            at = [x + (k - 1.5) * 0.2 for x in range(len(here))]
            heights, halves = [g.mean_pct for g in here], [g.interval_pct for g in here]
            panel.bar(at, heights, 0.18, yerr=halves, capsize=2, label=rule)
        panel.set_xticks(range(len(POLICIES)), [p.removeprefix("mebf-") for p in POLICIES])
        panel.set_title(workload, fontsize=9)
    axes[0][0].set_ylabel("mean turnaround, % better than EASY")
    axes[0][0].legend(fontsize=7)
    figure.savefig(path, dpi=110)


def as_text(found: Iterable[Gain]) -> str:
    """A table per workload: policies by rules."""
    lines, by_workload = [], dict[str, list[Gain]]()
    for gain in found:
        by_workload.setdefault(gain.workload, []).append(gain)
    for workload, here in by_workload.items():
        rows = []
        for policy in POLICIES:
            of_policy = [gain for gain in here if gain.policy == policy]
            cells = [_cell(gain) for gain in of_policy]
            rows.append([policy.removeprefix("mebf-"), *cells])
        lines += [f"{workload}: mean turnaround, % better than EASY", table(["", *RULES], rows), ""]
    return "\n".join(lines).rstrip()


def main(argv: Sequence[str] | None = None) -> int:
    """Print the gains."""
    parser = Parser(prog="experiments.mebf_rules", description=__doc__)
    add_options(parser, quick="1000 jobs only")
    parser.add_argument("--seeds", type=whole_number(2), default=10, help="workloads, or parts")
    parser.add_argument("--log", type=Path, help="a log in the Standard Workload Format instead")
    parser.add_argument("--nodes", type=whole_number(1), help="its machine's processors")
    options = parser.parse_args(argv)
    check_options(parser, options)
    if (options.log is None) != (options.nodes is None):
        parser.error("--log and --nodes go together")
    found: list[Gain] = []
    if options.log is not None:
        try:
            cut = parts(options.log, options.nodes, options.seeds)
        except WorkloadError as error:
            parser.error(str(error))
        found += gains(f"{options.log.name} in {options.seeds} parts", cut)
    else:
        for shape, (jobs, _) in SHAPES.items():
            if jobs <= 1000 or not options.quick:
                found += gains(shape, drawn(shape, options.seeds))
    if options.csv:
        write_csv(options.csv, list(Gain.__slots__), [list(asdict(g).values()) for g in found])
    if options.plot:
        draw(options.plot, found)
    body = {"schema": 1, "experiment": "mebf_rules", "gains": [asdict(g) for g in found]}
    print(json.dumps(body) if options.json else as_text(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
