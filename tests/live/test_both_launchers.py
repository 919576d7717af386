"""The life of a job under DQ's own launcher and under mpiexec: start, output, codes, end, kill.

More of what holds under both: test_evolving, test_faults, test_lost_rank, test_protect,
test_resizes.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from dq_client.node import local_agents
from harness.bench import until
from harness.live import LAUNCHERS, Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]

PLAIN = """
import os, sys, time
from mpi4py import MPI
world = MPI.COMM_WORLD
how, rank = sys.argv[1], world.rank
print(f"rank {rank} of {world.size} in {os.getcwd()} with {os.environ['VALUE']}", flush=True)
print(f"error {rank}", file=sys.stderr, flush=True)
world.Barrier()
if how == "code":
    MPI.Finalize()
    sys.exit(3 if rank == 1 else 0)
if how == "abort" and rank == 1:
    world.Abort(7)
if how == "stay":
    time.sleep(600)
world.Barrier()
"""


@pytest.fixture(scope="module", params=LAUNCHERS)
def up(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Live]:
    live = Live(tmp_path_factory.mktemp("dq") / "home", request.param)
    live.up(4)
    yield live
    live.clear()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "plain.py"
    path.write_text(PLAIN)
    return path


def submit(live: Live, program: Path, how: str) -> int:
    words = ["-n", 3, "--kind", "rigid", "--env", "VALUE=here it is"]
    return live.submit(*words, "--", sys.executable, program, how)


def state(live: Live, job: int) -> str:
    until(lambda: live.job(job)["end_s"] is not None, "the job never ends", 90)
    return str(live.job(job)["state"])


def test_a_job_starts_writes_and_ends_well(up: Live, program: Path) -> None:
    job = submit(up, program, "well")
    assert state(up, job) == "done"
    assert up.job(job)["exit_code"] == 0
    text = up.dq("logs", job)
    for rank in range(3):
        assert text.count(f"rank {rank} of 3 in {Path.cwd()} with here it is") == 1
    if up.launcher == "dq":  # mpiexec tears lines
        assert len(text.splitlines()) == 3
    errors = up.dq("logs", job, "--err")
    assert all(f"error {rank}" in errors for rank in range(3))


@pytest.mark.parametrize(("how", "code"), [("code", 3), ("abort", 7)])
def test_a_job_that_fails_has_its_code(up: Live, program: Path, how: str, code: int) -> None:
    job = submit(up, program, how)
    assert state(up, job) == "failed"
    assert up.job(job)["exit_code"] == code


def ranks(program: Path) -> list[int]:
    """Processes that run the program."""
    found = []
    for process in psutil.process_iter():
        try:
            # The command line of a forked rank is one text.
            words = " ".join(process.cmdline()).split()
        except psutil.Error:
            continue
        if str(program) in words[1:2]:
            found.append(process.pid)
    return found


def begun(live: Live, job: int) -> None:
    until(lambda: live.dq("logs", job).count("rank ") == 3, "it does not begin")


def test_a_job_that_is_killed_ends_everywhere(up: Live, program: Path) -> None:
    job = submit(up, program, "stay")
    begun(up, job)
    assert len(ranks(program)) == 3
    up.dq("kill", job)
    assert state(up, job) == "killed"
    until(lambda: not ranks(program), "ranks are left")


def test_a_job_outlives_its_agent(up: Live, program: Path) -> None:
    job = submit(up, program, "stay")
    begun(up, job)
    before = ranks(program)
    killed = local_agents.running_agents(up.home)["local"]["pid"]
    os.kill(int(killed), signal.SIGKILL)
    another = {"pid": killed}
    until(
        lambda: local_agents.running_agents(up.home).get("local", another)["pid"] != killed,
        "no other agent is started",
    )
    assert ranks(program) == before
    up.dq("kill", job)
    assert state(up, job) == "killed"
    until(lambda: not ranks(program), "ranks are left")
