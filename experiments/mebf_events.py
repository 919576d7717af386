"""What MEBF does, and to whom: the MEBF paper's Figs. 6, 10 and 11 and Tables 5 to 7.

    python -m experiments.mebf_events [--quick] [--seeds 3] [--json] [--csv F] [--plot F]

Fig. 6    the share of expansions that go to jobs of each initial size
Table 5   of all shrinks, expansions and backfilled starts: how many are which
Fig. 10   utilization, by scalability and number of jobs
Fig. 11   utilization over time (the picture; as text the mean of each fifth of the run)
Table 6   slowdown, % better than EASY, by scalability and number of jobs; all jobs malleable
Table 7   the same with 60 and 80 % malleable jobs

KIT-like workloads (harness/generators/kit.py), arrivals four times as dense, full cost, 500
nodes; means over seeds. The tables and figures of the paper themselves are missing from its text:
what is beside ours is what the text says of them. Slowdown as there: mean turnaround over the mean
run time without malleability.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from dq_server.core.settings import named_config
from dq_server.sim.engine import Simulation
from dq_server.sim.malleable import SCALABILITY, Malleability, MalleableWorkload
from dq_server.sim.records import SimulatedJobs
from harness import verdicts
from harness.generators.kit import INTENSIVE, NODES, kit_like
from harness.output import (
    Parser,
    add_options,
    check_options,
    pyplot,
    table,
    whole_number,
    write_csv,
)
from harness.verdicts import Claim, judged

MEBF = ("mebf-handoff", "mebf-spare", "mebf-intensive")
POLICIES = ("easy", *MEBF)
LEVELS = ("low", "medium", "high")  # scalability
SHARES = (0.6, 0.8)  # malleable jobs, Table 7
FULL_S = 10.0  # as in experiments.mebf
GROUPS = (1, 2, 8, 32, 128)  # smallest initial size of each group
PARTS = 5  # of a run, Fig. 11
CURVE = 200  # points of a line

NEAR = 5.0  # points within which a gain is that of the paper
ONE_CUT = "the paper's figures are one cut of the KIT log, ours are means of KIT-like workloads"


@dataclass(frozen=True, slots=True)
class Load:
    """Workloads of one kind."""

    jobs: int
    level: str
    share: float = 1.0

    def __str__(self) -> str:
        some = "" if self.share == 1 else f", {self.share:.0%} malleable"
        return f"{self.jobs} jobs, {self.level}{some}"


@dataclass(frozen=True, slots=True)
class Seen:
    """What is read of one run. `expands`: by group of initial sizes; `curve`: use over time."""

    slowdown: float
    use: float
    shrinks: int
    backfilled: int
    expands: tuple[int, ...]
    curve: tuple[float, ...]


Runs = dict[str, list[Seen]]  # by policy, a run for each seed


def group(size: int) -> int:
    """The group of an initial size."""
    return sum(size >= least for least in GROUPS) - 1


def names() -> list[str]:
    """The groups as people write them."""
    ends = [*(after - 1 for after in GROUPS[1:]), NODES]
    return [f"{a}" if a == b else f"{a}-{b}" for a, b in zip(GROUPS, ends, strict=True)]


def seen(records: SimulatedJobs, static_s: float) -> Seen:
    """Read a run; `static_s`: the mean run time under EASY, where nothing is malleable."""
    figures = records.metrics()
    expands = [0] * len(GROUPS)
    for k, changes in records.resizes.items():
        expands[group(records.processors[k])] += sum(c.size > c.before for c in changes)
    return Seen(
        slowdown=figures["mean_turnaround_s"] / static_s,
        use=100 * figures["utilization"],
        shrinks=int(figures["shrinks"]),
        backfilled=int(figures["backfilled"]),
        expands=tuple(expands),
        curve=use_over_time(records),
    )


def use_over_time(records: SimulatedJobs) -> tuple[float, ...]:
    """Mean use (%) in each of CURVE equal parts of the run."""
    times, held = records.held_over_time()
    begin = float(records.submit.min())
    edges = np.linspace(begin, records.last_end_s, CURVE + 1)
    # Processor-seconds up to each edge.
    steps = np.append(times, max(records.last_end_s, times[-1]))
    done = np.concatenate([[0.0], np.cumsum(held * np.diff(steps))])
    at = np.interp(edges, steps, done)
    return tuple((100 * np.diff(at) / np.diff(edges) / records.nodes).tolist())


def simulate(load: Load, seeds: int) -> Runs:
    """The load's workloads under each policy."""
    runs: Runs = {policy: [] for policy in POLICIES}
    for seed in range(1, seeds + 1):
        how = Malleability(rho=SCALABILITY[load.level], overhead_s=FULL_S)
        how = replace(how, fraction=load.share)
        rigid = kit_like(load.jobs, gaps=INTENSIVE, seed=seed)
        static_s = 0.0
        for policy in POLICIES:
            workload = MalleableWorkload(rigid, NODES, how, seed)
            records = Simulation(workload, NODES, named_config(policy)).run()
            if policy == "easy":
                found = records.metrics()
                static_s = found["mean_turnaround_s"] - found["mean_wait_s"]
            runs[policy].append(seen(records, static_s))
    return runs


