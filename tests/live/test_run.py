"""`dq run` and `dq alloc`: output, exit codes, signals, and processors that come back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from harness.commands import HANG_S
from harness.live import Live

pytestmark = pytest.mark.live
JobView = dict[str, Any]
DQ = [sys.executable, "-m", "dq_client.cli.main"]


@pytest.fixture
def cluster(borrowed: Live) -> Live:
    return borrowed


def dq(cluster: Live, *words: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*DQ, *map(str, words)], env=cluster.env, capture_output=True, text=True, timeout=HANG_S
    )


@contextmanager
def running(cluster: Live, *words: Any) -> Iterator[subprocess.Popen[str]]:
    """A command that goes on until it is told to end; it has printed its first line."""
    command = [*DQ, *map(str, words)]
    child = subprocess.Popen(command, env=cluster.env, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "started\n"
        yield child
    finally:
        child.kill()
        child.wait()


def last_job(cluster: Live) -> JobView:
    found: JobView = json.loads(cluster.dq("job", "last", "--json"))
    return found


def ended_job(cluster: Live) -> JobView:
    """The last job; its command may have ended before it."""
    return cluster.wait_end(last_job(cluster)["id"])


@pytest.mark.parametrize(
    ("program", "code"),
    [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)],
)
def test_output_and_exit_code_are_the_jobs(cluster: Live, program: str, code: int) -> None:
    found = dq(cluster, "run", "-n", 2, "--", "sh", "-c", f"echo out; echo err >&2; {program}")
    assert found.returncode == code
    # A rank that fails ends the other, which may not have said anything yet.
    for text, word in ((found.stdout, "out\n"), (found.stderr, "err\n")):
        assert text.count(word) >= (1 if code else 2)
    assert last_job(cluster)["state"] == ("failed" if code else "done")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_job(cluster: Live, number: signal.Signals) -> None:
    with running(cluster, "run", "--", "sh", "-c", "echo started; sleep 100") as child:
        child.send_signal(number)
        assert child.wait(30) == 128 + number
    assert ended_job(cluster)["state"] == "killed"


def test_a_second_signal_does_not_save_the_job(cluster: Live) -> None:
    """As timeout(1) sends it: to the command, and again to its process group."""
    with running(cluster, "run", "--", "sh", "-c", "echo started; sleep 100") as child:
        for _ in range(50):
            child.send_signal(signal.SIGINT)
            if child.poll() is not None:
                break
            time.sleep(0.002)
        child.wait(30)
    assert ended_job(cluster)["state"] == "killed"


def test_a_closed_pipe_ends_the_job(cluster: Live) -> None:
    endless = "echo started; while echo y; do sleep 0.05; done"
    with running(cluster, "run", "--", "sh", "-c", endless) as child:
        assert child.stdout is not None
        child.stdout.close()
        assert child.wait(30) == 128 + signal.SIGPIPE
    assert ended_job(cluster)["state"] == "killed"


def test_a_job_that_waits_can_be_interrupted(cluster: Live) -> None:
    first = cluster.submit("-n", 4, "--kind", "rigid", "--", "sleep", 100)
    cluster.wait(first, lambda j: j["state"] == "running")
    child = subprocess.Popen([*DQ, "run", "-n", "2", "--", "true"], env=cluster.env)
    while last_job(cluster)["id"] == first:
        assert child.poll() is None
        time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    assert child.wait(30) == 128 + signal.SIGINT
    assert cluster.wait_end(first + 1)["state"] == "killed"
    cluster.dq("kill", first)


def test_what_makes_no_sense_is_refused_before_a_job_is_made(cluster: Live) -> None:
    before = cluster.dq("jobs", "--all", "--json")
    for words in (["run", "--hold", "--", "true"], ["run", "--array", "0-3", "--", "true"]):
        assert dq(cluster, *words).returncode == 2
    too_many = dq(cluster, "run", "-n", 9, "--", "true")
    assert (too_many.returncode, too_many.stdout) == (4, "")
    missing = dq(cluster, "alloc", "-n", 1, "--", "no-such-shell")
    assert missing.returncode == 2
    assert cluster.dq("jobs", "--all", "--json") == before


@pytest.mark.mpi
def test_mpiexec_in_an_allocation_starts_a_rank_on_each_processor(cluster: Live) -> None:
    ranks = "from mpi4py import MPI; print(MPI.COMM_WORLD.size, flush=True)"
    script = f"mpiexec {sys.executable} -c '{ranks}'; echo $DQ_ALLOC_PROCESSORS; exit 5"
    found = dq(cluster, "alloc", "-n", 3, "--", "sh", "-c", script)
    assert (found.returncode, found.stdout.replace("\n", "")) == (5, "3333"), found.stderr
    job = ended_job(cluster)
    assert (job["kind"], job["state"], job["sizes"]) == ("rigid", "killed", [])


def test_an_allocation_ends_with_its_job_and_its_job_with_it(cluster: Live) -> None:
    script = "echo started; sleep 100 & echo $! >&2; wait"
    with running(cluster, "alloc", "-n", 2, "--", "sh", "-c", script) as child:
        cluster.dq("kill", "last")
        assert child.wait(30) in (1, 143)  # how far the job's end had come when it was seen
    cluster.wait_end(last_job(cluster)["id"])
    with running(cluster, "alloc", "-n", 4, "--", "sh", "-c", script) as child:
        assert child.stdout is not None
        child.send_signal(signal.SIGTERM)
        assert child.wait(30) == 128 + signal.SIGTERM
        assert child.stdout.read() == ""  # whoever had it open, the background one too, has ended
    assert ended_job(cluster)["state"] == "killed"


def test_ctrl_c_in_the_shell_is_not_the_allocations(cluster: Live) -> None:
    script = "trap 'echo caught; exit 3' INT; echo started; while :; do sleep 0.1; done"
    command = [*DQ, "alloc", "--", "sh", "-c", script]
    child = subprocess.Popen(
        command, env=cluster.env, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "started\n"
    os.killpg(child.pid, signal.SIGINT)
    assert (child.stdout.read(), child.wait(30)) == ("caught\n", 3)


def test_a_program_without_a_session_is_reported_to_who_waits(cluster: Live) -> None:
    found = dq(cluster, "run", "--sizes", "1,2", "--", "sleep", 45)
    assert found.returncode == 0
    assert "opened no session of resize_lib" in found.stderr
    plain = dq(cluster, "run", "-n", 1, "--", "true")
    assert "session" not in plain.stderr
