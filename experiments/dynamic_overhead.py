"""What a dynamic allocation costs: Fig. 12 of Prabhakaran et al. 2014, live.

    python -m experiments.dynamic_overhead [--quick] [--rounds 5] [--json] [--csv F] [--plot F]

A job on one node asks for 1 to 10 more, gives them back, and asks again: once alone on the cluster,
once with 40 rigid jobs in the queue, of which 5 have a reservation and are looked at for delays
(ReservationDelayDepth). The nodes are emulated, at full speed, on this machine.

answered   from the request to the server's answer: scheduling alone
joined     from the request to the first turn on all ranks: also their start, on the cores of this
           machine, and the redistribution (of next to nothing)

The paper has one figure for both, "in the sub-second range" for up to 10 nodes, on 15 nodes with
Torque and Maui.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from harness.live import Live
from harness.output import (
    Parser,
    add_options,
    check_options,
    pyplot,
    table,
    whole_number,
    write_csv,
)

PROGRAM = Path(__file__).with_name("_asking_app.py")
MOST = 10
QUEUED = 40
CLUSTER = """\
engine = "emulated"
[[nodes]]
names = "n[01-{nodes}]"
processors = 1
"""
# Delays are measured for jobs that wait, and nobody is limited.
CONFIG = """\
[scheduler]
start = "reservations"
resize = "none"
grant = "dfs"
[dfs]
policy = "target"
reservation_delay_depth = 5
"""
CASES = {"no other job": 0, f"{QUEUED} rigid jobs wait": QUEUED}
LIMIT_S = 600.0
Times = dict[int, tuple[float, float]]  # by processors: answered and joined, ms


def measure(most: int, rounds: int, queued: int) -> Times:
    """Medians over the rounds, on a cluster of its own."""
    with tempfile.TemporaryDirectory(prefix="dq-experiment-") as folder:
        cluster = Live(Path(folder) / "home")
        file, config = Path(folder) / "cluster.toml", Path(folder) / "config.toml"
        file.write_text(CLUSTER.format(nodes=f"{most + 1:02}"))
        config.write_text(CONFIG)
        try:
            cluster.dq("up", "--cluster", file, "--config", config, "--detach", timeout_s=120)
            words = (sys.executable, PROGRAM, most, rounds)
            job = cluster.submit("--kind", "evolving", "-n", 1, "--max", most + 1,
                                 "--walltime", "1h", "--", *words)  # fmt: skip
            cluster.wait(job, lambda j: j["state"] == "running")
            for _ in range(queued):  # each needs all nodes: it can only wait
                cluster.submit("-n", most + 1, "--kind", "rigid", "--walltime", "10m", "--", "true")
            cluster.wait(job, lambda j: j["state"] == "done", LIMIT_S)
            lines = cluster.dq("logs", job).splitlines()
        finally:
            cluster.clear()
    found = [json.loads(line) for line in lines]
    return {
        more: (
            1e3 * median(f["answered_s"] for f in found if f["more"] == more),
            1e3 * median(f["joined_s"] for f in found if f["more"] == more),
        )
        for more in range(1, most + 1)
    }


def as_text(found: dict[str, Times]) -> str:
    """A row for each number of processors."""
    head = [
        "more processors",
        *(f"{what}, {case}" for case in found for what in ("answered", "joined")),
    ]
    first = next(iter(found.values()))
    rows = [
        [str(more), *(f"{t:.1f}" for times in found.values() for t in times[more])]
        for more in first
    ]
    return f"milliseconds\n{table(head, rows)}\npaper: below a second for up to 10 nodes"


def draw(path: Path, found: dict[str, Times]) -> None:
    """Both times over the number of processors."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for panel, k, title in zip(axes, (0, 1), ("answered", "joined"), strict=True):
        for case, times in found.items():
            panel.plot(list(times), [t[k] for t in times.values()], marker="o", label=case)
        panel.set(title=title, xlabel="more processors", ylabel="ms", ylim=(0, None))
        panel.legend(fontsize=8)
        panel.grid(alpha=0.3)
    figure.suptitle("A dynamic request (Prabhakaran et al. 2014, Fig. 12)")
    figure.savefig(path, dpi=110)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = Parser(prog="experiments.dynamic_overhead", description=__doc__)
    add_options(parser, quick="up to 3 processors, twice")
    parser.add_argument("--rounds", type=whole_number(1), default=5, help="of 1 to 10 each")
    options = parser.parse_args(argv)
    check_options(parser, options)
    most, rounds = (3, 2) if options.quick else (MOST, options.rounds)
    found = {case: measure(most, rounds, queued) for case, queued in CASES.items()}
    if options.csv:
        rows = [[case, more, *times[more]] for case, times in found.items() for more in times]
        write_csv(options.csv, ["case", "more", "answered_ms", "joined_ms"], rows)
    if options.plot:
        draw(options.plot, found)
    body = {"schema": 1, "experiment": "dynamic_overhead"}
    keys = ("answered_ms", "joined_ms")
    shown = [
        {"case": case, "more": more, **dict(zip(keys, t, strict=True))}
        for case, times in found.items()
        for more, t in times.items()
    ]
    print(json.dumps({**body, "rows": shown}) if options.json else as_text(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