def loads(sizes: Sequence[int]) -> list[Load]:
    """All that is asked about."""
    first, *_ = sizes
    full = [Load(jobs, level) for jobs in sizes for level in LEVELS]
    return [*full, *(Load(first, level, share) for share in SHARES for level in LEVELS)]


def gain(runs: Runs, policy: str) -> float:
    """By how much the slowdown is better than EASY's, %; the mean over seeds."""
    pairs = zip(runs["easy"], runs[policy], strict=True)
    return 100 * fmean(1 - ours.slowdown / easy.slowdown for easy, ours in pairs)


def events(found: Iterable[Seen]) -> dict[str, float]:
    """Shares of the three kinds of events, %."""
    counts = {"shrink": 0, "expand": 0, "backfill": 0}
    for run in found:
        counts["shrink"] += run.shrinks
        counts["expand"] += sum(run.expands)
        counts["backfill"] += run.backfilled
    all_ = max(1, sum(counts.values()))
    return {name: 100 * count / all_ for name, count in counts.items()}


def grown(found: Sequence[Seen]) -> list[float]:
    """Shares of expansions by group, %."""
    by_group = [sum(run.expands[g] for run in found) for g in range(len(GROUPS))]
    return [100 * count / max(1, sum(by_group)) for count in by_group]


def curve(found: Sequence[Seen]) -> list[float]:
    """Use over time, the mean over seeds."""
    return [fmean(points) for points in zip(*(run.curve for run in found), strict=True)]


def parts(points: Sequence[float]) -> list[float]:
    """The means of equal parts."""
    size = len(points) // PARTS
    return [fmean(points[k * size : (k + 1) * size]) for k in range(PARTS)]


Found = Mapping[Load, Runs]
Table = tuple[str, list[str], list[list[str]]]  # name, head, rows


def tables(found: Found) -> Iterator[Table]:
    """All of them, as text."""
    short = [policy.removeprefix("mebf-") for policy in POLICIES]
    base = min(load.jobs for load in found)
    full = [load for load in found if load.share == 1]
    medium, high = Load(base, "medium"), Load(base, "high")
    rows = [[name.removeprefix("mebf-"), *map(_pct, grown(found[medium][name]))] for name in MEBF]
    yield "Fig. 6", ["expansions of jobs that began on", *names()], rows
    rows = []
    for load in (one for one in full if one.jobs == base):
        shares = [events(found[load][policy]) for policy in MEBF]
        rows.append([str(load), *(" / ".join(_pct(v) for v in s.values()) for s in shares)])
    yield "Table 5", ["shrink / expand / backfill", *short[1:]], rows
    rows = [
        [str(one), *(_pct(fmean(r.use for r in found[one][p])) for p in POLICIES)] for one in full
    ]
    yield "Fig. 10", ["use", *short], rows
    rows = [[p.removeprefix("mebf-"), *map(_pct, parts(curve(found[high][p])))] for p in POLICIES]
    yield (
        "Fig. 11",
        ["use in the run's", *(f"part {k} of {PARTS}" for k in range(1, PARTS + 1))],
        rows,
    )
    for name, some in (("Table 6", full), ("Table 7", [one for one in found if one.share < 1])):
        rows = [[str(one), *(_pct(gain(found[one], policy)) for policy in MEBF)] for one in some]
        yield name, ["slowdown, % better than EASY", *short[1:]], rows


