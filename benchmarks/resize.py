"""What a running job loses when it grows and shrinks, beside a bare MPI_Comm_spawn.

    python -m benchmarks.resize [--repeats 5] [--sizes 1,2,4] [--megabytes 0,20,200]
                                [--quick] [--cold] [--json]

A real cluster on this machine (server, agent, `dq submit`, `dq resize`); a job with a block-cyclic
matrix of so many MB (0: a small one) is taken n → 2n → n again and again. Interleaved with it, in
the same run:

* ``plain``: under mpiexec, all ranks call MPI_Comm_spawn for n Python processes that import numpy
  and mpi4py, and nothing of DQ; then a merge, one message from each old rank to a new one with half
  of its share of as many MB, in one block, and a barrier. Nothing is scheduled;
* ``exec``: the job's ranks are executed by their keeper;
* ``starter``: they are forked from it;
* ``scipy``: the same with a program that imports scipy, which the keeper has loaded meanwhile.

``decided → turn``: from the server's decision, as `dq why` dates it, to the first turn at the new
size. ``lost``: all time since then that is not the undisturbed time of the turns done meanwhile.
``pause``: the longest stop of the application, at the remap point where the ranks join. On a
machine with fewer cores than ranks the start of n ranks takes processors away from the application:
``limit`` is the processor time of MPI_Init in the new ranks, shared by all cores.

A virtual machine may give memory that has been free for two seconds back to its host, and pays
for it when it is touched next: 100 to 200 ms for 100 MB instead of 9. Plain spawns, which come one
right after the other, hardly ever do, resizes at leisure often. So before each measurement, theirs
and ours, as much memory is touched and freed as either needs. ``--cold`` leaves that out.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from dq_client.base import messages as m
from dq_client.base.connection import Connection
from dq_client.base.launch import MPI_TUNING, ONE_THREAD
from dq_client.node.mpiexec.command import find_mpiexec
from harness.commands import ROOT, CommandLine
from harness.live import asked
from resize_lib.redistribution import Arena

LIMIT_S = 120.0
CALM_TURNS = 15  # before a resize: what a turn costs undisturbed
INIT_CPU_S = 0.013  # MPI_Init of one rank on a quiet core: UCX opens its memory and devices
UNASKED_S = 0.4  # each question to the server, and Python here, would take a core for 2 ms
SETTLE_S = 0.1  # after free memory was touched, which took a core from the job
Figures = dict[str, float]
Key = tuple[str, int, int]  # way, megabytes, n
WAYS = ("exec", "starter", "scipy")


def back_free_memory(megabytes: int) -> None:
    """See the module's docstring: twice the job's data, old and new parts of all ranks."""
    for _ in Arena().reserve([2 * megabytes * 10**6]):
        pass
    time.sleep(SETTLE_S)


def plain(n: int, megabytes: int, *, cold: bool) -> float:
    """Seconds of one bare spawn n → 2n."""
    if not cold:
        back_free_memory(megabytes)
    argv = [find_mpiexec(), "-hosts", f"localhost:{n}", "-n", str(n), sys.executable, "-m"]
    done = subprocess.run(
        [*argv, "benchmarks._resize_plain", "localhost", str(megabytes)],
        env={**os.environ, **ONE_THREAD, **MPI_TUNING, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    return float(done.stdout)


def account(turns: list[list[float]], decided_s: float) -> Figures:
    """What a resize cost that was decided at a time. The last turn is the first at the new size.

    Each turn: when it began, the time since the turn before, its work, the ranks.
    """
    first = next(
        k for k, (began_s, _, work_s, _) in enumerate(turns) if began_s + work_s > decided_s
    )
    first = max(1, min(first, len(turns) - 1))
    calm = turns[max(0, first - CALM_TURNS) : first]
    gap_s = statistics.median(gap_s for _, gap_s, _, _ in calm)
    work_s = statistics.median(work_s for _, _, work_s, _ in calm)
    took_s, during = turns[-1][0] - decided_s, turns[first:-1]
    return {
        "decided_s": took_s,
        "lost_s": took_s - len(during) * (gap_s + work_s) - gap_s,
        "pause_s": turns[-1][1] - gap_s,
        "turns": len(during),
    }


class Job:
    """A job on a cluster that is resized by its user."""

    def __init__(self, line: Connection, dq: CommandLine, way: str, n: int, megabytes: int) -> None:
        self._line, self._n, self._megabytes = line, n, megabytes
        self.folder = Path(tempfile.mkdtemp(prefix="dq-resize-"))
        words = ["-n", n, "--sizes", f"{n},{2 * n}", *(["--exec"] if way == "exec" else [])]
        program = ["-m", "benchmarks._resize_app", megabytes, self.folder, way]
        self.id = dq.submit(*words, "--", sys.executable, *program)
        self._until(lambda job: job["state"] == "running" and job["remap_points"] > 20)

    def there_and_back(self, *, cold: bool) -> list[dict[str, Any]]:
        """Grow once and shrink again; what both cost."""
        found = []
        for target in (2 * self._n, self._n):
            if not cold:
                back_free_memory(self._megabytes)
            self._line.call(m.Resize(self.id, target), 10)
            time.sleep(UNASKED_S)
            self._until(lambda job, to=target: job["processors"] == to and not job["resizing"])
            time.sleep(0.3)  # turns at the new size, undisturbed
            told = json.loads((self.folder / "resizes").read_text().splitlines()[-1])
            moved = {"redistribution_s": told["redistribution_s"]}
            found.append({**account(told["turns"], self._decided_s()), **moved})
        return found

    def _decided_s(self) -> float:
        """When the server has decided the last resize."""
        reply = self._line.call(m.WhyQuery(self.id), 10)
        assert isinstance(reply, m.Data)
        story = reply.data["story"]
        return float([d["time_s"] for d in story if d["what"] in ("expand", "shrink")][-1])

    def end(self) -> None:
        """Let it end by itself; it checks its matrix."""
        (self.folder / "stop").touch()
        self._until(lambda job: job["state"] == "done")
        shutil.rmtree(self.folder)

    def _until(self, found: Any) -> None:
        deadline = time.monotonic() + LIMIT_S
        while True:
            job = asked(self._line, self.id)
            job["resizing"] = job.get("reserved") or 0
            if found(job):
                return
            if job["state"] in ("failed", "killed") or time.monotonic() > deadline:
                raise RuntimeError(f"job {self.id}: {job['state']}, {job['reason']}")
            time.sleep(0.02)


def measure(options: argparse.Namespace) -> tuple[dict[Key, dict[str, Figures]], Figures]:
    """Medians by way, megabytes and n, each for `grow` and `shrink`; and the plain spawns."""
    samples: dict[Key, dict[str, list[Figures]]] = defaultdict(lambda: defaultdict(list))
    plains: dict[tuple[int, int], list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="dq-resize-") as root:
        config = Path(root, "config.toml")
        config.write_text('[scheduler]\nresize = "none"\n')
        dq = CommandLine(Path(root, "home"))
        Path(root, "home").mkdir(mode=0o700)
        dq.dq("up", "--local", 2 * max(options.sizes), "--detach", "--config", config)
        line = Connection.to(dq.home)
        try:
            for n in options.sizes:
                for megabytes in options.mb:
                    for way in WAYS:
                        job = Job(line, dq, way, n, megabytes)
                        job.there_and_back(cold=options.cold)  # the first one warms up
                        for _ in range(options.repeats):
                            grow, shrink = job.there_and_back(cold=options.cold)
                            samples[way, megabytes, n]["grow"].append(grow)
                            samples[way, megabytes, n]["shrink"].append(shrink)
                        job.end()
                    for _ in range(options.repeats):
                        plains[n, megabytes].append(plain(n, megabytes, cold=options.cold))
            memory = starters(dq)
        finally:
            line.close()
            dq.run("down", "--force")
    medians = {
        key: {
            what: {name: statistics.median(r[name] for r in rows) for name in rows[0]}
            for what, rows in by.items()
        }
        for key, by in samples.items()
    }
    found = {_plain_key(*key): statistics.median(times) for key, times in plains.items()}
    return medians, {**found, **memory}


def _plain_key(n: int, megabytes: int) -> str:
    return f"plain_{n}_{megabytes}_s"


def starters(dq: CommandLine) -> Figures:
    """Memory that the cluster's starters keep while they are idle, MiB."""
    found = [0.0]
    for path in Path("/proc").glob("[0-9]*"):
        try:
            name = (path / "cmdline").read_bytes()
            environ = (path / "environ").read_bytes()
            if name.startswith(b"dq-starter") and os.fsencode(dq.home.root) in environ:
                rollup = (path / "smaps_rollup").read_text().split()
                found.append(int(rollup[rollup.index("Pss:") + 1]) / 1024)
        except (OSError, ValueError):
            continue
    return {"starter_mib": max(found)}


