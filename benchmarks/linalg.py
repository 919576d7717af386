"""Matrix product and LU against ScaLAPACK's pdgemm and pdgetrf, in one run.

    python -m benchmarks.linalg [--n 2048,4096] [--grids 1x1,1x2,2x1,2x2] [--nb 64]
                                [--repeats 5] [--json]

For each grid and size, in the same processes, one thread per rank, interleaved: our kernel, its
peer, and the dgemm peak (every rank multiplies for itself at the same time; with more ranks than
processors that is the peak of all processors). Both sides call the same OpenBLAS, Debian's serial
one, which the peer needs; ours is told to by DQ_BLAS. malloc keeps its memory, which the peer
gains most from. Times are those of the slowest rank.

The ratio is the median over the rounds of peer's time / our time in the same round. Each kernel's
result is checked after the first round: the scaled residual (below 16), and for LU that every
pivot is pdgetrf's.

With more ranks than processors the peer loses much of its time to MPICH's polling, as ours would
without naps (``resize_lib.grid``): a ratio there says little about the algorithms.
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

from benchmarks._scalapack import MALLOC_TUNING, OPENBLAS
from dq_client.base.launch import MPI_TUNING, ONE_THREAD
from dq_client.node.mpiexec.command import find_mpiexec

LIMIT_S = 600
PEERS = {"matmul": "pdgemm", "lu": "pdgetrf"}


def launch(options: argparse.Namespace, rows: int, cols: int) -> list[dict[str, Any]]:
    """Measure one grid in processes of its own."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "results"
        wanted = {
            "grid": [rows, cols],
            "n": options.n,
            "nb": options.nb,
            "repeats": options.repeats,
            "output": str(output),
        }
        command = [find_mpiexec(), "-n", str(rows * cols), sys.executable]
        command += ["-m", "benchmarks._linalg_ranks", json.dumps(wanted)]
        environment = {**os.environ, **MALLOC_TUNING, **MPI_TUNING, **ONE_THREAD}
        environment["DQ_BLAS"] = str(OPENBLAS)
        subprocess.run(command, env=environment, check=True, timeout=LIMIT_S)
        return [json.loads(line) for line in output.read_text().splitlines()]


def summary(result: dict[str, Any]) -> dict[str, Any]:
    """Medians of one kernel on one grid: seconds, rate, share of the peak, ratio to the peer."""
    ours_s, peer_s, peak = result["ours_s"], result["peer_s"], result["peak_gflops"]
    rates = [result["gflop"] / time_s for time_s in ours_s]
    return {
        **{key: result[key] for key in ("kernel", "grid", "n", "nb", "residual")},
        "ours_s": median(ours_s),
        "peer_s": median(peer_s),
        "gflops": median(rates),
        "peak_gflops": median(peak),
        "of_peak": median(rate / top for rate, top in zip(rates, peak, strict=True)),
        "ratio": median(peer / our for our, peer in zip(ours_s, peer_s, strict=True)),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The summaries as text."""
    lines = [
        f"{'kernel':8}{'grid':>6}{'n':>7}{'nb':>5}{'ours ms':>10}{'peer ms':>10}"
        f"{'ratio':>8}{'Gflop/s':>9}{'of peak':>9}{'residual':>10}"
    ]
    lines += [
        f"{row['kernel']:8}{'x'.join(map(str, row['grid'])):>6}{row['n']:>7}{row['nb']:>5}"
        f"{row['ours_s'] * 1e3:>10.1f}{row['peer_s'] * 1e3:>10.1f}{row['ratio']:>8.2f}"
        f"{row['gflops']:>9.1f}{row['of_peak']:>9.3f}{row['residual']:>10.1e}"
        for row in rows
    ]
    return "\n".join(lines)


def numbers(text: str) -> list[int]:
    """An option's list of whole numbers."""
    return [int(word) for word in text.split(",")]


def grids(text: str) -> list[tuple[int, int]]:
    """An option's list of grids."""
    pairs = [word.split("x") for word in text.split(",")]
    return [(int(rows), int(cols)) for rows, cols in pairs]


def main() -> None:
    """Command line: see the module's text."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--n", type=numbers, default=[2048, 4096])
    parser.add_argument("--grids", type=grids, default=grids("1x1,1x2,2x1,2x2"))
    parser.add_argument("--nb", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [summary(result) for grid in options.grids for result in launch(options, *grid)]
    print(json.dumps({"schema": 1, "peers": PEERS, "rows": rows}) if options.json else table(rows))


if __name__ == "__main__":
    main()
