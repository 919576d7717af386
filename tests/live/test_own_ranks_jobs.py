"""What jobs may be under DQ's own launcher, and what hostile or stubborn ones do to the others."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dq_client.base.home import Home
from dq_client.deploy import local
from dq_client.node import local_agents
from harness.bench import until
from harness.live import Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]

Script = Callable[[str], list[object]]
HERE = Path(__file__).parent
HOSTILE, SPAWNING, POOLS = HERE / "hostile.py", HERE / "spawning.py", HERE / "pools.py"
COMPILER = Path(sys.executable).with_name("mpicc")
C_PROGRAM = """
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int rank, size, number = -1;
    double one = 1, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && scanf("%d", &number) != 1) number = -1;
    printf("C rank %d of %d: %g, read %d\\n", rank, size, sum, number);
    MPI_Finalize();
    return argc > 1 ? 3 : 0;
}
"""
HELLO = """
import sys
import numpy as np
from mpi4py import MPI
world, total = MPI.COMM_WORLD, np.zeros(1)
world.Allreduce(np.ones(1), total)
print("hello", world.rank, world.size, int(total[0]), *sys.argv[1:])
"""
LINES = """
import sys
from mpi4py import MPI
for i in range(int(sys.argv[1])):
    sys.stdout.write(f"{MPI.COMM_WORLD.rank} {i:07} {'x' * 90}\\n")
"""
NEIGHBOUR = """
import sys, time
from pathlib import Path
from mpi4py import MPI
world = MPI.COMM_WORLD
while not world.bcast(Path(sys.argv[1]).exists() if world.rank == 0 else None):
    time.sleep(0.01)