def claims(found: Found) -> list[Claim]:
    """What the paper's text says of its tables and figures, of the loads that were simulated."""
    base, most = min(load.jobs for load in found), max(load.jobs for load in found)
    handoff, spare, intensive = MEBF
    low, medium, high = (Load(base, level) for level in LEVELS)
    by_size = {policy: grown(found[medium][policy]) for policy in MEBF}
    small = {policy: sum(shares[:2]) for policy, shares in by_size.items()}
    of_low, of_medium = events(found[low][handoff]), events(found[medium][intensive])
    moved = {p: events(found[high][p])["expand"] + events(found[high][p])["shrink"] for p in MEBF}
    use = {load: {p: fmean(run.use for run in found[load][p]) for p in POLICIES} for load in found}
    easy = use[low]["easy"]
    more = [use[load][p] > use[load]["easy"] for load in (medium, high) for p in MEBF]
    above = {p: _above(found[high], p) for p in MEBF}
    judgements = [
        judged(
            "Fig. 6",
            "Spare expands jobs of small initial size, Handoff larger ones, too",
            f"jobs that began on fewer than {GROUPS[2]}: Spare {small[spare]:.0f} % of its"
            f" expansions, Handoff {small[handoff]:.0f} %",
            holds=small[spare] > small[handoff],
            direction=small[spare] > 50,
            reason="perhaps only small jobs can get more than they have on a full machine",
        ),
        judged(
            "Fig. 6",
            "Intensive expands jobs of all sizes",
            " / ".join(map(_pct, by_size[intensive])) + " % by group",
            holds=all(by_size[intensive]),
            direction=sum(share > 0 for share in by_size[intensive]) > len(GROUPS) / 2,
            reason=ONE_CUT,
        ),
        judged(
            "Table 5",
            "low: Handoff shrinks and backfills rather than expands",
            _shares(of_low),
            holds=of_low["expand"] < min(of_low["shrink"], of_low["backfill"]),
            direction=of_low["expand"] < of_low["shrink"] + of_low["backfill"],
            reason=ONE_CUT,
        ),
        judged(
            "Table 5",
            "medium: Intensive expands more often than it shrinks or backfills",
            _shares(of_medium),
            holds=of_medium["expand"] > max(of_medium["shrink"], of_medium["backfill"]),
            direction=of_medium["expand"] > min(of_medium["shrink"], of_medium["backfill"]),
            reason="perhaps jobs expand seldom where others wait nearly all the time",
        ),
        judged(
            "Table 5",
            "high: Spare expands and shrinks more than the others",
            ", ".join(f"{p.removeprefix('mebf-')} {share:.0f} %" for p, share in moved.items()),
            holds=max(moved, key=moved.__getitem__) == spare,
            direction=moved[spare] > min(moved.values()),
            reason=ONE_CUT,
        ),
        judged(
            "Fig. 10",
            f"{base} jobs, low: EASY uses most, Intensive nearly as much",
            ", ".join(f"{p.removeprefix('mebf-')} {use[low][p]:.1f} %" for p in POLICIES),
            holds=easy >= max(use[low].values()),
            direction=abs(use[low][intensive] - easy) <= 1,
            reason="perhaps jobs that start small leave no processor idle here, at any scalability",
        ),
        judged(
            "Fig. 10",
            f"{base} jobs, medium and high: MEBF uses more",
            f"in {sum(more)} of {len(more)} cases",
            holds=all(more),
            direction=sum(more) > len(more) / 2,
            reason=ONE_CUT,
        ),
        judged(
            "Fig. 11",
            "MEBF uses more at nearly all times",
            ", ".join(f"{p.removeprefix('mebf-')} {share:.0f} % of the time" for p, share in
                      above.items()),
            holds=min(above.values()) >= 80,
            direction=min(above.values()) >= 50,
            reason="MEBF's run ends earlier: equal parts of it are other hours than EASY's",
        ),
        _best("Table 6", found, [load for load in found if load.share == 1 and load.jobs == base],
              (spare, intensive), ("medium", "high"), 42),
        *(
            _best("Table 7", found, [load], (policy,), ("medium",), pct)
            for load, policy, pct in (
                (Load(base, "medium", 0.6), handoff, 34),
                (Load(base, "medium", 0.8), intensive, 33),
            )
        ),
    ]  # fmt: skip
    if most > base:
        full = {load: min(use[load][p] for p in MEBF) for load in found if load.jobs == most}
        least, over = min(full.values()), [full[load] > use[load]["easy"] for load in full]
        judgements += [
            judged("Fig. 10", f"{most} jobs: 99 % under MEBF", f"from {least:.1f} %",
                   holds=least >= 98.5, direction=all(over), reason=ONE_CUT),
            _best("Table 6", found, list(full), (spare,), ("low",), 49),
        ]  # fmt: skip
    return judgements


