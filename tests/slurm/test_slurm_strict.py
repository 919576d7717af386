"""Strict control groups: what runs on a node belongs to the holder that asked for it."""

from __future__ import annotations

import re
from pathlib import Path

import psutil
import pytest

from dq_client.deploy import local
from tests.slurm.minislurm import MiniSlurm
from tests.slurm.on_slurm import OnSlurm

TRACKING = pytest.mark.parametrize("slurm", ["cgroup"], indirect=True, scope="module")
pytestmark = [pytest.mark.live, pytest.mark.slurm, TRACKING]

OF_A_NODE = 4  # agent, starter, keeper, rank


def holder_of(pid: int) -> int:
    """The Slurm job whose control group a process is in; 0: none, or it has ended."""
    try:
        groups = Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return 0
    found = re.search(r"/job_(\d+)/", groups)
    return int(found[1]) if found else 0


def test_nothing_on_a_node_escapes_its_holder(on_slurm: OnSlurm, slurm: MiniSlurm) -> None:
    """Keepers and ranks lead sessions of their own; Slurm finds them all the same."""
    on_slurm.up_with("grow = false\nretry_s = 600")
    words = ["-n", 2, "--sizes", "2", "--protect", "disk", "--", "python", "-m"]
    job = on_slurm.submit(*words, "tests.live.growing", "--iterations", 1000)
    on_slurm.wait(job, lambda j: j["remap_points"] > 2)
    server = psutil.Process(on_slurm.home.server()["pid"])
    ours = set(local.leftovers(on_slurm.home)) - {server.pid}
    ours -= {child.pid for child in server.children(recursive=True)}
    members = {pid: holder_of(pid) for pid in ours if psutil.pid_exists(pid)}
    holders = set(on_slurm.holders())
    assert set(members.values()) == holders and len(holders) == 2, members
    victim = min(holders)
    victims = [pid for pid, holder in members.items() if holder == victim]
    assert len(victims) >= OF_A_NODE
    before = len(on_slurm.journal())
    slurm.run("scancel", "-s", "KILL", victim)
    # Its agent may be told to go before it is killed, and another node have its name at once.
    gone = {"NodeLost", "TicketEnded"}
    on_slurm.until(lambda: gone & {kind for _, kind, _ in on_slurm.journal()[before:]})
    on_slurm.until(lambda: not any(map(psutil.pid_exists, victims)))
    on_slurm.dq("kill", job)
