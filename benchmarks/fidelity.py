"""The mechanisms that slow emulated nodes, compared on the same runs: matmul's iteration times.

    python -m benchmarks.fidelity [--n 1200 2400] [--sizes 2 4 9] [--iterations 4] [--json]

One cluster per mechanism stands at the same time, all from the same cluster file, and the runs take
turns: size by size each mechanism runs the same job while the others are idle. So what else the
machine does falls on all of them, and the ratio to paced means something where times do not.
A mechanism that this machine does not allow is left out, with the reason.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from dq_client.base.errors import UsageError
from dq_client.deploy.cluster import read_cluster
from dq_client.deploy.mechanism import choose
from harness.live import LiveCluster, cluster_path
from harness.output import note

FIDELITIES = ("paced", "contained")  # ratios are to the first


@dataclass(frozen=True, slots=True)
class Row:
    """One job under every mechanism: seconds per iteration."""

    n: int
    processors: int
    time_s: dict[str, float]

    def ratio(self, fidelity: str) -> float:
        """To paced."""
        return self.time_s[fidelity] / self.time_s[FIDELITIES[0]]


def available(network: str) -> list[str]:
    """Mechanisms that this machine allows; the others are named with the reason."""
    cluster = read_cluster(cluster_path(network))
    found: list[str] = []
    for fidelity in FIDELITIES:
        try:
            name = choose(cluster, fidelity).name
        except UsageError as e:
            note(str(e))
            continue
        if name == fidelity:
            found.append(fidelity)
        else:
            note(f"--fidelity {fidelity} would be {name} here: left out")
    return found


def measure(
    network: str, orders: Sequence[int], sizes: Sequence[int], iterations: int
) -> list[Row]:
    """All runs; the first iteration of each is not counted."""
    rows = []
    with ExitStack() as stack:
        scheduler = {"samples": iterations - 1, "discard": 1, "sweet_spot": "thesis"}
        clusters = {
            fidelity: stack.enter_context(
                LiveCluster(network, scheduler=scheduler, fidelity=fidelity)
            )
            for fidelity in available(network)
        }
        for n in orders:
            for size in sizes:
                found = {name: run(c, n, size, iterations) for name, c in clusters.items()}
                rows.append(Row(n, size, found))
                note(as_text([rows[-1]]).splitlines()[-1])
    return rows


def run(cluster: LiveCluster, n: int, size: int, iterations: int) -> float:
    """Seconds per iteration of one job of a fixed size, its first iteration left out."""
    words = ["-m", "apps.matmul", "--n", str(n), "--iterations", str(iterations)]
    job = cluster.start(words, "--sizes", str(size))
    return float(cluster.wait([job])[0]["sizes"][-1]["iteration_time_s"])


def as_text(rows: Sequence[Row]) -> str:
    """A table."""
    names = list(rows[0].time_s)
    head = f"{'n':>6}{'procs':>7}" + "".join(f"{name:>11} s" for name in names)
    lines = [head + "".join(f"{name + ' / paced':>19}" for name in names[1:])]
    for row in rows:
        times = "".join(f"{row.time_s[name]:13.3f}" for name in names)
        ratios = "".join(f"{row.ratio(name):19.2f}" for name in names[1:])
        lines.append(f"{row.n:6}{row.processors:7}{times}{ratios}")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", default="fast", help="fast, slow, or a file less .toml")
    parser.add_argument("--n", type=int, nargs="+", default=[1200, 2400])
    parser.add_argument("--sizes", type=int, nargs="+", default=[2, 4, 9])
    parser.add_argument("--iterations", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    if options.iterations < 2:
        parser.error("--iterations: at least 2, the first is not counted")
    rows = measure(options.network, options.n, options.sizes, options.iterations)
    if options.json:
        found = [{"n": r.n, "processors": r.processors, "iteration_s": r.time_s} for r in rows]
        print(json.dumps({"schema": 1, "rows": found}))
    else:
        print(as_text(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
