"""What an application loses when it grows, beside spawning plainly and beside a restart.

    python -m benchmarks.resize [--repeats 7] [--sizes 1,2,4] [--megabytes 0,200] [--folder DIR]
                                [--quick] [--json]

For n → 2n ranks on one machine, with a matrix of so many MB (0: none), interleaved, medians:

* ``plain``: every rank calls MPI_Comm_spawn for Python processes that import mpi4py and numpy and
  nothing of DQ, then a merge; no data moves;
* ``restart``: each rank writes its share to one file and syncs it, the job ends, one of 2n ranks
  starts and reads. Slabs instead of blocks, no work lost, no queue in between: as good as it gets;
* ``expand``: a session that waits for its new ranks, asleep (iterations of a second and more);
* ``background``: a session that computes on and takes them in when all of them are ready.

``not computing`` is the time that the application spends at remap points in order to grow. ``lost``
has the slow-down of its turns by starting ranks in it as well: on a machine with fewer cores than
ranks that is most of it; on processors of their own the new ranks disturb nobody.

Each measurement is an mpiexec of its own. Then where the time goes, and the physical limits:
copying the new shares in memory (every rank its own, at once), and the processor time that the new
ranks need to start, shared by all cores.
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
from collections import defaultdict
from pathlib import Path

from dq_client.launch import MPI_TUNING, ONE_THREAD, find_mpiexec

LIMIT_S = 120
HOST = "localhost"
Seconds = dict[str, float]
Found = dict[tuple[int, int], dict[str, Seconds]]


def launch(method: str, size: int, megabytes: int, folder: str) -> Seconds:
    """Run one job; what its rank 0 printed."""
    words = [method, HOST, str(megabytes), folder]
    ranks = [sys.executable, "-m", "benchmarks._resize_ranks", *words]
    argv = [find_mpiexec(), "-hosts", f"{HOST}:{size}", "-n", str(size), *ranks]
    ended = subprocess.run(
        argv,
        env={**os.environ, **ONE_THREAD, **MPI_TUNING},
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    found: Seconds = json.loads(ended.stdout)
    return found


def restarted(size: int, megabytes: int, parent: str | None) -> Seconds:
    """Checkpoint, stop, start with twice the ranks, read: seconds of each."""
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        before = launch("checkpoint", size, megabytes, folder)
        stopped = time.monotonic()
        after = launch("restart", 2 * size, megabytes, folder)
    return {
        "lost_s": after["read"] - before["began"],
        "write_s": before["written"] - before["began"],
        "sync_s": before["safe"] - before["written"],
        "stop_s": stopped - before["safe"],
        "start_s": after["started"] - stopped,
        "read_s": after["read"] - after["started"],
    }


def medians(options: argparse.Namespace) -> Found:
    """Medians by size, megabytes, method and name; the methods of a size are interleaved."""
    result: Found = {}
    for size in options.sizes:
        samples: dict[tuple[int, str], dict[str, list[float]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for _ in range(options.repeats):
            measured = {(mb, "restart"): restarted(size, mb, options.folder) for mb in options.mb}
            plain = launch("plain", size, 0, "-")
            for mb in options.mb:
                measured[mb, "plain"] = plain
                for method in ("expand", "background"):
                    measured[mb, method] = launch(method, size, mb, "-")
            for key, seconds in measured.items():
                for name, value in seconds.items():
                    samples[key][name].append(value)
        for (mb, method), names in samples.items():
            by_method = result.setdefault((size, mb), {})
            by_method[method] = {name: statistics.median(v) for name, v in names.items()}
    return result


def table(title: str, heads: list[str], rows: list[tuple[str, list[float]]], digits: int) -> None:
    """Print one table of numbers."""
    print(f"\n{title}")
    print(" " * 16 + "".join(f"{head:>15}" for head in heads))
    for name, values in rows:
        print(f"{name:<16}" + "".join(f"{value:15.{digits}f}" for value in values))


def show(found: Found) -> None:
    """Print everything: milliseconds, then ratios."""
    cores = len(os.sched_getaffinity(0))
    lost, ratios, goes, restart, limits = [], [], [], [], []
    for (size, mb), by in found.items():
        name = f"{size} → {2 * size}, {mb} MB"
        plain, stop, wait, on = (by[k] for k in ("plain", "restart", "expand", "background"))
        values = plain["lost_s"], stop["lost_s"], wait["lost_s"], on["in_calls_s"], on["lost_s"]
        lost.append((name, [1e3 * v for v in values]))
        ours = wait["lost_s"], on["in_calls_s"], on["lost_s"]
        ratios.append((name, [v / base["lost_s"] for base in (plain, stop) for v in ours]))
        merge_s = on["take_in_s"] - on["redistribution_s"]
        parts = on["begin_s"], on["start_to_ready_s"], merge_s, on["redistribution_s"]
        goes.append((name, [1e3 * v for v in parts] + [on["turns"]]))
        steps = ("write_s", "sync_s", "stop_s", "start_s", "read_s")
        restart.append((name, [1e3 * stop[step] for step in steps]))
        physical = on["copy_warm_s"], on["copy_fresh_s"], on["start_cpu_s"] / cores
        limits.append((name, [1e3 * v for v in physical]))
    table(
        "what a growth costs, ms; background: not computing, then all that was lost",
        ["plain", "restart", "expand", "not computing", "lost"], lost, 1,
    )  # fmt: skip
    table(
        "the same in parts of plain, and of restart",
        ["expand/plain", "not comp./plain", "lost/plain", "expand/rest.", "not comp./rest.",
         "lost/rest."], ratios, 3,
    )  # fmt: skip
    table(
        "where it goes in the background, ms; turns computed meanwhile",
        ["begin", "start to ready", "accept, merge", "data", "turns"], goes, 1,
    )  # fmt: skip
    table("where a restart goes, ms", ["write", "sync", "stop", "start", "read"], restart, 1)
    table(
        f"physical limits, ms: copying the shares, starting the ranks on {cores} cores",
        ["copy, warm", "copy, fresh", "start"], limits, 1,
    )  # fmt: skip


def whole_numbers(text: str) -> list[int]:
    """The numbers of a comma-separated list."""
    return [int(word) for word in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--sizes", type=whole_numbers, default=[1, 2, 4])
    parser.add_argument("--megabytes", dest="mb", type=whole_numbers, default=[0, 200])
    parser.add_argument("--folder", help="where checkpoints go (default: the temporary folder)")
    parser.add_argument("--quick", action="store_true", help="two repeats, 1 and 2 ranks")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.folder is not None and not Path(options.folder).is_dir():
        parser.error(f"--folder {options.folder}: no such folder")
    if options.quick:
        options.repeats, options.sizes = 2, [1, 2]
    found = medians(options)
    if options.json:
        rows = [{"size": n, "megabytes": mb, "seconds": by} for (n, mb), by in found.items()]
        print(json.dumps({"schema": 2, "growths": rows}))
    else:
        show(found)


if __name__ == "__main__":
    main()
