"""Redistribution against ScaLAPACK's pdgemr2d and a plain memcpy, in one run.

    python -m benchmarks.redistribution [--n 2400,4800,9600] [--nb 32,64,128] [--repeats 7]
                                        [--order F|C] [--spawned] [--json]

For each pair of grids in the chain 1x1, 1x2, 2x2, 2x3, 3x3, 3x4, 4x4, in both directions, on
one node and the same processes, interleaved, medians. First what a resize of a session takes; each
of these calls starts cold:

* ``session``: ours as a session calls it: a new communicator, no plan, no buffers, fresh pages for
  the new part; the old part lies in the session's arena, so that processes of a node read it;
* ``session, messages``: the same by messages, as between nodes;
* ``pdgemr2d first call``: Debian's library on the same MPI, after ``malloc_trim`` and with a fresh
  target;
* ``memcpy fresh``: every new process copies as many bytes as it will hold into fresh private huge
  pages: the physical limit.

Then calls that follow others of their kind, with plans, buffers and target pages warm:

* ``messages``, ``bounded`` (at most 0.35 of the local part as extra memory), ``pdgemr2d`` (its
  malloc told to keep its memory, ``MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=...``; without that it
  is half as fast), ``memcpy``.

Parts lie in Fortran order, as a session's matrices and ScaLAPACK's do (``--order C``: ours in C).
Every method's result is checked in the first and last round. ``--spawned`` runs across a spawned
and merged communicator, where the BLACS abort: there is no pdgemr2d then.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks._scalapack import MALLOC_TUNING

CHAIN = [(1, 1), (1, 2), (2, 2), (2, 3), (3, 3), (3, 4), (4, 4)]
OURS = {  # ours: the peer it is compared with
    "session": "pdgemr2d first call",
    "session, messages": "pdgemr2d first call",
    "messages": "pdgemr2d",
    "bounded": "pdgemr2d",
}
LIMIT_S = 600


def launch(
    grids: list[tuple[int, int]],
    n: int,
    nb: int,
    *,
    repeats: int,
    order: str = "F",
    dtype: str = "f8",
    spawned: bool = False,
    both_ways: bool = True,
    cold_only: bool = False,
    costa: str = "",
) -> list[dict[str, Any]]:
    """Measure one pair of grids in processes of its own, in both directions or in one.

    A size in each: at N = 9600 one takes 10 GiB, and malloc is told to keep what it was given.
    ``costa``: the library of ``_costa.build_adapter``; none if empty.
    """
    sizes = [rows * cols for rows, cols in grids]
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "results"
        wanted = {
            "grids": grids,
            "n": n,
            "nb": nb,
            "repeats": repeats,
            "spawn": spawned,
            "order": order,
            "dtype": dtype,
            "both_ways": both_ways,
            "cold_only": cold_only,
            "costa": costa,
            "output": str(output),
        }
        count = min(sizes) if spawned else max(sizes)
        program = [sys.executable, "-m", "benchmarks._redistribution_ranks", json.dumps(wanted)]
        environment = {
            **os.environ,
            **MALLOC_TUNING,
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "UCX_LOG_LEVEL": "error",
        }
        mpiexec = Path(sys.executable).with_name("mpiexec")
        command = [str(mpiexec), "-n", str(count), *program]
        subprocess.run(command, env=environment, check=True, timeout=LIMIT_S)
        return [json.loads(line) for line in output.read_text().splitlines()]


def geometric_mean(values: list[float]) -> float:
    """Geometric mean of positive ``values``."""
    return math.exp(sum(map(math.log, values)) / len(values))


def ratio(result: dict[str, Any], method: str, peer: str) -> float:
    """How many times as fast as ``peer`` ``method`` is."""
    return float(result["seconds"][peer] / result["seconds"][method])


def summary(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Geometric means over all cases, and how far from memcpy they are."""
    found: dict[str, Any] = {}
    for method, peer in OURS.items():
        if peer in results[0]["seconds"]:
            ratios = [ratio(result, method, peer) for result in results]
            found[f"{method} / {peer}"] = geometric_mean(ratios)
            found[f"{method} / {peer}, lowest"] = min(ratios)
    two = [r for r in results if {r["old"], r["new"]} == {"1x1", "1x2"}]
    for label, chosen in (("two ranks", two), ("more", [r for r in results if r not in two])):
        if chosen:
            for method, peer in (("session", "memcpy fresh"), ("messages", "memcpy")):
                ratios = [ratio(result, method, peer) for result in chosen]
                found[f"{method} / {peer}, {label}"] = geometric_mean(ratios)
    return found


def print_case(result: dict[str, Any]) -> None:
    """One line for one array and one pair of grids."""
    seconds = result["seconds"]
    times = "  ".join(f"{name} {value * 1e3:.1f}" for name, value in seconds.items())
    extra = ", ".join(f"{name} {value:.2f}" for name, value in result["extra"].items())
    print(
        f"{result['old']} -> {result['new']}  n {result['n']} nb {result['nb']}  ms: {times}"
        f"  | extra memory / local part: {extra}"
        f" | moved {result['moved']:.3f}",
        flush=True,
    )


def numbers(text: str) -> list[int]:
    """A comma-separated list of whole numbers."""
    return [int(part) for part in text.split(",")]


def main() -> None:
    """Run the chain and print every case, then the geometric means."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--n", type=numbers, default=[2400, 4800, 9600])
    parser.add_argument("--nb", type=numbers, default=[32, 64, 128])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--order", choices=["F", "C"], default="F")
    parser.add_argument("--spawned", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--steps", type=numbers, default=list(range(len(CHAIN) - 1)))
    options = parser.parse_args()
    results = []
    for step, n, nb in product(options.steps, options.n, options.nb):
        pair = CHAIN[step : step + 2]
        for result in launch(
            pair, n, nb, repeats=options.repeats, order=options.order, spawned=options.spawned
        ):
            results.append(result)
            if not options.json:
                print_case(result)
    means = summary(results)
    if options.json:
        print(json.dumps({"schema": 2, "cases": results, "summary": means}))
        return
    print(f"\n{os.cpu_count()} cores; times as fast, geometric mean over {len(results)} cases:")
    for name, value in means.items():
        print(f"  {name}: {value:.2f}")


if __name__ == "__main__":
    main()
