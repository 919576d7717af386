"""MPI.COMM_WORLD is the job's communicator in every rank, by any name that a program has for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.live import Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]

PROGRAM = Path(__file__).with_name("following.py")
NAMES = ["module's name", "early local", "later local", "attribute", "mpi4py's name", "handle"]
# Ranks that are executed import mpi4py before DQ can see it.
RUNS = [(name, ()) for name in NAMES] + [(name, ("--exec",)) for name in NAMES[:3]]
SIZES = (3, 2, 3)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Live, list[int]]]:
    """One of each, all at once, held on each size in turn."""
    folder = tmp_path_factory.mktemp("dq")
    live, stop = Live(folder / "home"), folder / "stop"
    live.up(3 * len(RUNS))
    words = [(*options, "--", sys.executable, PROGRAM, name, stop) for name, options in RUNS]
    found = [live.submit("--sizes", "1,2,3", *argv) for argv in words]
    for job in found:
        live.wait(job, lambda view: view["state"] == "running" and view["remap_points"] > 0)
    for size in SIZES:
        for job in found:
            live.dq("resize", job, size, "--hold")
        for job in found:
            live.wait(job, lambda view: view["processors"] == size, 120.0)  # noqa: B023
    stop.touch()
    yield live, found
    live.clear()


@pytest.mark.parametrize("number", range(len(RUNS)), ids=[" ".join([n, *o]) for n, o in RUNS])
def test_a_sum_over_it_is_right_on_every_size(jobs: tuple[Live, list[int]], number: int) -> None:
    live, found = jobs
    job = live.wait_end(found[number])
    assert job["state"] == "done", job["reason"]
    _, right, _, made = live.dq("logs", found[number]).split()
    assert right == made
    assert int(made) > 0
