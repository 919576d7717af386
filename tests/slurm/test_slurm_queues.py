"""A pool with two queues, which are two partitions of a real Slurm."""

from __future__ import annotations

import os
import signal

import pytest

from tests.on_batch_system import Json
from tests.slurm.minislurm import MiniSlurm
from tests.slurm.on_slurm import OnSlurm

PARTITIONS = "PartitionName=short MaxTime=20\nPartitionName=long"
TWO = pytest.mark.parametrize("slurm", [("linuxproc", {"partitions": PARTITIONS})], indirect=True)
pytestmark = [pytest.mark.live, pytest.mark.slurm, TWO]

FILE = """\
engine = "slurm"
[pool]
max = 4
idle_s = 600
grow = false
{pool}
[[slurm]]
partition = "short"
time = "10"
max = 1
[[slurm]]
partition = "long"
time = "60"
"""
SLEEPS = ("--", "sleep", 600)


def up(on: OnSlurm, pool: str = "retry_s = 1") -> None:
    file = on.home.root.parent / "cluster.toml"
    file.write_text(FILE.format(pool=pool))
    on.dq("up", "--cluster", file, "--detach")


def rigid(on: OnSlurm, size: int, walltime: str) -> int:
    return on.submit("-n", size, "--kind", "rigid", "--walltime", walltime, *SLEEPS)


def runs(on: OnSlurm, job: int) -> bool:
    return bool(on.job(job)["state"] == "running")


def queues(on: OnSlurm) -> dict[int, str]:
    """Of tickets, as DQ has them."""
    return {t["ticket"]: t["queue"] for t in on.pool()["tickets"]}


def queue(on: OnSlurm, name: str) -> Json:
    (found,) = [q for q in on.pool()["queues"] if q["name"] == name]
    return dict(found)


def partitions(on: OnSlurm) -> dict[int, str]:
    """Of tickets, as Slurm has them."""
    shown = on.slurm.run("squeue", "-h", "-o", "%j %P").splitlines()
    found = [line.split() for line in shown if line.startswith("dq-")]
    return {int(name.rsplit("-", 1)[1]): partition for name, partition in found}


def test_nodes_come_from_the_first_queue_that_has_room_and_lasts(on_slurm: OnSlurm) -> None:
    up(on_slurm)
    first = rigid(on_slurm, 2, "5m")
    on_slurm.until(lambda: runs(on_slurm, first))
    assert queues(on_slurm) == partitions(on_slurm) == {1: "short", 2: "long"}, "one is full"
    second = rigid(on_slurm, 1, "30m")
    on_slurm.until(lambda: runs(on_slurm, second))
    assert queues(on_slurm) == partitions(on_slurm) == {1: "short", 2: "long", 3: "long"}
    assert (queue(on_slurm, "short")["nodes"], queue(on_slurm, "long")["nodes"]) == (1, 2)
    assert "QUEUE" in on_slurm.dq("nodes") and "REFUSED LAST" in on_slurm.dq("pool")
    done = on_slurm.run("submit", "-n", 1, "--kind", "rigid", "--walltime", "2h", *SLEEPS)
    assert done.returncode == 4 and "queue long has 4 for 3600 s" in done.stderr


def test_a_queue_that_refuses_is_paused_and_named(on_slurm: OnSlurm, slurm: MiniSlurm) -> None:
    up(on_slurm)
    slurm.run("scontrol", "update", "PartitionName=short", "State=DRAIN")
    try:
        job = rigid(on_slurm, 1, "5m")
        on_slurm.until(lambda: runs(on_slurm, job))
        assert set(queues(on_slurm).values()) == {"long"}
        assert "partition" in queue(on_slurm, "short")["refused"]["why"]
        assert queue(on_slurm, "long")["refused"] is None
        told = [d["text"] for d in on_slurm.pool()["decisions"] if d["what"] == "refused"]
        assert told and told[0].startswith("queue short refused: Slurm: sbatch: ")
    finally:
        slurm.run("scontrol", "update", "PartitionName=short", "State=UP")


def test_a_ticket_keeps_its_queue_when_the_server_is_killed(
    on_slurm: OnSlurm, slurm: MiniSlurm
) -> None:
    up(on_slurm)
    slurm.run("scontrol", "update", "PartitionName=long", "State=DOWN")
    try:
        job = rigid(on_slurm, 1, "30m")
        on_slurm.until(lambda: partitions(on_slurm) == {1: "long"})
        on_slurm.until(lambda: "asked for in queue long" in on_slurm.why(job))
        os.kill(on_slurm.home.server()["pid"], signal.SIGKILL)
        on_slurm.dq("server", "start", "--detach")
        assert queues(on_slurm) == {1: "long"}
    finally:
        slurm.run("scontrol", "update", "PartitionName=long", "State=UP")
    on_slurm.until(lambda: runs(on_slurm, job))
    assert queues(on_slurm) == partitions(on_slurm) == {1: "long"}


def test_a_request_moves_to_a_partition_that_grants_it(on_slurm: OnSlurm, slurm: MiniSlurm) -> None:
    slurm.run("scontrol", "update", "PartitionName=short", "State=DOWN")  # requests only wait there
    try:
        up(on_slurm, "start_s = 2\nretry_s = 60")
        job = rigid(on_slurm, 1, "5m")
        on_slurm.until(lambda: runs(on_slurm, job))
        assert set(queues(on_slurm).values()) == set(partitions(on_slurm).values()) == {"long"}
        assert (
            "in queue short, and queue long has room" in queue(on_slurm, "short")["refused"]["why"]
        )
    finally:
        slurm.run("scontrol", "update", "PartitionName=short", "State=UP")
