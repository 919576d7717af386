"""What a resize costs an application under one MPI beside another (docs/mpi.md).

    python -m benchmarks.any_mpi [--beside ENVIRONMENT,...] [--megabytes 20] [--rounds 5] [--json]

One job on a local cluster of four processors, walked through 1, 2, 4, 2, 1 processors: with ranks
that join and leave, if the MPI of this environment can do that, and by restart; then the same in
each other environment (`make test-mpi` makes some below .other-mpi), round by round, so that what
else the machine does strikes all alike.

``lost``: between the last turn before a resize was asked for and SETTLED_S after the first turn at
the new size, all time that is not the calm time of the turns done. It has everything in it: what
new ranks take away from the application while they start, the copy, the end of the old ranks, the
way of the new ones to the loop. Medians; nothing else should be running.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from itertools import pairwise
from pathlib import Path

from harness.commands import ROOT
from harness.live import Job, Live

SIZES = (1, 2, 4, 2, 1)
CALM_S = 1.0  # at each size, before the next resize is asked for
SETTLED_S = 0.3  # after the first turn at a size: ranks that left have ended, pages are touched
LIMIT_S = 600
ONE_OF_MANY = ("MPICH", (5, 0, 2))  # the first MPI whose ranks join
PROGRAM = """
import sys
import time
from pathlib import Path

import numpy as np
import resize_lib

side, out = int(np.sqrt(float(sys.argv[1]) * 1e6 / 8)), Path(sys.argv[2])
one = np.ones(1)
with resize_lib.session() as rs:
    A = rs.matrix("A", side, side, block=64, init=1.0)
    with out.open("a") as log:
        for turn in rs.iterations(1_000_000):
            sum(range(100_000))
            rs.comm.allreduce(1)
            if rs.rank == 0:
                log.write(f"{time.monotonic()} {rs.size}\\n")
                log.flush()
