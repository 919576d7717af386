"""How long a protected job stands still when one of its ranks dies.

    python -m benchmarks.losses [--deaths 200] [--seed 1] [--quick] [--json]

A real cluster on this machine; job after job of four ranks with `--protect partner`, in each of
which one rank dies once: by SIGKILL, by SIGSEGV, by os._exit or, for root, because memory runs out
(in a control group of its own); while it computes, in the middle of a copy, of a redistribution, or
of a collective call of the program. Every job has to end with the data of an undisturbed one, and
none may begin again from its first turn.

``in place``: the survivors went on in the same processes. ``re-forked``: all ranks were ended and
forked anew from the starters. The time is from the death to the first turn that began after it.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

from benchmarks import _out_of_memory
from dq_client.base import messages as m
from dq_client.base.connection import Connection
from harness.commands import CommandLine
from harness.live import ENDED, asked

RANKS, TURNS, LIMIT_S = 4, 60, 60.0
WHERE = ("compute", "copy", "move", "own")
HOW = ("kill", "segv", "exit", "oom")
Death = tuple[int, int, str, str]  # rank, turn, where, how
Result = tuple[str, float]  # in place or re-forked; seconds


class Cluster:
    """Four processors on this machine."""

    def __init__(self, root: Path) -> None:
        self.group = _out_of_memory.make()
        config = root / "config.toml"
        config.write_text('[scheduler]\nresize = "none"\n')
        (root / "home").mkdir(mode=0o700)
        self.dq = CommandLine(root / "home")
        self.dq.dq("up", "--local", RANKS, "--detach", "--config", config)
        self.line: Connection = Connection.to(self.dq.home)

    def run(self, death: Death) -> tuple[Path, int]:
        """One job; the folder that it wrote to, and how often it was restarted."""
        folder = Path(tempfile.mkdtemp(prefix="dq-losses-"))
        words = ["-n", RANKS, "--sizes", "1,2,3,4", "--protect", "partner", "--protect-every", "5"]
        group = [self.group] if death[3] == "oom" else []
        program = ["-m", "benchmarks._losses_app", folder, TURNS, *death, *group]
        job = self.dq.submit(*words, "--", sys.executable, *program)
        if death[2] == "move":
            while not (folder / "turns").exists():
                time.sleep(0.01)
            self.line.call(m.Resize(job, 3), 10)
        until = time.monotonic() + LIMIT_S
        while (view := asked(self.line, job))["state"] not in ENDED:
            if time.monotonic() > until:
                raise RuntimeError(f"{death}: job {job} does not end: {view['state']}")
            time.sleep(0.02)
        if view["state"] != "done":
            raise RuntimeError(f"{death}: job {job} {view['state']}: {view['reason']}")
        return folder, int(view["restarts"])

    def close(self) -> None:
        """Bring it down."""
        self.line.close()
        self.dq.run("down", "--force")
        if self.group is not None:
            self.group.rmdir()


def judge(death: Death, folder: Path, restarts: int, right: str) -> Result | None:
    """How it went on; None if nobody died. RuntimeError if the result is wrong."""
    if (folder / "sum").read_text() != right:
        raise RuntimeError(f"{death}: {(folder / 'sum').read_text()} instead of {right}")
    died = folder / "died"
    if not died.exists():
        return None
    at_s = float(died.read_text())
    turns = [line.split() for line in (folder / "turns").read_text().splitlines()]
    before = [t for t in turns if float(t[0]) <= at_s]
    after = [t for t in turns if float(t[0]) > at_s]
    if int(after[0][1]) == 0 and int(before[-1][1]) > 5:
        raise RuntimeError(f"{death}: it began again from its first turn")
    return ("re-forked" if restarts else "in place"), float(after[0][0]) - at_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--deaths", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="12 deaths")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rng, results, nobody = random.Random(options.seed), defaultdict(list), 0
    ways: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory(prefix="dq-losses-") as root:
        cluster = Cluster(Path(root))
        try:
            undisturbed, _ = cluster.run((0, 0, "compute", "none"))
            right = (undisturbed / "sum").read_text()
            how = HOW if cluster.group is not None else HOW[:-1]
            for k in range(12 if options.quick else options.deaths):
                death = (
                    rng.randrange(RANKS),
                    rng.randrange(6, TURNS - 5),
                    WHERE[k % 4],
                    rng.choice(how),
                )
                folder, restarts = cluster.run(death)
                found = judge(death, folder, restarts, right)
                shutil.rmtree(folder)
                if found is None:
                    nobody += 1
                    continue
                results[found[0]].append(found[1])
                ways[found[0], f"in {death[2]}"] += 1
                ways["died by", death[3]] += 1
                if sys.stderr.isatty() or k % 20 == 19:
                    print(f"{k + 1} deaths, all right", file=sys.stderr)
            shutil.rmtree(undisturbed)
        finally:
            cluster.close()
    show(results, ways, nobody, as_json=options.json)


def show(
    results: dict[str, list[float]], ways: Counter[tuple[str, str]], nobody: int, *, as_json: bool
) -> None:
    """Medians and spread, in place and re-forked apart."""
    every = sorted(t for times in results.values() for t in times)
    if as_json:
        print(json.dumps({"schema": 1, "seconds": results, "nobody_died": nobody}))
        return
    print(f"{len(every)} deaths, every result right; in {nobody} jobs nobody died in time")
    for name, times in [*sorted(results.items()), ("all", every)]:
        ordered = sorted(times)
        print(
            f"{name:10} {len(ordered):4}   death to next turn, ms: median"
            f" {1e3 * statistics.median(ordered):6.0f},"
            f" 90 % {1e3 * ordered[int(0.9 * len(ordered))]:6.0f}, most {1e3 * ordered[-1]:6.0f}"
        )
    for (name, where), count in sorted(ways.items()):
        print(f"   {name} {where}: {count}")


if __name__ == "__main__":
    main()
