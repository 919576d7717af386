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
retry_s = 1
grow = false
[[slurm]]
partition = "short"
time = "10"
max = 1
[[slurm]]
partition = "long"
time = "60"
"""
SLEEPS = ("--", "sleep", 600)


class OnTwo(OnSlurm):
    """A cluster whose nodes come from the queues `short` and `long`."""

    def up_with(self, pool: str = "", slurm: str = "", *options: str) -> None:
        file = self.home.root.parent / "cluster.toml"
        file.write_text(FILE.replace("max = 1\n", f"max = 1\n{slurm}\n") + pool)
        self.dq("up", "--cluster", file, "--detach", *options)

    def rigid(self, size: int, walltime: str) -> int:
        return self.submit("-n", size, "--kind", "rigid", "--walltime", walltime, *SLEEPS)

    def queues(self) -> dict[int, str]:
        """By ticket."""
        return {t["ticket"]: t["queue"] for t in self.pool()["tickets"]}

    def queue(self, name: str) -> Json:
        (found,) = [q for q in self.pool()["queues"] if q["name"] == name]
        return dict(found)

    def partitions(self) -> dict[int, str]:
        """Of Slurm's jobs, by ticket."""
        shown = self.slurm.run("squeue", "-h", "-o", "%j %P").splitlines()
        found = [line.split() for line in shown if line.startswith("dq-")]
        return {int(name.rsplit("-", 1)[1]): partition for name, partition in found}

    def runs(self, job: int) -> bool:
        return bool(self.job(job)["state"] == "running")


@pytest.fixture
def two(on_slurm: OnSlurm) -> OnTwo:
    on_slurm.__class__ = OnTwo
    assert isinstance(on_slurm, OnTwo)
    return on_slurm


def test_nodes_come_from_the_first_queue_that_has_room_and_lasts(two: OnTwo) -> None:
    two.up_with()
    first = two.rigid(2, "5m")
    two.until(lambda: two.runs(first))
    assert two.queues() == two.partitions() == {1: "short", 2: "long"}, "one is full"
    second = two.rigid(1, "30m")
    two.until(lambda: two.runs(second))
    assert two.queues() == two.partitions() == {1: "short", 2: "long", 3: "long"}
    assert (two.queue("short")["nodes"], two.queue("long")["nodes"]) == (1, 2)
    assert "QUEUE" in two.dq("nodes") and "REFUSED LAST" in two.dq("pool")
    done = two.run("submit", "-n", 1, "--kind", "rigid", "--walltime", "2h", *SLEEPS)
    assert done.returncode == 4 and "queue long has 4 for 3600 s" in done.stderr


def test_a_queue_that_refuses_is_paused_and_named(two: OnTwo, slurm: MiniSlurm) -> None:
    two.up_with()
    slurm.run("scontrol", "update", "PartitionName=short", "State=DRAIN")
    try:
        job = two.rigid(1, "5m")
        two.until(lambda: two.runs(job))
        assert set(two.queues().values()) == {"long"}
        assert "partition" in two.queue("short")["refused"]["why"]
        assert two.queue("long")["refused"] is None
        told = [d["text"] for d in two.pool()["decisions"] if d["what"] == "refused"]
        assert told and told[0].startswith("queue short refused: Slurm: sbatch: ")
    finally:
        slurm.run("scontrol", "update", "PartitionName=short", "State=UP")


def test_a_ticket_keeps_its_queue_when_the_server_is_killed(two: OnTwo, slurm: MiniSlurm) -> None:
    two.up_with()
    slurm.run("scontrol", "update", "PartitionName=long", "State=DOWN")
    try:
        job = two.rigid(1, "30m")
        two.until(lambda: two.partitions() == {1: "long"})
        two.until(lambda: "asked for in queue long" in two.why(job))
        os.kill(two.home.server()["pid"], signal.SIGKILL)
        two.dq("server", "start", "--detach")
        assert two.queues() == {1: "long"}
    finally:
        slurm.run("scontrol", "update", "PartitionName=long", "State=UP")
    two.until(lambda: two.runs(job))
    assert two.queues() == two.partitions() == {1: "long"}