def show(medians: dict[Key, dict[str, Figures]], others: Figures) -> None:
    """Print the tables: milliseconds, and parts of the plain spawn."""
    cores = len(os.sched_getaffinity(0))
    head = ["plain", "decided→turn", "lost", "pause", "data", "turns", "limit", "dec./plain",
            "lost/plain"]  # fmt: skip
    for what in ("grow", "shrink"):
        print(f"\n{what}, ms; the last two in parts of plain")
        print(" " * 26 + "".join(f"{name:>14}" for name in head))
        for (way, megabytes, n), by in medians.items():
            r, base = by[what], others[_plain_key(n, megabytes)]
            sizes = f"{n} → {2 * n}" if what == "grow" else f"{2 * n} → {n}"
            limit = INIT_CPU_S * n / cores if what == "grow" else 0.0
            values = [base, r["decided_s"], r["lost_s"], r["pause_s"], r["redistribution_s"]]
            cells = [f"{1e3 * v:14.1f}" for v in values] + [f"{r['turns']:14.0f}"]
            cells += [f"{1e3 * limit:14.1f}", f"{r['decided_s'] / base:14.3f}"]
            print(f"{sizes}, {megabytes:>3} MB, {way:<9}".ljust(26) + "".join(cells)
                  + f"{r['lost_s'] / base:14.3f}")  # fmt: skip
    print(f"\nan idle starter keeps {others['starter_mib']:.0f} MiB")
    for way in WAYS:
        rows = [
            (by["grow"], others[_plain_key(n, mb)])
            for (w, mb, n), by in medians.items()
            if w == way
        ]
        for name in ("decided_s", "lost_s"):
            ratios = [max(r[name], 1e-4) / base for r, base in rows]
            print(f"{way}: {name} / plain, geometric mean {statistics.geometric_mean(ratios):.3f}")


def whole_numbers(text: str) -> list[int]:
    """The numbers of a comma-separated list."""
    return [int(word) for word in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sizes", type=whole_numbers, default=[1, 2, 4])
    parser.add_argument("--megabytes", dest="mb", type=whole_numbers, default=[0, 20, 200])
    parser.add_argument("--quick", action="store_true", help="two repeats, 1 and 2 ranks, 0 MB")
    parser.add_argument("--cold", action="store_true", help="leave free memory as it is")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.sizes, options.mb = 2, [1, 2], [0]
    medians, others = measure(options)
    if options.json:
        rows = [
            {"way": way, "megabytes": mb, "n": n, "seconds": by}
            for (way, mb, n), by in medians.items()
        ]
        print(json.dumps({"schema": 5, "cold": options.cold, "resizes": rows, "others": others}))
    else:
        show(medians, others)


if __name__ == "__main__":
    main()
