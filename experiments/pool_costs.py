"""What a pool of nodes saves on a log, and what it costs its users: node-hours and turnaround.

    python -m experiments.pool_costs --log FILE.swf.gz --nodes N [--policy easy] [--start 2m,10m]
        [--idle 1m,5m,30m] [--jobs N] [--json] [--csv F] [--plot F]

The same jobs on `--nodes` that are always on, and on a pool that grows from none to as many: for
each start-up time of a node and each `idle_s`, after which an idle one is given back. Start-up
times vary by half from node to node. Logs are not part of DQ: docs/simulation.md has the results
for KTH-SP2 (Parallel Workloads Archive), 100 nodes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dq_server.core.settings import named_config
from dq_server.sim.engine import Simulation
from dq_server.sim.errors import WorkloadError
from dq_server.sim.pool import SimPool, costs, read_pool
from dq_server.sim.records import SimulatedJobs
from dq_server.sim.swf import read_swf
from dq_server.sim.workload import RigidWorkload
from harness.output import Parser, check_options, note, pyplot, table, whole_number, write_csv

FIELDS = ("node_hours", "saved_pct", "utilization", "mean_wait_s", "mean_turnaround_s",
          "mean_bounded_slowdown", "nodes_asked")  # fmt: skip
SPREAD = 0.5
Row = dict[str, Any]


def rows(jobs: RigidWorkload, nodes: int, policy: str, pools: Sequence[SimPool]) -> Iterator[Row]:
    """The machine that is always on, then each pool: `FIELDS`, with `start_s` and `idle_s`."""
    config = named_config(policy)
    always_on = Simulation(jobs, nodes, config).run()
    yield _row(always_on, pools[0], always_on) | {"start_s": None, "idle_s": None}
    for pool in pools:
        found = Simulation(jobs, nodes, config, pool=pool, seed=1).run()
        times = {"start_s": pool.options.start_s, "idle_s": pool.options.idle_s}
        yield _row(found, pool, always_on) | times


def _row(records: SimulatedJobs, pool: SimPool, always_on: SimulatedJobs) -> Row:
    figures = records.metrics() | costs(records, pool, always_on)
    return {field: figures[field] for field in FIELDS}


def as_text(found: Sequence[Row], name: str, nodes: int, policy: str) -> str:
    head = ["start", "idle", "node-hours", "saved %", "used %", "wait h", "turnaround h",
            "bounded slowdown", "nodes asked for"]  # fmt: skip
    base = found[0]
    body = []
    for row in found:
        more = 100 * (row["mean_turnaround_s"] / base["mean_turnaround_s"] - 1)
        longer = f" ({more:+.1f} %)" if row is not base else ""
        body.append([
            "always on" if row["start_s"] is None else f"{row['start_s'] / 60:g} min",
            "" if row["idle_s"] is None else f"{row['idle_s'] / 60:g} min",
            f"{row['node_hours']:.0f}",
            f"{row['saved_pct']:.1f}",
            f"{100 * row['utilization']:.1f}",
            f"{row['mean_wait_s'] / 3600:.2f}",
            f"{row['mean_turnaround_s'] / 3600:.2f}{longer}",
            f"{row['mean_bounded_slowdown']:.1f}",
            f"{row['nodes_asked']}",
        ])  # fmt: skip
    return f"{name} on {nodes} nodes, {policy}\n{table(head, body)}"


def plot(path: Path, found: Sequence[Row], title: str) -> None:
    plt = pyplot()
    figure, panel = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for start_s in dict.fromkeys(row["start_s"] for row in found):
        mine = [row for row in found if row["start_s"] == start_s]
        x = [row["node_hours"] / 1000 for row in mine]
        y = [row["mean_turnaround_s"] / 3600 for row in mine]
        label = "always on" if start_s is None else f"nodes start in {start_s / 60:g} min"
        panel.plot(x, y, marker="o", label=label)
        for row, at_x, at_y in zip(mine, x, y, strict=True):
            if row["idle_s"] is not None:
                at = f" idle {row['idle_s'] / 60:g} min"
                panel.annotate(at, (at_x, at_y), fontsize="small", va="bottom")
    panel.set(xlabel="node-hours (thousands)", ylabel="mean turnaround (hours)", title=title)
    panel.legend()
    figure.savefig(path, dpi=120)


def main(argv: Sequence[str] | None = None) -> None:
    parser = Parser(prog="experiments.pool_costs", description=__doc__)
    parser.add_argument("--log", type=Path, required=True, help="an .swf or .swf.gz file")
    parser.add_argument("--nodes", type=whole_number(1), required=True)
    parser.add_argument("--policy", default="easy")
    parser.add_argument("--start", default="2m,10m", help="start-up times")
    parser.add_argument("--idle", default="1m,5m,30m", help="idle times before giving back")
    parser.add_argument("--jobs", type=whole_number(1), help="only the first so many")
    parser.add_argument("--json", action="store_true", help='one object, "schema": 1')
    parser.add_argument("--csv", type=Path, help="one line per pool")
    parser.add_argument("--plot", type=Path, help="turnaround over node-hours")
    options = parser.parse_args(argv)
    check_options(parser, options)
    try:
        pools = [
            read_pool(f"start={start},idle={idle},spread={SPREAD}", {}, options.nodes)
            for start in options.start.split(",")
            for idle in options.idle.split(",")
        ]
        jobs = RigidWorkload.from_log(read_swf(options.log))
    except (WorkloadError, OSError) as error:
        parser.error(str(error))
    if options.jobs is not None:
        jobs = first_jobs(jobs, options.jobs)
    found: list[Row] = []
    for row in rows(jobs, options.nodes, options.policy, pools):
        note(f"{len(found) + 1} of {len(pools) + 1}")
        found.append(row)
    title = f"{jobs.name}, {options.nodes} nodes, {options.policy}"
    if options.csv is not None:
        head = list(found[0])
        write_csv(options.csv, head, [[row[name] for name in head] for row in found])
    if options.plot is not None:
        plot(options.plot, found, title)
    if options.json:
        print(json.dumps({"schema": 1, "workload": jobs.name, "rows": found}))
    else:
        print(as_text(found, jobs.name, options.nodes, options.policy))


def first_jobs(jobs: RigidWorkload, count: int) -> RigidWorkload:
    """The first jobs of a log."""
    return RigidWorkload(
        f"{jobs.name}, the first {count} jobs",
        jobs.submit_s[:count],
        jobs.run_s[:count],
        jobs.processors[:count],
        jobs.estimate_s[:count],
    )


if __name__ == "__main__":
    main()
