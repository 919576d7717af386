"""How fast a session's resize moves each kind of data, beside plain mpi4py and memcpy.

    python -m benchmarks.kinds [--megabytes 4,20,200] [--repeats 3] [--chains 1,2,4 3,5] [--json]

A job for each kind (block-cyclic matrix, CSR, items, an `rs.value`, a variable of the program) is
resized along each chain and back, started by DQ's own launcher, without a server. What counts is
all that a resize does with data: plan, agreement, fresh memory, copies. Beside it, in processes
that know nothing of DQ: MPI_Comm_spawn, merge and Alltoallv of as many bytes in equal blocks, and
memcpy of every rank's part into fresh memory. Medians. Values and variables move only where ranks
join.

Exit code 1 if CSR or items move at less than LEAST of the matrix's speed (geometric mean).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from harness.ranks import ONE_HOST, OWN, Recipe, run_job

KINDS = ("dense", "csr", "items", "values", "carried")
LEAST = 0.7
Steps = dict[tuple[int, int], float]


def moves(kind: str, megabytes: float, chain: Sequence[int], repeats: int) -> Steps:
    """Median seconds of each step of a chain, there and back."""
    sizes = ",".join(map(str, chain))
    found: dict[tuple[int, int], list[float]] = defaultdict(list)
    for row in _rows(OWN, chain[0], "_kinds_app", kind, megabytes, sizes, repeats + 1):
        found[int(row["old"]), int(row["new"])].append(row["s"])
    return {step: statistics.median(times[1:]) for step, times in found.items()}


def yardsticks(megabytes: float, step: tuple[int, int], repeats: int) -> dict[str, float]:
    """Median seconds of a plain program's Alltoallv and memcpy."""
    rows = _rows(ONE_HOST, min(step), "_kinds_plain", megabytes, *step, repeats + 1)
    return {name: statistics.median(row[name] for row in rows[1:]) for name in rows[0]}


def _rows(recipe: Recipe, ranks: int, program: str, *words: object) -> list[dict[str, float]]:
    path = str(Path(__file__).with_name(f"{program}.py"))
    ended = run_job(recipe, ranks, [path, *map(str, words)], limit_s=600)
    if ended.code:
        raise RuntimeError(ended.err)
    return [json.loads(line) for line in ended.out.splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", default="4,20,200")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--chains", nargs="+", default=["1,2,4", "3,5"])
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    for megabytes in map(float, options.megabytes.split(",")):
        for chain in ([int(size) for size in text.split(",")] for text in options.chains):
            kinds = {
                kind: moves(kind, megabytes, chain, options.repeats)
                for kind in options.kinds.split(",")
            }
            for step in sorted({step for steps in kinds.values() for step in steps}):
                row = {"mb": megabytes, "old": step[0], "new": step[1]}
                row |= {f"{kind}_s": steps[step] for kind, steps in kinds.items()}
                rows.append(row | yardsticks(megabytes, step, options.repeats))
                if not options.json:
                    print(_shown(rows[-1]), flush=True)
    speeds = {
        kind: statistics.geometric_mean(row["dense_s"] / row[f"{kind}_s"] for row in rows)
        for kind in ("csr", "items")
        if all(f"{name}_s" in rows[0] for name in ("dense", kind))
    }
    if options.json:
        print(json.dumps({"schema": 1, "rows": rows, "beside_dense": speeds}))
    else:
        print("  ".join(f"{kind} {speed:.2f} of dense" for kind, speed in speeds.items()))
    return int(min(speeds.values(), default=1.0) < LEAST)


def _shown(row: dict[str, float]) -> str:
    times = [f"{name[:-2]} {1e3 * value:.1f}" for name, value in row.items() if name[-2:] == "_s"]
    return f"{row['mb']:g} MB  {row['old']} → {row['new']}  ms: " + "  ".join(times)


if __name__ == "__main__":
    sys.exit(main())
