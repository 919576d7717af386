"""A disk under DQ_HOME that fails for a while: nothing is acknowledged, and no job ends by it."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.bench import until
from harness.live import Live
from tests.live.failing_disks import KINDS, Disk, mounted

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

FAILS_FOR_S = 9.0  # longer than an agent may be silent
GROWING = [sys.executable, "-m", "tests.live.growing", "--n", "64", "--iterations", "1000"]
SAYS = """
import pathlib, sys, time
while not pathlib.Path(sys.argv[1]).exists():
    print("on", flush=True)
    time.sleep(0.02)
"""


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    with mounted(request.param, tmp_path) as found:
        yield found


@pytest.fixture
def cluster(disk: Disk) -> Iterator[Live]:
    made = Live(disk.root / "home")
    made.up(6)
    yield made
    made.clear()


def until_there(gate: Path, then: str = "true") -> tuple[str, ...]:
    """A program that ends once a file is there."""
    return ("sh", "-c", f"until [ -e '{gate}' ]; do sleep 0.1; done; {then}")


def status(cluster: Live) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cluster.dq("server", "status", "--json"))
    return found


def agent(cluster: Live) -> dict[str, Any]:
    found: dict[str, Any] = status(cluster)["agents"]["local"]
    return found


def refused(cluster: Live, disk: Disk) -> None:
    """A submission is refused at once, with the disk and what to do."""
    done = cluster.run("submit", "-n", 1, "--", "true")
    assert (done.returncode, done.stdout) == (4, ""), "3: the client has waited in vain"
    assert len(done.stderr.strip().splitlines()) == 1
    for word in (str(disk.root), str(cluster.home.root), disk.words, "goes on by itself"):
        assert word in done.stderr


def test_jobs_go_on_while_nothing_can_be_written(cluster: Live, disk: Disk, tmp_path: Path) -> None:
    stop, gate = tmp_path / "stop", tmp_path / "gate"
    resized = cluster.submit("-n", 1, "--sizes", "1,2", "--", *GROWING, "--stop", stop)
    short = cluster.submit("-n", 1, "--", *until_there(gate))
    says = cluster.submit("-n", 1, "--", sys.executable, "-c", SAYS, stop)
    cluster.wait(resized, lambda job: job["processors"] == 2)
    for job in (short, says):
        cluster.wait(job, lambda job: job["state"] == "running")
    acknowledged = [resized, short, says]

    disk.fail()
    gate.touch()
    if disk.stalls:
        until(lambda: status(cluster)["stalled"], "the server does not notice")
        refused(cluster, disk)
        told = cluster.dq("why", resized)
    else:  # what can be saved is; nothing can be started
        acknowledged.append(cluster.submit("-n", 1, "--", "true"))
        until(lambda: agent(cluster)["troubles"], "the agent does not say so")
        told = cluster.dq("why", acknowledged[-1])
        assert cluster.job(acknowledged[-1])["state"] == "starting"
    for text in (told, cluster.dq("server", "status")):
        assert disk.words in text
    began_s = time.monotonic()
    while time.monotonic() - began_s < FAILS_FOR_S:
        assert cluster.job(resized)["state"] == cluster.job(says)["state"] == "running"
        time.sleep(0.5)
    if disk.stalls:
        assert cluster.job(short)["state"] == "running", "its end cannot have been saved"
        refused(cluster, disk)
    if not disk.heals:
        return
    disk.heal()
    stop.touch()
    until(lambda: not status(cluster)["stalled"], "the server does not notice that it can save")

    acknowledged.append(cluster.submit("-n", 1, "--", "true"))
    for job in acknowledged:
        found = cluster.wait_end(job)
        assert (found["state"], found["exit_code"]) == ("done", 0), found["reason"]
    jobs = [job["id"] for job in json.loads(cluster.dq("jobs", "--json"))["jobs"]]
    assert jobs == acknowledged, "what was refused is there, or a job is gone"
    nodes = json.loads(cluster.dq("nodes", "--json"))["nodes"]
    until(lambda: not agent(cluster)["troubles"], "the trouble is over")
    assert all(node["idle"] == node["processors"] for node in nodes)
    log = (cluster.home.log / "server.log").read_text()
    assert log.count("saving goes on") == disk.stalls
    assert log.count(f" ERROR not saved: cannot write in {cluster.home.root}: ") <= 1


def test_who_is_killed_meanwhile_finds_everything_again(
    cluster: Live, disk: Disk, tmp_path: Path
) -> None:
    """Server and agent, on a disk on which they cannot start again before it is mended."""
    if not disk.heals:
        pytest.skip("the disk stays as it is")
    stop, gate = tmp_path / "stop", tmp_path / "gate"
    resized = cluster.submit("-n", 1, "--sizes", "1,2", "--", *GROWING, "--stop", stop)
    ends = cluster.submit("-n", 1, "--", *until_there(gate))
    cluster.wait(ends, lambda job: job["state"] == "running")
    cluster.wait(resized, lambda job: job["processors"] == 2)
    server, killed = status(cluster)["pid"], agent(cluster)["pid"]
    disk.fail()
    gate.touch()
    if disk.stalls:  # else it is missed before it can come back
        refused(cluster, disk)
        os.kill(killed, signal.SIGKILL)
        time.sleep(FAILS_FOR_S / 2)
    os.kill(server, signal.SIGKILL)
    time.sleep(FAILS_FOR_S / 2)
    started = cluster.run("up")
    assert started.returncode == 1
    assert disk.words in started.stderr
    disk.heal()
    cluster.dq("up", "--detach")
    stop.touch()
    for job in (resized, ends):
        known = cluster.wait_end(job)
        assert (known["state"], known["exit_code"]) == ("done", 0), known["reason"]


def test_a_cluster_ends_on_a_disk_that_fails(cluster: Live, disk: Disk) -> None:
    job = cluster.submit("-n", 1, "--", "sleep", 600)
    cluster.wait(job, lambda job: job["state"] == "running")
    disk.fail()
    if disk.stalls:
        refused(cluster, disk)
    assert cluster.run("down").returncode == 4
    done = cluster.run("down", "--force")
    assert done.returncode == 0, done.stderr


def test_the_last_output_of_a_job_is_whole_when_the_disk_has_room_again(
    cluster: Live, disk: Disk, tmp_path: Path
) -> None:
    if not disk.heals:
        pytest.skip("the disk stays as it is")
    gate = tmp_path / "gate"
    _, _, says = until_there(gate, "echo RESULT 42; echo trouble >&2")
    job = cluster.submit("-n", 1, "--", "sh", "-c", f"echo early; {says}")
    until(lambda: "early" in cluster.dq("logs", job), "it does not begin")
    disk.fail()
    gate.touch()
    time.sleep(FAILS_FOR_S)
    disk.heal()
    view = cluster.wait_end(job)
    assert (view["state"], view["output_lost_bytes"]) == ("done", 0), view["reason"]
    assert cluster.dq("logs", job) == "early\nRESULT 42\n"
    assert cluster.dq("logs", "--err", job) == "trouble\n"
