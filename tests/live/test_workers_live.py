"""Jobs of workers with a real cluster: a computation goes on while workers come and leave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from harness.commands import HANG_S
from harness.live import Live

pytestmark = pytest.mark.live
CREWING = Path(__file__).with_name("crewing.py")
RANKS = "from mpi4py import MPI; import time; MPI.COMM_WORLD.barrier(); time.sleep({})"


@pytest.fixture
def cluster(borrowed: Live) -> Live:
    return borrowed


def workers(cluster: Live, sizes: str, *words: Any, options: tuple[str, ...] = ()) -> int:
    return cluster.submit("--kind", "workers", "--sizes", sizes, *options, "--", *words)


def has(size: int) -> Any:
    return lambda job: job["processors"] == size and job["state"] == "running"


def mpi_job(cluster: Live, ranks: int, seconds: float = 100) -> int:
    program = [sys.executable, "-c", RANKS.format(seconds)]
    return cluster.submit("-n", ranks, "--kind", "rigid", "--", *program)


def runs(cluster: Live, job: int) -> None:
    cluster.wait(job, lambda j: j["state"] == "running")


def tasks(folder: Path, numbers: range) -> None:
    for name in ("todo", "doing", "done"):
        (folder / name).mkdir(exist_ok=True)
    for n in numbers:
        (folder / "todo" / f"{n:04}").touch()


@pytest.mark.mpi
def test_a_computation_goes_on_while_its_workers_come_and_leave(
    cluster: Live, tmp_path: Path
) -> None:
    tasks(tmp_path, range(200))
    all_, one = mpi_job(cluster, 4), mpi_job(cluster, 1)
    runs(cluster, all_)
    # A worker that a busy machine keeps from putting its task back in time would take it along.
    job = workers(cluster, "0:4", sys.executable, CREWING, tmp_path, options=("--grace", "60s"))
    cluster.wait(job, has(0))
    assert not list((tmp_path / "done").iterdir())
    cluster.dq("kill", all_)
    cluster.wait(job, has(3))
    two = mpi_job(cluster, 2)
    cluster.wait(job, has(1))
    runs(cluster, two)
    cluster.dq("kill", one, two)
    cluster.wait(job, has(4))
    (tmp_path / "over").touch()
    end = cluster.wait_end(job)
    assert (end["state"], end["kind"]) == ("done", "workers")
    stays = [(s["processors"], s["decision"]) for s in end["sizes"]]
    assert stays[:3] == [(0, "expand"), (3, "shrink"), (1, "expand")]
    assert 4 in [size for size, _ in stays[3:]]
    assert all(s["reason"] for s in end["sizes"][:3])
    assert end["legal_sizes"] == [0, 1, 2, 3, 4]
    found = {int(f.name): int(f.read_text()) for f in (tmp_path / "done").iterdir()}
    assert found == {n: n * n for n in range(200)}
    story = [d["what"] for d in json.loads(cluster.dq("why", job, "--json"))["story"]]
    assert story[:4] == ["start", "expand", "shrink", "expand"]


def test_one_that_stays_is_killed_after_its_grace_with_all_that_it_has_started(
    cluster: Live, tmp_path: Path
) -> None:
    stubborn = f"trap '' TERM; sleep 1000 & echo $! > {tmp_path}/pid; while :; do sleep 0.1; done"
    job = workers(cluster, "0:1", "sh", "-c", stubborn, options=("--grace", "1s"))
    cluster.wait(job, has(1))
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.05)
    began_s = time.time()
    cluster.dq("resize", job, 0)
    cluster.wait(job, has(0))
    other = cluster.submit("-n", 4, "--kind", "rigid", "--", "true")
    end = cluster.wait_end(other)
    assert end["start_s"] - began_s >= 0.9
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


def test_the_stop_signal_is_the_users(cluster: Live, tmp_path: Path) -> None:
    script = f"trap 'echo told > {tmp_path}/told; exit 0' USR1; while :; do sleep 0.1; done"
    job = workers(cluster, "0:4", "sh", "-c", script, options=("--stop-signal", "USR1"))
    cluster.wait(job, has(4))
    time.sleep(0.5)  # until the shell has set its trap
    assert cluster.wait_end(cluster.submit("-n", 1, "--", "true"))["state"] == "done"
    assert (tmp_path / "told").read_text() == "told\n"


def test_a_worker_is_no_rank(cluster: Live) -> None:
    shown = "import json, os; print(json.dumps(sorted(os.environ)))"
    job = workers(cluster, "0:1", sys.executable, "-c", shown)
    assert cluster.wait_end(job)["state"] == "done"
    names = json.loads(cluster.dq("logs", job))
    assert {"DQ_WORKER", "DQ_JOB_ID", "DQ_NODE"} <= set(names)
    assert not [n for n in names if n.startswith("PMI") or n in ("DQ_JOB_KEY", "DQ_LINK")]


def test_one_that_fails_ends_the_job_and_says_which(cluster: Live) -> None:
    job = workers(cluster, "0:2", "sh", "-c", "sleep 0.5; exit 3")
    end = cluster.wait_end(job)
    assert (end["state"], end["exit_code"]) == ("failed", 3)
    missing = cluster.run("submit", "--kind", "workers", "--sizes", "0:2", "--", "no-such-program")
    assert (missing.returncode, "no such program" in missing.stderr) == (4, True)


def test_a_killed_job_has_no_workers_left_and_one_without_any_ends_at_once(cluster: Live) -> None:
    job = workers(cluster, "0:4", "sleep", 1000)
    cluster.wait(job, has(4))
    cluster.dq("kill", job)
    assert cluster.wait_end(job)["state"] == "killed"
    full = cluster.submit("-n", 4, "--kind", "rigid", "--", "sleep", 100)
    runs(cluster, full)
    empty = workers(cluster, "0:4", "sleep", 1000)
    cluster.wait(empty, has(0))
    cluster.dq("kill", empty)
    assert cluster.wait_end(empty)["state"] == "killed"
    cluster.dq("kill", full)


def test_workers_outlive_their_agent(live: Live) -> None:
    cluster = live
    cluster.up(4)
    job = workers(cluster, "0:3", "sleep", 1000)
    cluster.wait(job, has(3))
    status = json.loads(cluster.dq("server", "status", "--json"))
    agent = next(iter(status["agents"].values()))["pid"]
    before = run_as_processes(job, 3)
    os.kill(agent, signal.SIGKILL)
    rigid = cluster.submit("-n", 3, "--kind", "rigid", "--", "sleep", 1)
    assert cluster.wait_end(rigid)["state"] == "done"
    cluster.wait(job, has(3))
    assert len(before & run_as_processes(job, 3)) == 1


def run_as_processes(job: int, count: int) -> set[int]:
    """The workers' processes, once there are so many: the size is there before they are."""
    end_s = time.monotonic() + 60
    while len(found := workers_of(job)) != count:
        assert time.monotonic() < end_s, found
        time.sleep(0.1)
    return found


