"""Who waits for whom: Figs. 8 to 11 of Prabhakaran et al. 2014 (dynamic ESP benchmark).

    python -m experiments.dynamic_waits [--quick] [--seeds 40] [--json] [--csv F] [--plot F]

Waiting times by job, in order of submission, under the four configurations of Table II
(experiments.dynamic_esp). The paper shows one run of one unpublished order: the picture is of our
first order, the table of all of them. *Longer* are jobs that wait longer than under Static in the
same order, by more than a second.

Fig. 8    Static, Dyn-HP: evolving jobs that end sooner shorten many waits, and lengthen others
Fig. 9    the jobs of type L under all four
Fig. 10   the same with delays limited to 500 s an interval and user; Fig. 11: to 600 s
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dq_server.sim.engine import Simulation
from experiments.dynamic_esp import CONFIGURATIONS, ONE_RUN, Choices, config_of
from harness import verdicts
from harness.generators.dynamic_esp import CORES, TABLE_I, dynamic_esp
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

RANGE = (70, 125)  # jobs that the paper names as those who pay
LONGER_S = 1.0
Waits = NDArray[np.float64]  # s, by job in order of submission, the two Z jobs left out
Z_JOBS = TABLE_I[-1].count


@dataclass(frozen=True, slots=True)
class Order:
    """One order of submission: waits by configuration, and which jobs are of type L."""

    waits: Mapping[str, Waits]
    of_type_l: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Row:
    """A configuration; means over the orders, waits in minutes."""

    configuration: str
    mean_min: float
    range_min: float  # of the jobs in RANGE
    l_min: float  # of type L
    longest_min: float
    longer_pct: float
    longer_range_pct: float
    longer_l_pct: float
    later_min: float  # by how much those who wait longer do


def simulate(seed: int) -> Order:
    """One order under each configuration."""
    workload = dynamic_esp(seed)
    names = np.array([workload.spec(k).name for k in range(len(workload) - Z_JOBS)])
    waits = {}
    for name in CONFIGURATIONS:
        records = Simulation(dynamic_esp(seed), CORES, config_of(name, Choices())).run()
        assert len(records.ran) == len(workload), "every job runs"
        waits[name] = records.wait[: len(names)]
    return Order(waits, names == "L")


def row(configuration: str, orders: Sequence[Order]) -> Row:
    """What the orders show of a configuration."""
    found = []
    for order in orders:
        wait, static = order.waits[configuration], order.waits[CONFIGURATIONS[0]]
        longer = wait > static + LONGER_S
        there = slice(RANGE[0] - 1, RANGE[1])
        found.append([
            wait.mean() / 60,
            wait[there].mean() / 60,
            wait[order.of_type_l].mean() / 60,
            wait.max() / 60,
            100 * longer.mean(),
            100 * longer[there].mean(),
            100 * longer[order.of_type_l].mean(),
            (wait - static)[longer].mean() / 60 if longer.any() else 0.0,
        ])  # fmt: skip
    return Row(configuration, *np.mean(found, axis=0).tolist())


def claims(rows: Sequence[Row]) -> list[Claim]:
    """What the paper says of its Figs. 8 to 11."""
    by_name = {row.configuration: row for row in rows}
    hp, by_500, by_600 = by_name["Dyn-HP"], by_name["Dyn-500"], by_name["Dyn-600"]
    fewer = [row.longer_pct < hp.longer_pct for row in (by_500, by_600)]
    low, high = RANGE
    return [
        judged(
            "Fig. 8",
            f"many of the jobs {low} to {high} wait longer under Dyn-HP than under Static",
            f"{hp.longer_range_pct:.1f} %, of all jobs {hp.longer_pct:.1f} %",
            holds=hp.longer_range_pct >= 100 / 3,
            direction=hp.longer_range_pct > hp.longer_pct,
            reason=ONE_RUN,
        ),
        judged(
            "Fig. 9",
            "half of the jobs of type L wait longer under Dyn-HP",
            f"{hp.longer_l_pct:.1f} %",
            holds=hp.longer_l_pct >= 40,
            direction=hp.longer_l_pct > 0,
            reason=ONE_RUN,
        ),
        judged(
            "Fig. 9",
            "the jobs of type L do much better under Dyn-500",
            f"{hp.longer_l_pct:.1f} % wait longer under Dyn-HP, {by_500.longer_l_pct:.1f} % under"
            " Dyn-500",
            holds=by_500.longer_l_pct <= hp.longer_l_pct / 2,
            direction=by_500.longer_l_pct < hp.longer_l_pct,
            reason=ONE_RUN,
        ),
        judged(
            "Figs. 10, 11",
            "under Dyn-500 and Dyn-600 waits are more uniform with respect to Static",
            f"{hp.longer_pct:.1f} % of the jobs wait longer under Dyn-HP, {by_500.longer_pct:.1f} %"
            f" under Dyn-500, {by_600.longer_pct:.1f} % under Dyn-600",
            holds=all(fewer),
            direction=any(fewer),
            reason="perhaps jobs whose requests are refused end later and make others wait",
        ),
    ]


def as_text(rows: Sequence[Row]) -> str:
    """The table, and what the paper says."""
    low, high = RANGE
    head = ["waits, minutes", "mean", f"jobs {low}-{high}", "type L", "longest", "longer, %",
            f"of {low}-{high}", "of type L", "by, minutes"]  # fmt: skip
    shown = [[r.configuration, *(f"{v:.1f}" for v in list(asdict(r).values())[1:])] for r in rows]
    return f"{table(head, shown)}\n\npaper:\n{verdicts.as_text(claims(rows))}"


def draw(path: Path, order: Order) -> None:
    """The four figures, of one order."""
    plt = pyplot()
    figure, axes = plt.subplots(2, 2, figsize=(13, 7), layout="constrained")
    panels = (
        ("Fig. 8", CONFIGURATIONS[:2], None),
        ("Fig. 9: type L", CONFIGURATIONS, order.of_type_l),
        ("Fig. 10", CONFIGURATIONS[:3], None),
        ("Fig. 11", (*CONFIGURATIONS[:2], CONFIGURATIONS[3]), None),
    )
    colours = dict(zip(CONFIGURATIONS, ("C7", "C1", "C0", "C2"), strict=True))
    for panel, (title, names, which) in zip(axes.flat, panels, strict=True):
        for name in names:
            wait = order.waits[name] if which is None else order.waits[name][which]
            panel.plot(np.arange(1, len(wait) + 1), wait / 60, label=name, color=colours[name],
                       lw=1.2, marker="." if which is not None else None)  # fmt: skip
        panel.set(title=title, xlabel="job, in order of submission", ylabel="wait, minutes")
        panel.legend(fontsize=8)
        panel.grid(alpha=0.3)
    figure.suptitle("Waiting times, dynamic ESP (Prabhakaran et al. 2014), one order of submission")
    figure.savefig(path, dpi=110)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = Parser(prog="experiments.dynamic_waits", description=__doc__)
    add_options(parser, quick="five orders")
    parser.add_argument("--seeds", type=whole_number(1), default=40, help="orders: seeds 0, 1, ...")
    options = parser.parse_args(argv)
    check_options(parser, options)
    orders = [simulate(seed) for seed in range(5 if options.quick else options.seeds)]
    rows = [row(name, orders) for name in CONFIGURATIONS]
    if options.csv:
        head = ["order", "configuration", "job", "type_l", "wait_s"]
        lines = [
            [seed, name, k + 1, int(order.of_type_l[k]), wait]
            for seed, order in enumerate(orders)
            for name, waits in order.waits.items()
            for k, wait in enumerate(waits.tolist())
        ]
        write_csv(options.csv, head, lines)
    if options.plot:
        draw(options.plot, orders[0])
    found = claims(rows)
    body = {"schema": 1, "experiment": "dynamic_waits", "orders": len(orders),
            "paper": [f"{claim.source}: {claim.claim}" for claim in found],
            "claims": [claim.plain for claim in found]}  # fmt: skip
    shown = [asdict(r) for r in rows]
    print(json.dumps({**body, "rows": shown}) if options.json else as_text(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