"""
STUBBORN = """
import signal, time
from mpi4py import MPI
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("here", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A local cluster of four for all tests that need no other."""
    live = Live(tmp_path_factory.mktemp("dq") / "home")
    live.up(4)
    yield live
    live.clear()


@pytest.fixture(scope="module")
def c_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None or not COMPILER.exists():
        pytest.skip("no C compiler here")
    folder = tmp_path_factory.mktemp("c")
    (folder / "hello.c").write_text(C_PROGRAM)
    words = [str(COMPILER), "-o", str(folder / "hello"), str(folder / "hello.c")]
    subprocess.run(words, check=True, env={**os.environ, "MPICH_CC": "gcc"})
    return folder / "hello"


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """The words that run a program given as text."""

    def write(text: str) -> list[object]:
        path = tmp_path / f"script{len(list(tmp_path.iterdir()))}.py"
        path.write_text(text)
        return [sys.executable, path]

    return write


def ended(live: Live, job: int) -> tuple[str, list[str], str]:
    """How it ended, what it wrote, and what it wrote as errors."""
    until(lambda: live.job(job)["end_s"] is not None, "the job never ends", 90)
    out, err = live.dq("logs", job), live.dq("logs", job, "--err")
    return str(live.job(job)["state"]), out.splitlines(), err


def all_idle(live: Live) -> bool:
    return bool(json.loads(live.dq("server", "status", "--json"))["idle"] == 4)


def test_a_c_program_reads_its_input_and_gives_its_code(
    up: Live, c_program: Path, tmp_path: Path
) -> None:
    given = tmp_path / "input"
    given.write_text("42\n")
    job = up.submit("-n", 3, "--kind", "rigid", "--input", given, "--", c_program)
    state, lines, _ = ended(up, job)
    assert state == "done"
    read = {0: 42, 1: -1, 2: -1}
    assert sorted(lines) == [f"C rank {r} of 3: 3, read {read[r]}" for r in range(3)]
    job = up.submit("-n", 2, "--kind", "rigid", "--", c_program, "fail")
    assert ended(up, job)[0] == "failed"
    assert up.job(job)["exit_code"] == 3


def test_several_programs_are_one_world_with_labels(
    up: Live, c_program: Path, script: Script
) -> None:
    words = ["-n", 2, *script(HELLO), "x", ":", "-n", 1, c_program]
    state, lines, _ = ended(up, up.submit("--mpmd", "--label", "--", *words))
    assert state == "done"
    assert sorted(lines) == [
        "[0] hello 0 3 3 x", "[1] hello 1 3 3 x", "[2] C rank 2 of 3: 3, read -1",
    ]  # fmt: skip


def test_a_hundred_megabytes_of_output_arrive_whole(up: Live, script: Script) -> None:
    count, ranks = 500_000, 2
    job = up.submit("-n", ranks, "--kind", "rigid", "--", *script(LINES), count)
    assert up.wait_end(job)["state"] == "done"
    seen = [0] * ranks
    with (up.home.job(job) / "out").open() as out:
        for line in out:
            rank, number, rest = line.split()
            assert (int(number), rest) == (seen[int(rank)], "x" * 90), "torn, lost or out of order"
            seen[int(rank)] += 1
    assert seen == [count] * ranks


def test_a_program_that_spawns_gets_idle_processors(up: Live) -> None:
    job = up.submit("-n", 1, "--kind", "rigid", "--", sys.executable, SPAWNING, 2)
    state, lines, errors = ended(up, job)
    assert state == "done", errors
    assert sorted(lines) == ["child 1 of 3", "child 2 of 3", "parent of 2"]
    until(lambda: all_idle(up), "its processors do not come back")


def test_a_spawn_that_cannot_be_granted_is_refused_with_the_reason(up: Live) -> None:
    handles = ("--env", "DQ_SPAWN_REFUSED=return")
    job = up.submit("-n", 1, "--kind", "rigid", *handles, "--", sys.executable, SPAWNING, 4)
    state, lines, errors = ended(up, job)
    assert (state, up.job(job)["exit_code"]) == ("failed", 5)
    assert lines[0].startswith("refused: ")
    why = "dq: MPI_Comm_spawn by rank 0 is refused: 4 processors asked for, 3 idle"
    assert why in errors.splitlines()


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("rigid", "MPI_Comm_spawn by rank 0 is refused: 4 processors asked for, 3 idle"),
        ("malleable", "MPI_Comm_spawn by rank 0 is refused: a malleable job is resized by"),
    ],
)
def test_a_spawn_that_is_refused_fails_the_job_instead_of_hanging_it(
    up: Live, kind: str, why: str
) -> None:
    """The executor's thread has the exception; the program waits for results."""
    job = up.submit("-n", 1, "--kind", kind, "--", sys.executable, POOLS, 4)
    assert ended(up, job)[0] == "failed"
    assert why in up.job(job)["reason"]


def test_one_pool_after_another_gets_the_processors_of_the_one_before(up: Live) -> None:
    job = up.submit("-n", 1, "--kind", "rigid", "--", sys.executable, POOLS, 3)
    state, lines, errors = ended(up, job)
    assert state == "done", errors
    assert lines == ["[0, 1, 4, 9, 16]"] * 3


@pytest.mark.parametrize("where", ["PMI_FD", "DQ_LINK"])
def test_a_hostile_rank_ends_its_own_job_only(
    up: Live, where: str, tmp_path: Path, script: Script
) -> None:
    agent = local_agents.running_agents(up.home)["local"]["pid"]
    stop = tmp_path / "stop"
    neighbour = up.submit("-n", 2, "--kind", "rigid", "--", *script(NEIGHBOUR), stop)
    up.wait(neighbour, lambda j: j["state"] == "running")
    job = up.submit("-n", 2, "--kind", "rigid", "--", sys.executable, HOSTILE, where)
    assert ended(up, job)[0] == "failed"
    reason = up.job(job)["reason"]
    assert "sent what its process manager does not understand" in reason, reason
    assert local_agents.running_agents(up.home)["local"]["pid"] == agent
    assert up.job(neighbour)["state"] == "running"
    stop.touch()
    assert up.wait_end(neighbour)["state"] == "done"


def test_ranks_that_ignore_sigterm_are_killed(up: Live, script: Script) -> None:
    job = up.submit("-n", 2, "--kind", "rigid", "--", *script(STUBBORN))
    until(lambda: up.dq("logs", job).count("here") == 2, "they do not begin")
    up.dq("kill", job)
    until(lambda: up.job(job)["state"] == "killed", "they are not killed", 20)
    until(lambda: all_idle(up), "its processors do not come back")


def test_down_ends_what_a_killed_agent_has_left(live: Live, script: Script) -> None:
    live.up(2)
    job = live.submit("-n", 2, "--kind", "rigid", "--", *script(STUBBORN))
    until(lambda: live.dq("logs", job).count("here") == 2, "they do not begin")
    os.kill(int(local_agents.running_agents(live.home)["local"]["pid"]), signal.SIGKILL)
    time.sleep(0.2)
    live.dq("down", "--force")
    until(lambda: not local.leftovers(live.home), "processes are left", 5)


# --- what can be reached from outside -------------------------------------------------------------


def listeners(home: Home) -> list[str]:
    """Sockets on which processes of this home listen for connections."""
    pids = {f"pid={pid}," for pid in local.leftovers(home)}
    words = ["ss", "-Hltnp"]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in lines if any(pid in line for pid in pids)]


EMULATED = """
engine = "emulated"
[[nodes]]
names = "n[1-4]"
core_share = 0.1
[link]
rate_mbit = 1000
"""


@pytest.mark.parametrize("engine", ["local", "emulated"])
def test_nobody_listens_but_the_server(live: Live, tmp_path: Path, engine: str) -> None:
    if shutil.which("ss") is None:
        pytest.skip("the program ss is missing (package iproute2)")
    if engine == "local":
        live.up(4)
    else:
        (tmp_path / "four.toml").write_text(EMULATED)
        live.dq("up", "--cluster", tmp_path / "four.toml", "--detach")
    job = live.submit("-n", 2, "--sizes", "2,4", "--", sys.executable, "-m", "tests.live.growing",
                      "--iterations", 5000, "--seconds", 0.2,
                      "--stop", tmp_path / "stop")  # fmt: skip
    seen: set[str] = set()

    def grown() -> bool:
        seen.update(" ".join(line.split()[3:]) for line in listeners(live.home))
        view = live.job(job)
        assert view["state"] != "failed", view["reason"]
        return bool(view["processors"] == 4 and view["state"] == "running")

    until(grown, "it does not grow")
    for _ in range(5):
        grown()
    (tmp_path / "stop").touch()
    server = live.home.server()
    port = server["address"].rpartition(":")[2]
    assert len(seen) == 1, seen
    assert f":{port} " in next(iter(seen))
    assert f"pid={server['pid']}," in next(iter(seen))
    assert live.wait_end(job)["state"] == "done"
