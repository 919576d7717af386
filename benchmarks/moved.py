"""How fast a session's resize moves a matrix, beside memcpy into fresh memory by all ranks.

    python -m benchmarks.moved [--repeats 5] [--megabytes 200] [--chain 1,2,4,2,1] [--json]

A real cluster on this machine (server, agent, `dq submit`, `dq resize`); a job with a block-cyclic
matrix goes through the chain again and again. What counts is all that the resize does with data:
plan, buffers, fresh pages for the new parts, the copies, and what it gives back.

In the same run, at each size, each rank copies its part with memcpy into fresh memory, all at once;
in plain pages and in huge ones, of which the faster counts. A resize is compared with the copies of
all ranks that take part in it, those that leave included: the faster of both sizes. Copies of the
same length by ranks that share no byte are a bound for any move, gathered or not.

Limit: 0.5 of the memcpy in each step, by the medians. Fresh memory differs, in a virtual machine
most of all, so the quickest of each are beside them. Exit code 1 if the limit is not kept.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.resize import whole_numbers
from dq_client.base import messages as m
from dq_client.base.connection import Connection
from harness.commands import CommandLine
from harness.live import asked

LEAST = 0.5
LIMIT_S = 120.0
SETTLED_S = 2.5  # copies at each size
Step = tuple[int, int]


def run(options: argparse.Namespace) -> tuple[dict[Step, list[float]], dict[int, list[float]]]:
    """Seconds of each move by (old size, new size), and of the faster kind of copy by ranks."""
    folder = Path(tempfile.mkdtemp(prefix="dq-moved-"))
    try:
        config = folder / "config.toml"
        config.write_text('[scheduler]\nresize = "none"\n')
        dq = CommandLine(folder / "home")
        dq.home.root.mkdir(mode=0o700, exist_ok=True)
        dq.dq("up", "--local", max(options.chain), "--detach", "--config", config)
        line = Connection.to(dq.home)
        try:
            _walk(line, dq, folder, options)
        finally:
            line.close()
            dq.run("down", "--force")
        moves: dict[Step, list[float]] = defaultdict(list)
        for row in _rows(folder / "moves"):
            moves[row["old"], row["new"]].append(row["seconds"])
        copies: dict[tuple[int, bool], list[float]] = defaultdict(list)
        for row in _rows(folder / "copies"):
            copies[row["ranks"], row["huge"]].append(row["seconds"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    kinds = {
        n: min((copies[n, huge] for huge in (False, True)), key=statistics.median)
        for n in {n for n, _ in copies}
    }
    return moves, kinds


def _walk(line: Connection, dq: CommandLine, folder: Path, options: argparse.Namespace) -> None:
    sizes = ",".join(map(str, sorted(set(options.chain))))
    program = [sys.executable, "-m", "benchmarks._moved_app", options.megabytes, folder]
    job = dq.submit("-n", options.chain[0], "--sizes", sizes, "--", *program)
    _until(line, job, lambda row: row["state"] == "running" and row["remap_points"] > 5)
    for _ in range(options.repeats + 1):  # the first one warms up
        for target in options.chain[1:]:
            time.sleep(SETTLED_S)
            line.call(m.Resize(job, target), 10)
            _until(line, job, lambda row, to=target: row["processors"] == to)
    (folder / "stop").touch()
    _until(line, job, lambda row: row["state"] == "done")


def _until(line: Connection, job: int, found: Any) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not found(row := asked(line, job)):
        if row["state"] in ("failed", "killed") or time.monotonic() > deadline:
            raise RuntimeError(f"job {job}: {row['state']}, {row['reason']}")
        time.sleep(0.02)


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--chain", type=whole_numbers, default=[1, 2, 4, 2, 1])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    moves, copies = run(options)
    rows = [compared(step, moves[step][1:], copies) for step in pairwise(options.chain)]
    worst = min(row["ratio"] for row in rows)
    if options.json:
        print(json.dumps({"schema": 1, "moves": rows, "worst": worst}))
        return int(worst < LEAST)
    print(f"{options.megabytes} MB, medians:  move ms   memcpy ms   GB/s   ratio, at least {LEAST};"
          "  quickest: move ms   memcpy ms   ratio")  # fmt: skip
    for row in rows:
        ms = {name: 1e3 * value for name, value in row.items() if name.endswith("_s")}
        speed = options.megabytes / ms["move_s"]
        print(f"{row['from']} → {row['to']} {ms['move_s']:19.1f} {ms['memcpy_s']:11.1f}"
              f" {speed:6.2f} {row['ratio']:7.2f} {ms['quickest_move_s']:35.1f}"
              f" {ms['quickest_memcpy_s']:11.1f} {row['quickest_ratio']:7.2f}")  # fmt: skip
    return int(worst < LEAST)


def compared(
    step: Step, moves: Sequence[float], copies: Mapping[int, Sequence[float]]
) -> dict[str, float]:
    """A step's moves with the copies of its ranks: medians, and the quickest of both."""
    row: dict[str, float] = {"from": step[0], "to": step[1]}
    for name, of in (("", statistics.median), ("quickest_", min)):
        row[f"{name}move_s"] = of(moves)
        row[f"{name}memcpy_s"] = min(of(copies[n]) for n in step)
        row[f"{name}ratio"] = row[f"{name}memcpy_s"] / row[f"{name}move_s"]
    return row


if __name__ == "__main__":
    sys.exit(main())
