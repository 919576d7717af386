"""Resizes by restart, with real ranks: right under any MPI, and nothing is lost that fails.

Under MPICH, whose ranks could join, the configuration asks for it. `make test-mpi` runs this file
with other MPIs, where there is no other way (docs/mpi.md).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from harness.live import Job, Live
from harness.ordinary import PROGRAMS, Outcome, marked_lines, resized_runs
from harness.pages import put
from tests.pages.owners import of

pytestmark = [pytest.mark.live, pytest.mark.mpi]

PROGRAM = Path(__file__).with_name("protected.py")
VENDOR = """
import mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
print(MPI.get_vendor())
"""


def vendor() -> str:
    """The MPI that ranks will load, and its version; asked in a process of its own."""
    return subprocess.check_output([sys.executable, "-c", VENDOR], text=True)


@pytest.fixture
def restarting(live: Live, tmp_path: Path) -> Live:
    """A cluster that resizes only when told to, and jobs that end all ranks for it."""
    config, mpi = tmp_path / "config.toml", vendor()
    growth = "restart" if "'MPICH', (5" in mpi else "join"  # the others are found out
    config.write_text(f'[scheduler]\nresize = "none"\n[launch]\ngrowth = "{growth}"\n')
    if "Open MPI" in mpi:
        live.launcher = "mpiexec"
    live.up(4, "--config", config)
    return live


def arrived(size: int, job: Job) -> bool:
    """Whether a job runs on so many processors, and its new ranks have their data."""
    return bool(job["processors"] == size and job["state"] == "running" and job["remap_points"])


def walk(cluster: Live, job: int, *sizes: int) -> None:
    """Bring a running job to each size in turn."""
    for size in sizes:
        before = cluster.wait(job, lambda j: j["remap_points"] > 0)["remap_points"]
        cluster.dq("resize", job, size)
        cluster.wait(job, partial(arrived, size))
        cluster.wait(job, lambda j, before=before: j["remap_points"] > before + 1)  # type: ignore[misc]


def test_a_product_is_right_after_growing_and_shrinking(restarting: Live, tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    job = restarting.submit("-n", 1, "--sizes", "1,2,4", "--", "python", "-m", "tests.live.growing",
                            "--iterations", 100_000, "--seconds", 0.1, "--stop", stop)  # fmt: skip
    walk(restarting, job, 2, 4, 2)
    stop.touch()
    end = restarting.wait_end(job)
    assert end["state"] == "done", restarting.dq("logs", job, "--err")
    assert [s["processors"] for s in end["sizes"]] == [1, 2, 4, 2]
    assert end["resizes_by_restart"]
    found = json.loads(restarting.dq("logs", job))
    assert found["ok"]
    assert found["processors"] == 2


def test_what_fails_in_the_middle_loses_nothing(restarting: Live, tmp_path: Path) -> None:
    """Data of every kind; ranks that fail on the new size; a program that was edited."""
    program = tmp_path / "program.py"
    shutil.copy(PROGRAM, program)
    job = restarting.submit("-n", 1, "--sizes", "1,2,4", "--", "python", program,
                            "--turns", 160, "--fail-on", 4)  # fmt: skip
    restarting.wait(job, lambda j: j["remap_points"] > 0)
    program.write_text(PROGRAM.read_text() + "# edited\n")
    restarting.dq("resize", job, 2)
    restarting.wait(job, lambda _: "program.py was changed" in restarting.dq("why", job))
    shutil.copy(PROGRAM, program)
    walk(restarting, job, 2)
    restarting.dq("resize", job, 4)
    end = restarting.wait_end(job)
    assert end["state"] == "done", restarting.dq("logs", job, "--err")
    assert "its resize failed" in restarting.dq("why", job)
    assert (end["processors"], end["restarts"]) == (2, 0)
    assert "data right" in restarting.dq("logs", job)
    assert not list(restarting.home.job(job).glob("copies/*/part-*"))


ALIKE = [
    "counter", "history_list", "numpy_random", "enumerate_loop", "epochs", "halo_last",
    "shuffled_sequence", "rotated_sequence",
]  # fmt: skip
ON_ROOT = ["results_on_root", "curve_on_root", "best_on_root", "patience_on_root", "log_kept_open"]
OWN = ["rank_zero_history", "own_random"]
RESTARTS = 5  # of each; growth and shrink


@pytest.fixture
def own_ranks() -> None:
    """Skips under an MPI whose ranks only its own launcher starts."""
    if "Open MPI" in vendor():
        pytest.skip("DQ starts no ranks of Open MPI")


@pytest.mark.usefixtures("own_ranks")
def test_ordinary_variables_are_right_after_restarts() -> None:
    """Those that all ranks have alike, and those that rank 0 has for itself."""
    chosen = [PROGRAMS / "right" / f"{name}.py" for name in ALIKE + ON_ROOT]
    chosen += [PROGRAMS / "scratch" / f"{name}.py" for name in OWN]
    runs = list(resized_runs(chosen, resizes=RESTARTS, ranks=2, growth="restart"))
    assert not [run.line for run in runs if run.outcome is not Outcome.RIGHT]
    assert all(len(run.sizes) == RESTARTS + 1 for run in runs)


REFUSED = ["rank_sums", "generator_loader", "sorted_around", "batches_of_rank"]


@pytest.mark.usefixtures("own_ranks")
def test_a_restart_that_would_lose_something_is_refused() -> None:
    chosen = [PROGRAMS / "refused" / f"{name}.py" for name in REFUSED]
    for run in resized_runs(chosen, ranks=2, growth="restart"):
        assert run.outcome is Outcome.REFUSED, run.line
        assert any(place in text for place in marked_lines(run.program) for text in run.messages)


def test_the_page_on_mpis_does_what_it_says(live: Live, tmp_path: Path) -> None:
    """docs/mpi.md, its first block; under the MPI that it installs."""
    if "Intel" not in vendor():
        pytest.skip("make test-mpi runs it under Intel MPI")
    (block,) = of("other-mpi")
    script = "set -e\n" + put(block.commands(), {"dq submit": "dq submit --wait"})
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path, env=live.env, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (job,) = json.loads(live.dq("jobs", "--all", "--json"))["jobs"]
    assert job["state"] == "done"
    assert '"ok": true' in live.dq("logs", job["id"])