def workers_of(job: int) -> set[int]:
    """The processes of the job's workers, as they are now."""
    found = set()
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                environ = (process / "environ").read_bytes().split(b"\0")
                command = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if command.startswith(b"sleep\0") and f"DQ_JOB_ID={job}".encode() in environ:
                found.add(int(process.name))
    return found


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--kind", "workers", "--sizes", "1,2"), "range of sizes"),
        (("--kind", "workers", "-n", "2"), "range of sizes"),
        (("--sizes", "0:4"), "only a job of workers"),
        (("--sizes", "4:2"), "the smaller first"),
        (("--grace", "3s"), "--kind workers"),
        (("--kind", "workers", "--stop-signal", "NONE"), "give TERM"),
        (("--kind", "workers", "--sizes", "0:2", "--protect"), "cannot have protection"),
    ],
)
def test_what_makes_no_sense_is_refused(cluster: Live, words: tuple[str, ...], why: str) -> None:
    command = [sys.executable, "-m", "dq_client.cli.main", "submit", *words, "--", "true"]
    found = subprocess.run(command, env=cluster.env, capture_output=True, text=True)
    assert found.returncode in (2, 4)
    assert why in found.stderr


def test_dask_computes_while_its_workers_come_and_leave(cluster: Live, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    file = str(tmp_path / "scheduler.json")
    module = [sys.executable, "-m"]
    quiet = ["--no-dashboard", "--host", "127.0.0.1", "--scheduler-file", file]

    def square(n: int) -> int:  # not of this module, which the workers cannot import
        time.sleep(0.3)
        return n * n

    scheduler = subprocess.Popen([*module, "distributed.cli.dask_scheduler", "--port", "0", *quiet])
    try:
        blocks = cluster.submit("-n", 4, "--kind", "rigid", "--", "sleep", 1000)
        runs(cluster, blocks)
        own = ["--no-nanny", "--nthreads", "1", "--local-directory", str(tmp_path)]
        program = [*module, "distributed.cli.dask_worker", *own, *quiet]
        job = workers(cluster, "0:4", *program, options=("--grace", "20s"))
        cluster.wait(job, has(0))
        with distributed.Client(scheduler_file=file) as client:
            futures = client.map(square, range(120))
            one = cluster.submit("-n", 1, "--kind", "rigid", "--", "sleep", 1000)
            cluster.dq("kill", blocks)
            cluster.wait(job, has(3))
            client.wait_for_workers(3, timeout=HANG_S)
            two = cluster.submit("-n", 2, "--kind", "rigid", "--", "sleep", 1000)
            cluster.wait(job, has(1))
            runs(cluster, two)
            cluster.dq("kill", one, two)
            cluster.wait(job, has(4))
            assert client.gather(futures) == [n * n for n in range(120)]
        cluster.dq("kill", job)
    finally:
        scheduler.terminate()
        scheduler.wait()
