"""What a program pays for its variables: when it enters its loop, and at a resize.

    python -m benchmarks.carry [--repeats 5] [--pairs 3] [--variables 1000] [--megabytes 10]

A real cluster on this machine (server, agent, `dq submit`, `dq resize`). The program has so many
variables (globals, attributes, items of dicts) and so many MB in ten arrays, all changed in every
turn. Jobs with DQ_CARRY=0 and without alternate; each is taken 1 → 2 → 1 again and again. With
DQ_CARRY=0 the results of ranks that join are wrong; rank 0's are not.

``enter``: the look at all variables before the first turn. ``stop``: the time between two turns of
rank 0 where the ranks change, whatever it consists of. ``carry``: the part of it that looks at
variables, compares, packs and sends.

Limits, by the medians: enter 20 ms, and a stop 30 ms longer than with DQ_CARRY=0. On a machine that
other programs use, the clock shows those, too: the processor time beside it tells. Exit code 1 if a
limit is not kept.
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
from pathlib import Path
from typing import Any

from benchmarks._carry_app import program
from dq_client.base import messages as m
from dq_client.base.connection import Connection
from harness.commands import CommandLine
from harness.live import asked

ENTER_MS_MAX, MORE_MS_MAX = 20.0, 30.0
LIMIT_S = 60.0
SETTLED_S = 0.4
Rows = list[dict[str, Any]]
Found = dict[tuple[bool, str], Rows]  # by whether variables travel, and the kind of row


def run(options: argparse.Namespace) -> Found:
    """All rows that the jobs have written."""
    folder = Path(tempfile.mkdtemp(prefix="dq-carry-"))
    found: Found = defaultdict(list)
    try:
        config = folder / "config.toml"
        config.write_text('[scheduler]\nresize = "none"\n')
        source = folder / "program.py"
        source.write_text(program(options.variables, options.megabytes))
        dq = CommandLine(folder / "home")
        dq.home.root.mkdir(mode=0o700, exist_ok=True)
        dq.dq("up", "--local", 2, "--detach", "--config", config)
        line = Connection.to(dq.home)
        try:
            for number in range(2 * options.pairs):
                carries = number % 2 == 1
                out = folder / str(number)
                out.mkdir()
                _resized(line, dq, source, out, options.repeats, carries=carries)
                found[carries, "entered"] += _rows(out / "entered")
                both = zip(_rows(out / "resizes"), _rows(out / "carried"), strict=True)
                found[carries, "resizes"] += [{**a, **b} for a, b in both][2:]
        finally:
            line.close()
            dq.run("down", "--force")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return found


def _resized(
    line: Connection, dq: CommandLine, source: Path, out: Path, repeats: int, *, carries: bool
) -> None:
    words = ["-n", 1, "--sizes", "1,2", "--env", f"DQ_CARRY={int(carries)}"]
    job = dq.submit(*words, "--", sys.executable, source, out)
    _until(line, job, lambda row: row["state"] == "running" and row["remap_points"] > 5)
    for _ in range(repeats + 1):  # the first one warms up
        for target in (2, 1):
            time.sleep(SETTLED_S)
            line.call(m.Resize(job, target), 10)
            _until(line, job, lambda row, to=target: row["processors"] == to)
    time.sleep(SETTLED_S)
    (out / "stop").touch()
    _until(line, job, lambda row: row["state"] == "done")


def _until(line: Connection, job: int, found: Any) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not found(row := asked(line, job)):
        if row["state"] in ("failed", "killed") or time.monotonic() > deadline:
            reply = line.call(m.WhyQuery(job), 10)
            told = reply.data["story"][-3:] if isinstance(reply, m.Data) else reply
            raise RuntimeError(f"job {job}: {row['state']}, {row['reason']}: {told}")
        time.sleep(0.02)


def _rows(file: Path) -> Rows:
    return [json.loads(text) for text in file.read_text().splitlines()]


def compared(found: Found) -> Rows:
    """Rows of the table: medians and the quickest, with the limit."""
    entered = found[True, "entered"]
    rows = [
        _row(f"enter, {name}", [row[key] for row in entered], [0.0], limit)
        for name, key, limit in (("cpu", "cpu_ms", None), ("wall", "wall_ms", ENTER_MS_MAX))
    ]
    for old, new in ((1, 2), (2, 1)):
        for name, key, limit in (
            ("stop", "gap_ms", MORE_MS_MAX), ("carry, wall", "wall_ms", None),
            ("carry, cpu", "cpu_ms", None),
        ):  # fmt: skip
            ms = {
                carries: [row[key] for row in found[carries, "resizes"] if row["old"] == old]
                for carries in (False, True)
            }
            rows.append(_row(f"{old} → {new}, {name}", ms[True], ms[False], limit))
    return rows


def _row(
    name: str, with_ms: list[float], without_ms: list[float], limit_ms: float | None
) -> dict[str, Any]:
    row: dict[str, Any] = {"what": name, "count": len(with_ms), "limit_ms": limit_ms}
    for kind, of in (("median", statistics.median), ("quickest", min)):
        row[f"{kind}_ms"], row[f"{kind}_without_ms"] = of(with_ms), of(without_ms)
        row[f"{kind}_more_ms"] = of(with_ms) - of(without_ms)
    row["missed"] = limit_ms is not None and row["median_more_ms"] > limit_ms
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--variables", type=int, default=1000)
    parser.add_argument("--megabytes", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = compared(run(options))
    missed = any(row["missed"] for row in rows)
    if options.json:
        print(json.dumps({"schema": 1, "rows": rows, "missed": missed}))
        return int(missed)
    print(f"{options.variables} variables, {options.megabytes} MB; ms:")
    print(f"{'':20}{'median':>9}{'DQ_CARRY=0':>12}{'more':>8}{'quickest':>11}{'DQ_CARRY=0':>12}"
          f"{'more':>8}{'limit':>8}")  # fmt: skip
    for row in rows:
        limit = "" if row["limit_ms"] is None else f"{row['limit_ms']:.0f}"
        print(f"{row['what']:20}{row['median_ms']:9.1f}{row['median_without_ms']:12.1f}"
              f"{row['median_more_ms']:8.1f}{row['quickest_ms']:11.1f}"
              f"{row['quickest_without_ms']:12.1f}{row['quickest_more_ms']:8.1f}{limit:>8}"
              f"{'  missed' if row['missed'] else ''}")  # fmt: skip
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
