"""Execution times by adaptation phase: Fig. 7 of Prabhakaran et al. 2014, live.

    python -m experiments.adaptation_phases [--quick] [--json] [--csv F] [--plot F]

The paper's flow solver refines its grid now and then, and doubles its processors when a refinement
leaves more cells per process than a threshold: 16 cores and 32 throughout (static), and 16 that
become 32 (dynamic), for two flows. Ours is a solver that does the same work for every cell and
refines as often (experiments/_adapting_app.py) on emulated nodes: a node of the paper's, 8 cores
and processes, is one slow processor here, so 2 and 4 of them.

From the paper: number of adaptations (5 and 2), thresholds, that they are exceeded at the last
adaptation, that a cell of the flat plate takes 4 to 5 times the work; and with the share of
the time that is spent before it how many sweeps a phase has: 16 % for the cylinder. For the plate
no figure says that; 57 % follows from its gain if its last phase gains what the cylinder's does.
Measured: how much faster a phase is on twice the processors, and what the change itself costs.

The paper's figure has no numbers but those of the text: the time saved by the dynamic run, in per
cent and hours, of which the static run's hours follow. "Similar" is its word for 32 throughout.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.live import Live
from harness.output import Parser, add_options, check_options, note, pyplot, table, write_csv

PROGRAM = Path(__file__).with_name("_adapting_app.py")
SMALL, LARGE = 2, 4
PROCESSES = 8  # of the paper, on each node
CLUSTER = f"""\
engine = "emulated"
[[nodes]]
names = "n[1-{LARGE}]"
processors = 1
core_share = 0.01
[link]
rate_mbit = 1000
latency_us = 2000
"""
CONFIG = '[scheduler]\nresize = "none"\n'
LIMIT_S = 900.0
QUICK = 2  # fewer sweeps, so many times


@dataclass(frozen=True, slots=True)
class Flow:
    """A test case; `sweeps`: of each phase."""

    name: str
    cells: int  # before the first adaptation; each doubles them
    work: int  # updates of a cell in a sweep
    cells_per_process: int  # the threshold
    sweeps: tuple[int, ...]
    saved_pct: float  # the paper's, of the dynamic run beside the small static one
    saved_h: float

    @property
    def paper_h(self) -> tuple[float, float]:
        """Hours of the paper's static and dynamic runs, as they follow from what was saved."""
        static = 100 * self.saved_h / self.saved_pct
        return static, static - self.saved_h


FLOWS = (
    Flow("FlatPlate", 16_000, 5, 3_000, (500, 500, 270), 17, 3),
    Flow("Cylinder", 9_600, 1, 15_000, (50, 50, 50, 50, 50, 500), 33, 10),
)
SCENARIOS = {
    "16": (SMALL, False),
    "32": (LARGE, False),
    "16 to 32": (SMALL, True),
}


@dataclass(frozen=True, slots=True)
class Run:
    """A flow in a scenario: seconds and processors of each phase, and the solver's result."""

    flow: str
    scenario: str
    phases_s: tuple[float, ...]
    processors: tuple[int, ...]  # at the end of each phase
    result: float

    @property
    def total_s(self) -> float:
        """Seconds of all phases."""
        return sum(self.phases_s)