def _best(
    source: str,
    found: Found,
    loads: Sequence[Load],
    policies: Sequence[str],
    levels: Sequence[str],
    pct: float,
) -> Claim:
    """That the best gain over EASY of these loads is that of one of the policies and levels."""
    gains = {(load, policy): gain(found[load], policy) for load in loads for policy in MEBF}
    (load, policy), ours = max(gains.items(), key=lambda item: item[1])
    where = f"{load.jobs} jobs" + ("" if load.share == 1 else f", {load.share:.0%} malleable")
    short = " and ".join(one.removeprefix("mebf-") for one in policies)
    return judged(
        source,
        f"{where}: best {pct:g} %, {short}, {' and '.join(levels)}",
        f"best {ours:.1f} %, {policy.removeprefix('mebf-')}, {load.level}",
        holds=policy in policies and load.level in levels and abs(ours - pct) <= NEAR,
        direction=min(gains.values()) > 0,
        reason=f"{ONE_CUT}; policies are closer together than workloads",
    )


def _above(runs: Runs, policy: str) -> float:
    """In how much of the run (%) the policy uses more than EASY."""
    pairs = list(zip(curve(runs[policy]), curve(runs["easy"]), strict=True))
    return 100 * sum(ours > easy for ours, easy in pairs) / len(pairs)


def _shares(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {share:.0f} %" for name, share in shares.items())


def _pct(value: float) -> str:
    return f"{value:.1f}"


def as_text(found: Found) -> str:
    """Each table, and what the paper says of them."""
    shown = (f"{name}, %\n{table(head, rows)}" for name, head, rows in tables(found))
    return "\n\n".join([*shown, f"paper:\n{verdicts.as_text(claims(found))}"])


def as_json(found: Found) -> str:
    """The same as one object."""
    judgements = claims(found)
    bodies: list[dict[str, Any]] = [
        {"name": name, "columns": head, "rows": rows,
         "paper": "; ".join(claim.claim for claim in judgements if claim.source == name),
         "claims": [claim.plain for claim in judgements if claim.source == name]}
        for name, head, rows in tables(found)
    ]  # fmt: skip
    return json.dumps({"schema": 1, "experiment": "mebf_events", "tables": bodies})


def draw(path: Path, found: Found) -> None:
    """Figs. 6, 10 and 11."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.2), layout="constrained")
    base = min(load.jobs for load in found)
    shares, use, time = axes
    for k, policy in enumerate(MEBF):
        at = [x + (k - 1) * 0.27 for x in range(len(GROUPS))]
        shares.bar(at, grown(found[Load(base, "medium")][policy]), 0.25, label=policy)
    shares.set_xticks(range(len(GROUPS)), names())
    shares.set(title="Fig. 6: expansions by initial size", xlabel="processors", ylabel="%")
    full = [load for load in found if load.share == 1]
    for k, policy in enumerate(POLICIES):
        at = [x + (k - 1.5) * 0.2 for x in range(len(full))]
        use.bar(
            at, [fmean(run.use for run in found[one][policy]) for one in full], 0.18, label=policy
        )
    use.set_xticks(range(len(full)), [str(one).replace(", ", "\n") for one in full], fontsize=8)
    use.set(title="Fig. 10: utilization", ylabel="%", ylim=(50, 112))
    for policy in POLICIES:
        points = curve(found[Load(base, "high")][policy])
        time.plot([100 * (k + 0.5) / CURVE for k in range(CURVE)], points, label=policy, lw=1.2)
    time.set(title=f"Fig. 11: use over time, {base} jobs, high", xlabel="% of the run", ylabel="%")
    for panel in axes:
        panel.legend(fontsize=8)
    figure.savefig(path, dpi=110)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = Parser(prog="experiments.mebf_events", description=__doc__)
    add_options(parser, quick="one workload of each kind, 1000 jobs only")
    parser.add_argument("--seeds", type=whole_number(1), default=3, help="workloads of each kind")
    options = parser.parse_args(argv)
    check_options(parser, options)
    seeds = 1 if options.quick else options.seeds
    found = {one: simulate(one, seeds) for one in loads((1000,) if options.quick else (1000, 5000))}
    if options.csv:
        rows = [[name, *row] for name, _, body in tables(found) for row in body]
        write_csv(options.csv, ["table", "what", "1", "2", "3", "4", "5"], rows)
    if options.plot:
        draw(options.plot, found)
    print(as_json(found) if options.json else as_text(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
