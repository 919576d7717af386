"""benchmarks.linalg_node on a small scale: every row is checked, and says what was compared."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import linalg_node

pytestmark = pytest.mark.mpi
ROOT = Path(__file__).parents[2]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.linalg_node", *words]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )


def test_our_kernels_are_measured_beside_numpys_and_scipys() -> None:
    few = ["--n", "33,60", "--types", "float64,complex64", "--nb", "16", "--repeats", "2"]
    ended = run(*few, "--grids", "1x1,2x1", "--threads", "2", "--json")
    assert ended.returncode == 0, ended.stderr
    rows = json.loads(ended.stdout)["rows"]
    shown = [(row["kernel"], row["type"], tuple(row["grid"]), row["n"]) for row in rows]
    assert sorted(shown) == sorted(
        (kernel, kind, grid, n)
        for kernel in ("matmul", "lu")
        for kind in ("float64", "complex64")
        for grid in ((1, 1), (2, 1))
        for n in (33, 60)
    )
    for row in rows:
        assert 0 < row["residual"] < 16
        assert min(row["ours_s"], row["peer_s"], row["ratio"], row["cpu_ratio"]) > 0
    assert len(linalg_node.table(rows).splitlines()) == 1 + len(rows)


def test_medians_and_ratios_are_of_the_same_rounds() -> None:
    measured = {
        "ours_s": [(1.0, 2.0), (2.0, 3.0), (4.0, 4.0)],
        "peer_s": [(2.0, 2.0), (2.0, 6.0), (2.0, 8.0)],
        "kernel": "lu",
        "type": "float64",
        "grid": [1, 2],
        "n": 9,
        "threads": 2,
        "residual": 1.0,
    }
    found = linalg_node.summary(measured)
    assert (found["ours_s"], found["peer_s"]) == (2.0, 2.0)
    assert (found["ratio"], found["best_ratio"], found["cpu_ratio"]) == (1.0, 2.0, 2.0)


def test_a_type_that_blas_has_not_is_one_clear_error() -> None:
    ended = run("--types", "float64,int8")
    assert ended.returncode == 2
    assert "'int8' is none of float64, float32, complex128, complex64" in ended.stderr