def run(cluster: Live, flow: Flow, scenario: str, fewer: int) -> Run:
    """One job on an idle cluster."""
    processors, ask = SCENARIOS[scenario]
    most = flow.cells_per_process * PROCESSES
    sweeps = [max(1, count // fewer) for count in flow.sweeps]
    words = (sys.executable, PROGRAM, flow.cells, flow.work, most, int(ask), *sweeps)
    kind = ("evolving", "--max", LARGE) if ask else ("rigid",)
    job = cluster.submit("-n", processors, "--kind", *kind, "--walltime", "1h", "--", *words)
    cluster.wait(job, lambda found: found["state"] == "done", LIMIT_S)
    *phases, last = [json.loads(line) for line in cluster.dq("logs", job).splitlines()]
    return Run(
        flow.name,
        scenario,
        tuple(phase["lasted_s"] for phase in phases),
        tuple(phase["ranks"] for phase in phases),
        last["result"],
    )


def run_all(flows: Sequence[Flow], fewer: int) -> list[Run]:
    """Every flow in every scenario, one after the other, on a cluster of their own."""
    with tempfile.TemporaryDirectory(prefix="dq-experiment-") as folder:
        cluster = Live(Path(folder) / "home")
        file, config = Path(folder) / "cluster.toml", Path(folder) / "config.toml"
        file.write_text(CLUSTER)
        config.write_text(CONFIG)
        runs = []
        try:
            cluster.dq("up", "--cluster", file, "--config", config, "--detach", timeout_s=120)
            for flow in flows:
                for scenario in SCENARIOS:
                    runs.append(run(cluster, flow, scenario, fewer))
                    note(f"{flow.name}, {scenario}: {runs[-1].total_s:.1f} s")
        finally:
            cluster.clear()
    return runs


def beside_static(runs: Sequence[Run], one: Run) -> float:
    """How long a run took, the small static one of its flow being 100."""
    static = next(r for r in runs if (r.flow, r.scenario) == (one.flow, "16"))
    return 100 * one.total_s / static.total_s


def paper_pct(flow: Flow, scenario: str) -> float:
    """The same of the paper's runs; 32 cores throughout are only said to be "similar"."""
    return 100.0 if scenario == "16" else 100.0 - flow.saved_pct


def rows(flows: Sequence[Flow], runs: Sequence[Run]) -> list[dict[str, Any]]:
    """What is shown of each run, beside the paper's."""
    known = {flow.name: flow for flow in flows}
    shown = []
    for one in runs:
        flow = known[one.flow]
        shown.append({
            **asdict(one),
            "total_s": one.total_s,
            "before_last_pct": 100 * sum(one.phases_s[:-1]) / one.total_s,
            "of_static_pct": beside_static(runs, one),
            "paper_of_static_pct": paper_pct(flow, one.scenario),
            "paper_h": flow.paper_h[one.scenario != "16"],
        })  # fmt: skip
    return shown


def as_text(flows: Sequence[Flow], runs: Sequence[Run]) -> str:
    """A line for each run."""
    head = ["flow", "cores", "seconds of each phase", "all", "before the last, %",
            "of 16 cores, %", "paper, %", "paper, h"]  # fmt: skip
    lines = [
        [
            row["flow"],
            row["scenario"],
            " ".join(f"{s:.1f}" for s in row["phases_s"]),
            f"{row['total_s']:.1f}",
            f"{row['before_last_pct']:.0f}",
            f"{row['of_static_pct']:.0f}",
            f"{'~' if row['scenario'] == '32' else ''}{row['paper_of_static_pct']:.0f}",
            f"{'~' if row['scenario'] == '32' else ''}{row['paper_h']:.1f}",
        ]
        for row in rows(flows, runs)
    ]
    return table(head, lines)


def draw(path: Path, flows: Sequence[Flow], runs: Sequence[Run]) -> None:
    """Bars of the phases, as in the paper: the later, the lighter; the paper's totals as lines."""
    plt = pyplot()
    figure, axes = plt.subplots(1, len(flows), figsize=(5 * len(flows), 4.5), layout="constrained")
    for panel, flow in zip(axes, flows, strict=True):
        mine = [one for one in runs if one.flow == flow.name]
        static_s = mine[0].total_s
        for at, one in enumerate(mine):
            base = 0.0
            for phase, seconds in enumerate(one.phases_s):
                height = 100 * seconds / static_s
                shade = 0.2 + 0.65 * phase / (len(one.phases_s) - 1)
                panel.bar(at, height, 0.6, base, color=str(shade), edgecolor="black", lw=0.5)
                base += height
            panel.text(at, base + 1, f"{one.total_s:.1f} s", ha="center", fontsize=8)
            label = {"16": "paper", "32": 'paper: "similar"'}.get(one.scenario)
            line, paper = ":" if one.scenario == "32" else "-", paper_pct(flow, one.scenario)
            panel.plot([at - 0.4, at + 0.4], [paper] * 2, "C3", ls=line, lw=2, label=label)
        panel.set_xticks(range(len(mine)), [one.scenario for one in mine])
        panel.set(title=flow.name, xlabel="cores of the paper; 8 are one processor here",
                  ylabel="time, % of that with 16 cores", ylim=(0, 125))  # fmt: skip
        panel.legend(fontsize=8, loc="upper right")
    figure.suptitle("Time by adaptation phase (Prabhakaran et al. 2014, Fig. 7)")
    figure.savefig(path, dpi=110)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = Parser(prog="experiments.adaptation_phases", description=__doc__)
    add_options(parser, quick="half of the sweeps")
    options = parser.parse_args(argv)
    check_options(parser, options)
    runs = run_all(FLOWS, QUICK if options.quick else 1)
    if options.csv:
        lines = [
            [one.flow, one.scenario, phase, processors, seconds]
            for one in runs
            for phase, (processors, seconds) in enumerate(
                zip(one.processors, one.phases_s, strict=True)
            )
        ]
        write_csv(options.csv, ["flow", "cores", "phase", "processors", "lasted_s"], lines)
    if options.plot:
        draw(options.plot, FLOWS, runs)
    body = {"schema": 1, "experiment": "adaptation_phases", "rows": rows(FLOWS, runs)}
    print(json.dumps(body) if options.json else as_text(FLOWS, runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
