"""A resize by a recipe beside the code's own restart by hand: what the program loses.

    python -m benchmarks.restarts [--codes lammps,gromacs] [--resizes 6] [--json]

Each code goes 1 -> 2 -> 1 ... processors of this machine, in turn under DQ and by hand. By hand,
at its best: as soon as one wants to, the same stop, the same command on the other size once the
program has ended, with nothing verified and nothing copied; files that another number of processes
cannot read are removed. Both are timed from the wish, for DQ the server's decision, to the first
iteration beyond the checkpoint. Medians, in seconds.

`make test-recipes` installs the codes; those that are missing are left out.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from dq_client.base import messages as m
from dq_client.base.connection import Connection
from dq_client.base.launch import ONE_THREAD
from dq_client.base.recipes.command import StartFacts, start_of
from dq_client.base.recipes.recipe import read as recipe_of
from dq_client.node.mpiexec.command import find_mpiexec
from harness.commands import CommandLine
from harness.live import asked
from harness.output import table
from harness.recipe_inputs import hydrogen, melt, water
from resize_lib.recipes.running import Running

ENDLESS = 10**8  # steps
BETWEEN_S = 2.0  # that it computes between two resizes
LIMIT_S = 120.0
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # in containers


def lammps(lmp: str, folder: Path) -> list[str]:
    """The command, with its input in the folder."""
    melt(folder, cells=10, steps=ENDLESS, dump=10_000)
    return [lmp, "-in", "in.melt"]


def gromacs(gmx: str, folder: Path) -> list[str]:
    """The command, with its input in the folder."""
    water(folder, gmx, steps=ENDLESS)
    return [gmx, "mdrun", "-deffnm", "md", "-pin", "off"]


def espresso(pw: str, folder: Path) -> list[str]:
    """The command, with its input in the folder: it never converges."""
    ld1 = str(Path(pw).with_name("ld1.x"))
    electrons = f"conv_thr = 1e-30\n  electron_maxstep = {ENDLESS}"
    hydrogen(folder, ld1, "calculation = 'scf'", electrons)
    return [pw, "-in", "h2.in"]


CODES: dict[str, tuple[str, Callable[[str, Path], list[str]]]] = {
    "lammps": ("lmp", lammps),
    "gromacs": ("gmx", gromacs),
    "quantum-espresso": ("pw.x", espresso),
}


# --- by hand -------------------------------------------------------------------------------------


def by_hand(name: str, argv: Sequence[str], cwd: Path, resizes: int) -> list[float]:
    """Seconds of each resize; the program's output goes to this process's own."""
    running, took = _started(name, argv, cwd, 1, 0), list[float]()
    try:
        for number in range(1, resizes + 1):
            _compute(running, beyond=0)
            until_s = time.monotonic() + BETWEEN_S
            while time.monotonic() < until_s:
                running.look()
            began_s = time.monotonic()
            running.ask_to_stop()
            while running.ended() is None:
                running.look()
            # A recipe that counts lines counts those of each start.
            step = 0 if recipe_of(name).progress.counts else running.counter.last or 0
            running.clean()
            for pattern in recipe_of(name).checkpoint.without:
                for path in cwd.rglob(pattern):
                    path.unlink()
            running = _started(name, argv, cwd, 1 + number % 2, number)
            _compute(running, beyond=step)
            took.append(time.monotonic() - began_s)
    finally:
        running.kill()
    return took


def _started(name: str, argv: Sequence[str], cwd: Path, ranks: int, number: int) -> Running:
    recipe = recipe_of(name)
    facts = StartFacts(job=1, start=number + 1, ranks=ranks)
    start = start_of(recipe, argv, cwd, facts, goes_on=number > 0)
    for path, text in start.files.items():
        path.write_text(text)
    if recipe.by_ranks:
        start = replace(start, words=[find_mpiexec(), "-n", str(ranks), *start.words])
    return Running(recipe, start, cwd, goes_on=number > 0)


def _compute(running: Running, beyond: int) -> None:
    deadline = time.monotonic() + LIMIT_S
    while (running.counter.last or 0) <= beyond:
        running.look()
        if running.ended() is not None or time.monotonic() > deadline:
            raise RuntimeError("the program has ended, or makes no progress")


# --- under DQ ------------------------------------------------------------------------------------


def under_dq(
    dq: CommandLine, line: Connection, name: str, argv: Sequence[str], cwd: Path, resizes: int
) -> list[float]:
    """The same, as the server has measured them."""
    words = ["-n", 1, "--sizes", "1,2", "--chdir", cwd, "--recipe", name]
    job = dq.submit(*words, *(f"--env={k}={v}" for k, v in AS_ROOT.items()), "--", *argv)
    for number in range(1, resizes + 1):
        _wait(line, job, 2 - number % 2, number)
        time.sleep(BETWEEN_S)
        line.call(m.Resize(job, 1 + number % 2), 10)
    stays = _wait(line, job, 1 + resizes % 2, resizes + 1)["sizes"]
    dq.dq("kill", job)
    return [stay["redistribution_time_s"] for stay in stays[1:]]


def _wait(line: Connection, job: int, size: int, stays: int) -> dict[str, Any]:
    deadline = time.monotonic() + LIMIT_S
    while True:
        row = asked(line, job)
        there = (row["processors"], row["state"], len(row["sizes"])) == (size, "running", stays)
        if there and row["sizes"][-1]["iterations"] > 0:
            return row
        if row["end_s"] is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{row['state']}: {row['reason']}")
        time.sleep(0.2)


def measure(codes: Sequence[str], resizes: int) -> list[dict[str, Any]]:
    """A row for each code."""
    folder = Path(tempfile.mkdtemp(prefix="dq-restarts-"))
    dq, rows = CommandLine(folder / "home"), []
    (folder / "config.toml").write_text('[scheduler]\nresize = "none"\n')
    try:
        dq.dq("up", "--local", 2, "--detach", "--config", folder / "config.toml")
        for name in codes:
            program, command = CODES[name]
            where = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            path = shutil.which(program, path=where)
            if path is None:
                print(f"{name}: no {program} here: make test-recipes", file=sys.stderr)
                continue
            took: dict[str, list[float]] = {}
            for way in ("dq", "hand"):
                cwd = folder / f"{name}-{way}"
                cwd.mkdir()
                argv = command(path, cwd)
                if way == "dq":
                    with contextlib.closing(Connection.to(dq.home)) as line:
                        took[way] = under_dq(dq, line, name, argv, cwd, resizes)
                    continue
                hand = [sys.executable, "-m", "benchmarks.restarts", "--hand", name, "--resizes",
                        str(resizes), *argv]  # fmt: skip
                env = {**os.environ, **ONE_THREAD, **AS_ROOT, "DQ_FIGURES": str(cwd / "figures")}
                subprocess.run(hand, env=env, check=True, stdout=subprocess.DEVNULL)
                took[way] = json.loads((cwd / "figures").read_text())
            rows.append({"code": name, **took})
    finally:
        dq.run("down", "--force")
        shutil.rmtree(folder, ignore_errors=True)
    return rows


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--codes", default=",".join(CODES))
    parser.add_argument("--resizes", type=int, default=6)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--hand", help=argparse.SUPPRESS)  # a code: run by hand what follows
    parser.add_argument("argv", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.hand:
        figures = Path(os.environ["DQ_FIGURES"])
        took = by_hand(options.hand, options.argv, figures.parent, options.resizes)
        figures.write_text(json.dumps(took))
        return 0
    rows = measure(options.codes.split(","), options.resizes)
    if options.json:
        print(json.dumps({"schema": 1, "rows": rows}))
        return 0
    head = ("code", "resizes", "by DQ s", "by hand s", "ratio")
    print(table(head, [
        (row["code"], str(len(row["dq"])), f"{median(row['dq']):.2f}", f"{median(row['hand']):.2f}",
         f"{median(row['dq']) / median(row['hand']):.2f}")
        for row in rows
    ]))  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
