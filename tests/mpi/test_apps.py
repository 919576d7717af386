"""The sample applications as plain MPI programs: right at every size, without a server."""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dq_client.node.mpiexec.command import find_mpiexec
from harness.commands import HANG_S

pytestmark = pytest.mark.mpi

ROOT = Path(__file__).parents[2]


def mpiexec(ranks: int, *words: object) -> subprocess.CompletedProcess[str]:
    env = {
        **{k: v for k, v in os.environ.items() if not k.startswith("DQ_")},
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "UCX_LOG_LEVEL": "error",
    }
    return subprocess.run(
        [find_mpiexec(), "-n", str(ranks), sys.executable, *map(str, words)],
        cwd=ROOT, env=env, capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("ranks", [1, 2, 6])
@pytest.mark.parametrize("app", ["matmul", "lu"])
def test_an_application_verifies_its_own_result(app: str, ranks: int) -> None:
    done = mpiexec(
        ranks, "-m", f"apps.{app}", "--n", 211, "--block", 16, "--iterations", 2, "--check"
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["check"], found["ok"], found["processors"]) == (app, True, ranks)
    assert found["error"] < 1e-12


@pytest.mark.parametrize("app", ["matmul", "lu"])
@pytest.mark.parametrize("words", [("--n", 0), ("--iterations", "x")])
def test_senseless_arguments_are_refused(app: str, words: tuple[str, object]) -> None:
    done = mpiexec(1, "-m", f"apps.{app}", *words)
    assert done.returncode == 2
    assert words[0] in done.stderr


def test_jacobi_gives_the_same_digits_resizable_or_plain_at_every_size() -> None:
    outputs = {
        mpiexec(ranks, f"{folder}/jacobi.py", 97, 20).stdout
        for folder in ("apps", "docs/examples/plain")
        for ranks in (1, 2, 4)
    }
    assert len(outputs) == 1
    assert outputs.pop().startswith("change 0.0")


def test_a_plain_program_becomes_resizable_with_at_most_five_added_lines() -> None:
    plain = (ROOT / "docs/examples/plain/jacobi.py").read_text().splitlines()
    resizable = (ROOT / "apps/jacobi.py").read_text().splitlines()
    added = [
        line
        for line in difflib.unified_diff(plain, resizable, lineterm="")
        if line.startswith("+") and not line.startswith("+++")
    ]
    assert 1 <= len(added) <= 5, added
    assert "+import resize_lib" in added


def test_a_session_opened_after_its_module_was_imported() -> None:
    """Importing the module behind `resize_lib.session` must not hide the function."""
    code = (
        "import resize_lib, resize_lib.jobsession\n"
        "from mpi4py import MPI\n"
        "with resize_lib.session() as rs: size = rs.size\n"
        "# One rank prints: mpiexec may cut the lines of several ranks into each other.\n"
        "found = MPI.COMM_WORLD.gather((size, callable(resize_lib.session)))\n"
        "if MPI.COMM_WORLD.rank == 0: print(found)\n"
    )
    done = mpiexec(2, "-c", code)
    assert done.stdout.strip() == "[(2, True), (2, True)]", done.stderr


@pytest.mark.parametrize(
    ("app", "ranks", "words"),
    [("stencil3d", (1, 3, 8), (9, 12)), ("lattice", (1, 2, 6), (14, 10))],
)
def test_cartesian_apps_equal_their_plain_versions_bit_by_bit(
    app: str, ranks: tuple[int, ...], words: tuple[int, int]
) -> None:
    done = [mpiexec(n, f"apps/{app}.py", *words) for n in ranks]
    done += [mpiexec(n, f"docs/examples/plain/{app}.py", *words) for n in (1, 4)]
    assert {(d.returncode, d.stdout.startswith("field "), d.stdout) for d in done} == {
        (0, True, done[0].stdout)
    }, [d.stderr for d in done]
