"""Matrix product and LU on the ranks of one node beside what needs none: numpy and scipy.

    python -m benchmarks.linalg_node [--n 1000,3001] [--types float64,float32,complex128]
                                     [--grids 1x1,1x2,2x1,2x2] [--threads 2] [--nb 64]
                                     [--repeats 5] [--json]

For each grid, size and type, in one run and interleaved: our kernel with one thread per rank, and,
in rank 0 while the other ranks sleep, numpy's product (`np.matmul` into memory that is there
already) or scipy's `lu_factor` (in place, without its check for nan; ours has its own) with
`--threads` threads, by default as many as there are processors. Who is first alternates.

The ratio is the median over the rounds of peer's time / our time in the same round; that of the
processor time (`cpu`: of all ranks, of all threads) is the same for what both cost, waiting ranks
that poll included. On a busy machine times say little and *best*, the ratio of the shortest times,
says more. One thread of the peer beside one of ours: `--grids 1x1 --threads 1`.

Ours calls numpy's OpenBLAS; scipy brings another one, which may be of another version.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.linalg import grids, numbers
from dq_client.base.launch import MPI_TUNING, ONE_THREAD
from dq_client.node.mpiexec.command import find_mpiexec

LIMIT_S = 900
PEERS = {"matmul": "numpy.matmul", "lu": "scipy.linalg.lu_factor"}
TYPES = ("float64", "float32", "complex128", "complex64")


def launch(options: argparse.Namespace, rows: int, cols: int) -> list[dict[str, Any]]:
    """Measure one grid in processes of its own."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "results"
        wanted = {
            "grid": [rows, cols],
            "n": options.n,
            "types": options.types,
            "threads": options.threads,
            "nb": options.nb,
            "repeats": options.repeats,
            "output": str(output),
        }
        command = [find_mpiexec(), "-n", str(rows * cols), sys.executable]
        command += ["-m", "benchmarks._linalg_node_ranks", json.dumps(wanted)]
        environment = {**os.environ, **MPI_TUNING, **ONE_THREAD}
        subprocess.run(command, env=environment, check=True, timeout=LIMIT_S)
        return [json.loads(line) for line in output.read_text().splitlines()]


def summary(result: dict[str, Any]) -> dict[str, Any]:
    """Medians of one kernel on one grid, and ratios to the peer."""
    ours, peer = ([tuple(pair) for pair in result[who]] for who in ("ours_s", "peer_s"))
    rounds = list(zip(ours, peer, strict=True))
    return {
        **{key: result[key] for key in ("kernel", "type", "grid", "n", "threads", "residual")},
        "ours_s": median(wall for wall, _ in ours),
        "peer_s": median(wall for wall, _ in peer),
        "ratio": median(p[0] / o[0] for o, p in rounds),
        "best_ratio": min(peer)[0] / min(ours)[0],
        "cpu_ratio": median(p[1] / o[1] for o, p in rounds),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The summaries as text."""
    lines = [
        f"{'kernel':8}{'type':>11}{'n':>7}{'grid':>6}{'threads':>9}{'ours ms':>10}{'peer ms':>10}"
        f"{'ratio':>8}{'best':>8}{'cpu':>8}{'residual':>10}"
    ]
    lines += [
        f"{row['kernel']:8}{row['type']:>11}{row['n']:>7}{'x'.join(map(str, row['grid'])):>6}"
        f"{row['threads']:>9}{row['ours_s'] * 1e3:>10.1f}{row['peer_s'] * 1e3:>10.1f}"
        f"{row['ratio']:>8.2f}{row['best_ratio']:>8.2f}{row['cpu_ratio']:>8.2f}"
        f"{row['residual']:>10.1e}"
        for row in rows
    ]
    return "\n".join(lines)


def types(text: str) -> list[str]:
    """An option's list of types of numbers."""
    names = text.split(",")
    if unknown := set(names) - set(TYPES):
        raise argparse.ArgumentTypeError(f"{unknown.pop()!r} is none of {', '.join(TYPES)}")
    return names


def main() -> None:
    """Command line: see the module's text."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--n", type=numbers, default=[1000, 3001])
    parser.add_argument("--types", type=types, default=list(TYPES[:3]))
    parser.add_argument("--grids", type=grids, default=grids("1x1,1x2,2x1,2x2"))
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--nb", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [summary(result) for grid in options.grids for result in launch(options, *grid)]
    print(json.dumps({"schema": 1, "peers": PEERS, "rows": rows}) if options.json else table(rows))


if __name__ == "__main__":
    main()