"""
VENDOR = "import json, mpi4py.MPI as m; print(json.dumps(m.get_vendor()))"

Turn = tuple[float, int]  # when it ended (s), on how many processors
Lost = dict[str, list[float]]  # seconds, by way and sizes


def lost_s(turns: list[Turn], asked_s: float, next_s: float) -> float:
    """What the resize asked for at `asked_s` cost; the next one was asked for at `next_s`.

    `turns` from one resize before to the next: two stretches of one size each.
    """
    old, new = turns[0][1], turns[-1][1]
    first_new_s = next(end_s for end_s, size in turns if size == new)
    before = [end_s for end_s, size in turns if size == old and end_s <= asked_s]
    after = [end_s for end_s, _ in turns if first_new_s + SETTLED_S < end_s <= next_s]
    calm_s = {old: turn_s(before), new: turn_s(after)}
    done = [turn for turn in turns if before[-1] < turn[0] <= after[0]]
    return after[0] - before[-1] - sum(calm_s[size] for _, size in done)


def turn_s(ends_s: list[float]) -> float:
    """The mean time of a turn in a stretch."""
    return (ends_s[-1] - ends_s[0]) / (len(ends_s) - 1)


def on(size: int, job: Job) -> bool:
    """Whether the job runs on so many processors, and turns there."""
    return bool(job["processors"] == size and job["state"] == "running" and job["remap_points"])


def walked(growth: str, launcher: str, megabytes: float) -> Lost:
    """One job taken through the sizes: what each resize cost it."""
    with tempfile.TemporaryDirectory(prefix="dq-any-mpi-") as folder:
        root = Path(folder)
        config, program, log = root / "config.toml", root / "program.py", root / "turns"
        config.write_text(f'[scheduler]\nresize = "none"\n[launch]\ngrowth = "{growth}"\n')
        program.write_text(PROGRAM)
        cluster = Live(root / "home", launcher)
        cluster.up(max(SIZES), "--config", config)
        asked_s: list[float] = []
        try:
            words = ["--", sys.executable, program, megabytes, log]
            job = cluster.submit("-n", SIZES[0], "--sizes", "1,2,4", *words)
            for size in SIZES:
                if asked_s:
                    cluster.dq("resize", job, size)
                cluster.wait(job, partial(on, size))
                _wait_for_calm(log, size)
                asked_s.append(time.monotonic())
        finally:
            cluster.dq("down", "--force")
        turns = [_turn(line) for line in log.read_text().splitlines()]
    found: Lost = {}
    stretches = [[t for t in turns if a < t[0] <= b] for a, b in pairwise([0.0, *asked_s])]
    for i, (old, new) in enumerate(pairwise(SIZES)):
        around = [*_last_of(stretches[i], old), *stretches[i + 1]]
        found.setdefault(f"{old} to {new}", []).append(lost_s(around, asked_s[i], asked_s[i + 1]))
    return found


def _turn(line: str) -> Turn:
    end_s, size = line.split()
    return float(end_s), int(size)


def _last_of(turns: list[Turn], size: int) -> list[Turn]:
    """The calm turns at the end of a stretch."""
    return [t for t in turns if t[1] == size and t[0] > turns[-1][0] - CALM_S]


def _wait_for_calm(log: Path, size: int) -> None:
    """Until the job has made turns at this size for long enough to know them."""
    since_s: float | None = None
    while since_s is None or time.monotonic() < since_s + SETTLED_S + CALM_S:
        last = log.read_text().splitlines()[-1] if log.exists() else "0 0"
        if since_s is None and int(last.split()[1]) == size:
            since_s = time.monotonic()
        time.sleep(0.1)


def here(megabytes: float) -> tuple[str, dict[str, Lost]]:
    """The MPI of this environment, and what each way costs under it."""
    name, version = json.loads(subprocess.check_output([sys.executable, "-c", VENDOR], text=True))
    launcher = "mpiexec" if name == "Open MPI" else "dq"
    joins = (name, tuple(version)) >= ONE_OF_MANY and name == ONE_OF_MANY[0]
    ways = ("join", "restart") if joins else ("restart",)
    mpi = f"{name} {'.'.join(map(str, version))}"
    return mpi, {way: walked(way, launcher, megabytes) for way in ways}


def elsewhere(environment: str, megabytes: float) -> tuple[str, dict[str, Lost]]:
    """The same in another environment."""
    words = [f"{environment}/bin/python", "-m", "benchmarks.any_mpi", "--megabytes", str(megabytes)]
    env = {**os.environ, "PATH": f"{Path(environment).resolve()}/bin:{os.environ['PATH']}"}
    done = subprocess.run(
        [*words, "--rounds", "1", "--json"],
        env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S, check=True,
    )  # fmt: skip
    ((mpi, ways),) = json.loads(done.stdout)["lost_s"].items()
    return mpi, ways


def measured(megabytes: float, rounds: int, beside: list[str]) -> dict[str, dict[str, Lost]]:
    """What was lost, by MPI, way and sizes."""
    found: dict[str, dict[str, Lost]] = {}
    for _ in range(rounds):
        for mpi, ways in [here(megabytes), *(elsewhere(e, megabytes) for e in beside)]:
            for way, lost in ways.items():
                kept = found.setdefault(mpi, {}).setdefault(way, {})
                for sizes, times in lost.items():
                    kept.setdefault(sizes, []).extend(times)
    return found


def show(found: dict[str, dict[str, Lost]]) -> None:
    """A table of medians; beside each what it is of the way in which ranks join."""
    rows = [(f"{mpi}, {way}", lost) for mpi, ways in found.items() for way, lost in ways.items()]
    base = next((lost for ways in found.values() for w, lost in ways.items() if w == "join"), None)
    print(f"{'lost, ms':28}" + "".join(f"{sizes:>16}" for sizes in rows[0][1]))
    for name, lost in rows:
        cells = []
        for sizes, times in lost.items():
            median_s = statistics.median(times)
            ratio = f" ({median_s / statistics.median(base[sizes]):.1f})" if base else ""
            cells.append(f"{1e3 * median_s:.0f}{ratio}")
        print(f"{name:28}" + "".join(f"{cell:>16}" for cell in cells))


def main() -> int:
    """Measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--beside", default="", help="folders of virtual environments")
    parser.add_argument("--megabytes", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    o = parser.parse_args()
    found = measured(o.megabytes, o.rounds, [word for word in o.beside.split(",") if word])
    if o.json:
        print(json.dumps({"megabytes": o.megabytes, "lost_s": found}))
    else:
        show(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
