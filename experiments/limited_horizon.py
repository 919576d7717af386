"""The cost of knowing an evolution only some time ahead (future work of Klein & Pérez, RR-7205).

    python -m experiments.limited_horizon [--fit 2X] [--tests 200] [--seed 1] [--json] [--csv F]

The applications are those of the papers' tables (experiments.klein_perez). A step becomes known
one horizon before it begins; for unknown steps the application's largest step is reserved
(dq_server/sim/evolution.py). Averages over the tests, relative to `rigid`, which knows
only the largest step, and beside planning with full knowledge. (The paper's planner places each
application once; with a horizon waiting applications are placed again whenever a step becomes
known, so a horizon of hours can give slightly better results than full knowledge.)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dq_server.core.model.profile import FIT_RULES, EvolutionProfile, FitRule
from dq_server.sim.evolution import plan_ahead, plan_offline
from harness.generators.klein_perez import N_NODES, draw_tests
from harness.output import Parser, check_options, table, whole_number, write_csv
from harness.plan_metrics import PlanMetrics, check_plan, measure

HORIZONS_S: tuple[int | None, ...] = (0, 600, 1800, 3600, 7200, 14400, None)  # None: everything
FIELDS = ("makespan_rel", "completion_rel", "waiting_rel", "effective_utilisation_percent",
          "waste_percent")  # fmt: skip
Row = tuple[str, list[float]]


def run(tests: Sequence[list[EvolutionProfile]], rule: FitRule) -> list[Row]:
    """The averages of `FIELDS` per horizon; those of `rigid` come first."""
    rigid = [plan_offline(queue, N_NODES, FIT_RULES["rigid"]) for queue in tests]
    pairs = list(zip(tests, rigid, strict=True))
    rows = [("rigid", _averages([measure(queue, plan, plan, N_NODES) for queue, plan in pairs]))]
    for horizon_s in HORIZONS_S:
        found = []
        for queue, baseline in pairs:
            if horizon_s is None:
                plan = plan_offline(queue, N_NODES, rule)
            else:
                plan = plan_ahead(queue, N_NODES, rule, horizon_s)
            check_plan(queue, plan, N_NODES, rule)
            found.append(measure(queue, plan, baseline, N_NODES))
        rows.append(("all" if horizon_s is None else f"{horizon_s} s", _averages(found)))
    return rows


def _averages(found: Sequence[PlanMetrics]) -> list[float]:
    return [float(np.mean([getattr(one, field) for one in found])) for field in FIELDS]


def as_text(rows: Sequence[Row], fit: str, count: int) -> str:
    head = ["known ahead", "makespan", "completion", "waiting", "effective utilisation %",
            "waste %"]  # fmt: skip
    body = [[name, *(f"{value:.3f}" for value in values)] for name, values in rows]
    return "\n".join(
        [f"{count} tests of Klein & Pérez, fit {fit}; relative to rigid", table(head, body)]
    )


def main(argv: Sequence[str] | None = None) -> None:
    parser = Parser(prog="experiments.limited_horizon", description=__doc__)
    parser.add_argument("--fit", default="2X", choices=[n for n in FIT_RULES if n != "rigid"])
    parser.add_argument("--tests", type=whole_number(1), default=200)
    parser.add_argument("--seed", type=whole_number(0), default=1)
    parser.add_argument("--json", action="store_true", help='one object, "schema": 1')
    parser.add_argument("--csv", type=Path, help="one line per horizon")
    options = parser.parse_args(argv)
    check_options(parser, options)
    rows = run(draw_tests(options.seed, options.tests), FIT_RULES[options.fit])
    if options.csv:
        write_csv(options.csv, ["known_ahead", *FIELDS], [[name, *v] for name, v in rows])
    if options.json:
        body = {"schema": 1, "experiment": "limited_horizon", "fit": options.fit}
        named = [{"known_ahead": n, **dict(zip(FIELDS, v, strict=True))} for n, v in rows]
        print(json.dumps({**body, "tests": options.tests, "rows": named}))
    else:
        print(as_text(rows, options.fit, options.tests))


if __name__ == "__main__":
    main()
