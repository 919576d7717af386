"""Nothing is imported while others wait: an import takes longer than all else in a resize."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.commands import ROOT
from harness.ranks import OWN, Recipe, run_job

PROGRAM = str(Path(__file__).with_name("programs") / "late_imports.py")
# Not for ranks of keepers, or a program of its own.
NOT_FOR_RANKS = (
    "resize_lib.attach",  # and the next: for ranks that mpiexec has started
    "resize_lib.c.",  # for programs in C, which are executed
    "resize_lib.processes.attached",
    "resize_lib.processes.hydra",
    "resize_lib.processes.probe",
    "resize_lib.emulation.probe",
    "resize_lib.recording",  # for `dq verify`
    "resize_lib.recipes",  # for programs that link no library
)


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("recipe", "path"),
    [(OWN, "begun"), (OWN, "patient")],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_joining_rank_imports_nothing_once_the_job_waits_for_it(recipe: Recipe, path: str) -> None:
    ended = run_job(recipe, 2, [PROGRAM, path, *recipe.hosts])
    assert ended.code == 0, ended.err
    told = [json.loads(line) for line in ended.out.splitlines()]
    assert [t["late"] for t in told if "late" in t] == [[], [], []]


def test_preload_imports_all_that_a_rank_may_need_without_starting_mpi() -> None:
    code = """
import sys, mpi4py
mpi4py.rc.initialize = False
import resize_lib
resize_lib.preload()
from mpi4py import MPI
assert not MPI.Is_initialized()
print(*sorted(name for name in sys.modules))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    files = (ROOT / "resize_lib").rglob("*.py")
    modules = {".".join(f.relative_to(ROOT).with_suffix("").parts) for f in files}
    needed = {
        name.removesuffix(".__init__") for name in modules if not name.startswith(NOT_FOR_RANKS)
    }
    assert needed - set(done.stdout.split()) == set()
