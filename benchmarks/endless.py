"""Two jobs that are resized all the time: does anything grow?

    python -m benchmarks.endless --minutes 10
    unshare -m sh -c "mount -t tmpfs tmpfs /dev/shm; mount -t tmpfs tmpfs /tmp; python -m ..."

A local cluster of this machine; every second both jobs are ordered to another size. Every so often
everything is counted that could grow: memory (proportional set size), descriptors and processes of
the server, the agent, the starters, the keepers and of the jobs' rank 0, and files in DQ_HOME,
/dev/shm and /tmp. MPI keeps memory of each rank that a rank has met, so a rank leaves once it has
met `--most` others ([scheduler.meetings], by default 25 times as many as here): few enough that
rank 0 changes in each third of ten minutes. What the last third of the time has more than the third
before it, as the largest of each, is said to grow if it is more than a twentieth and a little.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from dq_client.base import messages as m
from dq_client.base.connection import Connection
from dq_client.base.errors import DQError
from dq_client.base.home import Home
from dq_client.deploy import local
from harness.live import Live

PROGRAM = Path(__file__).with_name("_endless_app.py")
SIZES = (1, 2, 3, 4)
PAUSE_S = 1.0
KINDS = {"dq-server": "server", "dq-agent": "agent", "dq-supervisor": "supervisor",
         "dq-starter": "starters", "dq-keeper": "keepers"}  # fmt: skip
SLACK = {"MB": 2.0, "descriptors": 4, "processes": 2, "files": 10}


@dataclass
class Counts:
    """One look: what of whom -> how much."""

    at_s: float
    of: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))


def kind_of(words: list[str], pid: int, first: set[int]) -> str:
    """What a process of the cluster is; empty: a rank that comes and goes, or a command."""
    line = " ".join(words)
    if pid in first:
        return "ranks 0"
    for mark, kind in KINDS.items():
        if mark in line:
            return kind
    return ""


def look(home: Path, first: set[int], began_s: float) -> Counts:
    """Count everything once."""
    counts = Counts(time.monotonic() - began_s)
    for pid in local.leftovers(Home(home)):
        with contextlib.suppress(OSError, StopIteration):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            kind = kind_of(words, pid, first)
            if not kind:
                continue
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            kib = next(int(line.split()[1]) for line in rollup if line.startswith("Pss:"))
            counts.of[kind, "MB"] += kib / 1024
            counts.of[kind, "descriptors"] += len(list(Path(f"/proc/{pid}/fd").iterdir()))
            counts.of[kind, "processes"] += 1
    sizes = [path.stat().st_size for path in home.rglob("*") if path.is_file()]
    counts.of["DQ_HOME", "files"] = len(sizes)
    counts.of["DQ_HOME", "MB"] = sum(sizes) / 1e6
    for folder in ("/dev/shm", "/tmp"):
        counts.of[folder, "files"] = len(list(Path(folder).iterdir()))
    return counts


def run(live: Live, minutes: float, every_s: float, most: int) -> tuple[list[Counts], int]:
    """The looks, and how many resizes there were."""
    config = live.home.root / "config.toml"
    config.write_text(f"[scheduler.meetings]\nmost = {most}\n")
    live.up(max(SIZES), "--config", config)
    stop = live.home.root / "stop"
    for _ in range(2):
        live.dq("submit", "-n", "1", "--sizes", ",".join(map(str, SIZES)), "--",
                "python", PROGRAM, stop)  # fmt: skip
    line = Connection.to(live.home)
    until_s = time.monotonic() + 30
    while time.monotonic() < until_s and any(not ranks_0(live, job) for job in (1, 2)):
        time.sleep(0.1)
    began_s, looks = time.monotonic(), []
    next_s = began_s
    for number in itertools.count():
        now = time.monotonic()
        if now - began_s > 60 * minutes:
            break
        for job in (1, 2):
            with contextlib.suppress(DQError):  # the one before is not over
                line.call(m.Resize(job, SIZES[(number * (1 + job)) % len(SIZES)]))
        if now >= next_s:
            next_s = now + every_s
            looks.append(look(live.home.root, ranks_0(live, 1) | ranks_0(live, 2), began_s))
            note(looks[-1], minutes)
        time.sleep(PAUSE_S)
    resizes = sum(len(live.job(job)["sizes"]) - 1 for job in (1, 2))
    line.close()
    stop.touch()
    for job in (1, 2):
        assert live.wait_end(job)["state"] == "done", live.job(job)["reason"]
    live.clear()
    return looks, resizes


def ranks_0(live: Live, job: int) -> set[int]:
    """The process that is the job's rank 0, as the last that has said so."""
    said = live.dq("logs", job, code=None).split()
    return {int(said[-1])} if said else set()


def note(counts: Counts, minutes: float) -> None:
    if sys.stderr.isatty():
        print(f"\r{counts.at_s / 60:.1f} of {minutes:g} minutes", end="", file=sys.stderr)


def verdicts(looks: list[Counts]) -> list[tuple[str, str, float, float, bool]]:
    """Of whom, what, the largest in the second and the last third of the time, does it grow."""
    third = len(looks) // 3
    found = []
    for of, what in sorted({key for counts in looks for key in counts.of}):
        middle = max(c.of.get((of, what), 0) for c in looks[third : 2 * third])
        last = max(c.of.get((of, what), 0) for c in looks[2 * third :])
        found.append((of, what, middle, last, last > 1.05 * middle + SLACK[what]))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.endless", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--most", type=int, default=40, metavar="RANKS")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dq-endless-") as root:
        live = Live(Path(root))
        try:
            looks, resizes = run(live, options.minutes, max(1.0, options.minutes), options.most)
        finally:
            live.run("down", "--force")
    print(f"{resizes} resizes in {options.minutes:g} minutes; the largest of each third")
    grows = False
    for of, what, middle, last, more in verdicts(looks):
        grows |= more
        print(f"{of:12} {what:12} {middle:8.1f} {last:8.1f}{'  grows' * more}")
    print(json.dumps({"resizes": resizes, "grows": grows}))
    return int(grows)


if __name__ == "__main__":
    sys.exit(main())
