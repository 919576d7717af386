"""Ranks that join a job find loaded what the job's ranks have imported, where that is safe."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.live import Live

PROGRAM = """
import os, time
import package
import resize_lib
print("imported by", "itself" if package.PID == os.getpid() else "its keeper", flush=True)
rs = resize_lib.session()
for _ in rs.iterations(100_000):
    time.sleep(0.01)
"""
ITSELF, KEEPER = "imported by itself", "imported by its keeper"
GROWTHS = 20  # the keeper imports while the job computes: at one of them it has


def grown(cluster: Live, folder: Path, package: str, growths: int) -> list[str]:
    """What the ranks print of a job that grows so often, or until one finds its package loaded."""
    site = folder / "site-packages"
    site.mkdir()
    (site / "package.py").write_text(f"import os\nPID = os.getpid()\n{package}\n")
    program = folder / "program.py"
    program.write_text(PROGRAM)
    options = ("--sizes", "1,2", "--env", f"PYTHONPATH={site}", "--env", "DQ_REPORT_INTERVAL=0")
    job = cluster.submit(*options, "--", "python", program)
    for _ in range(growths):
        for size in (2, 1):
            cluster.wait(job, lambda view: view["state"] == "running")
            cluster.dq("resize", job, size)
            cluster.wait(job, lambda view, size=size: view["sizes"][-1]["processors"] == size)  # type: ignore[misc]
        lines = cluster.dq("logs", job).splitlines()
        if KEEPER in lines:
            break
    return lines


def test_they_are_forked_with_it(ordered: Live, tmp_path: Path) -> None:
    first, second, *_, last = grown(ordered, tmp_path, "", GROWTHS)
    assert (first, second, last) == (ITSELF, ITSELF, KEEPER)


@pytest.mark.parametrize(
    "package",
    [
        "from mpi4py import MPI",
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()",
        "os.environ['PACKAGE'] = str(PID)",
    ],
)
def test_they_import_for_themselves_what_cannot_be_forked(
    ordered: Live, tmp_path: Path, package: str
) -> None:
    assert set(grown(ordered, tmp_path, package, 3)) == {ITSELF}
