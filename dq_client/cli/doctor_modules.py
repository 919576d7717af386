"""Modules that are installed and cannot be loaded, such as those compiled for another numpy."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from typing import Any

# What loads the compiled part. Debian's petsc4py was compiled for numpy 1 (docs/mpi.md).
MODULES = ("petsc4py.PETSc", "slepc4py.SLEPc", "h5py", "netCDF4", "scipy.linalg")
_LOAD = """
import importlib.util, sys
if importlib.util.find_spec(sys.argv[1].partition(".")[0]):
    __import__(sys.argv[1])
"""


def module_facts(limit_s: float) -> list[dict[str, Any]]:
    """A failed check for each of MODULES that is found and cannot be loaded; others have none.

    Each is loaded in a process of its own, which has `limit_s` seconds.
    """
    return [fact for name in MODULES if (fact := _loaded(name, limit_s)) is not None]


def _loaded(name: str, limit_s: float) -> dict[str, Any] | None:
    package = name.partition(".")[0]
    command = [sys.executable, "-P", "-c", _LOAD, name]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit_s, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        told, by_numpy = f"not loaded in {limit_s:g} s", False
    else:
        if done.returncode == 0:
            return None
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        told, by_numpy = lines[-1], "numpy" in done.stderr.lower()
    remedy = (
        f"it does not fit numpy {version('numpy')}: pip install 'numpy<2' in DQ's environment, or a"
        f" {package} for this numpy"
        if by_numpy
        else "install it again, or leave it out"
    )
    consequence = f"a program that imports {package} fails; {remedy}"
    return {"name": package, "ok": False, "detail": told, "consequence": consequence}
