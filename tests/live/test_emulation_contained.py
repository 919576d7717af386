"""Contained clusters leave nothing: counted in the kernel before and after, also after kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from dq_client.base import cgroups
from dq_client.cli.doctor_emulation import clean_leftovers
from dq_client.node import local_agents
from dq_client.node.emulation import contained, network
from harness.bench import until
from harness.live import Live

MISSING = contained.what_is_missing() or ("" if os.geteuid() == 0 else "root is needed")

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(bool(MISSING), reason=f"no contained nodes here: {MISSING}"),
]

CLUSTER = """
engine = "emulated"
[[nodes]]
names = "n[1-3]"
core_share = 0.2
[link]
rate_mbit = 1000
"""


class Kernel:
    """What of a home's contained cluster can be seen from outside."""

    def __init__(self, live: Live) -> None:
        self.home = live.home
        self.tag = contained.tag_of(live.home)

    def namespaces(self) -> int:
        """Network namespaces on this machine that this home's processes hold."""
        mark = f"DQ_HOME={self.home.root}".encode()
        mine = Path("/proc/self/ns/net").readlink()
        found = set()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    found.add((process / "ns/net").readlink())
            except OSError:
                continue
        return len(found - {mine})

    def count(self) -> dict[str, int]:
        """Namespaces, groups, bridges, links, records."""
        hierarchy = cgroups.find()
        assert hierarchy is not None
        links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True)
        return {
            "namespaces": self.namespaces(),
            "groups": sum(1 for _ in hierarchy.group(self.tag).glob("*/")),
            "bridges": network._links().count(f"dqb{self.tag}"),
            "links": links.stdout.count(f"dqv{self.tag}"),
            "records": sum(1 for _ in contained.RECORDS.glob(f"{self.tag}.json")),
        }


NOTHING = {"namespaces": 0, "groups": 0, "bridges": 0, "links": 0, "records": 0}


@pytest.fixture
def up(live: Live, tmp_path: Path) -> Kernel:
    path = tmp_path / "three.toml"
    path.write_text(CLUSTER)
    kernel = Kernel(live)
    assert kernel.count() == NOTHING
    live.dq("up", "--cluster", path, "--fidelity", "contained", "--detach")
    assert kernel.count() == {
        "namespaces": 3, "groups": 3, "bridges": 1, "links": 3, "records": 1,
    }  # fmt: skip
    return kernel


@pytest.mark.mpi
def test_a_job_grows_over_real_links_and_down_leaves_nothing(live: Live, up: Kernel) -> None:
    job = live.submit("--sizes", "1,3", "--", "python", "-m", "apps.matmul", "--n", 600,
                      "--iterations", 300, "--check")  # fmt: skip
    view = live.wait_end(job)
    assert view["state"] == "done", live.dq("logs", job, "--err", code=None)
    assert [stay["processors"] for stay in view["sizes"]][:2] == [1, 3]
    live.dq("down")
    assert up.count() == NOTHING


def test_any_program_is_limited_and_nothing_is_left_after_kill_9(live: Live, up: Kernel) -> None:
    burn = "import time; end = time.time() + 60\nwhile time.time() < end: pass"
    live.submit("--sizes", "2", "--name", "burn", "--", "python", "-c", burn)
    hierarchy = cgroups.find()
    assert hierarchy is not None
    group = hierarchy.group(up.tag)
    until(
        lambda: sum(bool(cgroups._members(node)) for node in group.glob("*/")) == 2,
        "the agents did not put the program into its group",
    )
    live.kill_server()
    until(
        lambda: up.tag in {leftover.tag for leftover in contained.leftovers()},
        "what the server has left is not found",
    )
    assert up.tag in {leftover.tag for leftover in clean_leftovers()}
    assert up.count() == NOTHING
    # and the processes: all of them were in the nodes' namespaces
    live_still = [p for p in Path("/proc").glob("[0-9]*") if burns(p, burn)]
    assert not live_still


def burns(process: Path, program: str) -> bool:
    try:
        return program.encode() in (process / "cmdline").read_bytes()
    except OSError:
        return False


def test_the_next_up_takes_over_from_a_killed_one(live: Live, up: Kernel, tmp_path: Path) -> None:
    live.kill_server()
    live.dq("up", "--cluster", tmp_path / "three.toml", "--fidelity", "contained", "--detach")
    assert up.count()["namespaces"] == 3
    live.dq("down")
    assert up.count() == NOTHING


@pytest.mark.mpi
def test_a_node_whose_first_process_is_killed_is_made_again(live: Live, up: Kernel) -> None:
    """Its processes end with it, as a machine's do that is started again; the others stay."""
    before = local_agents.running_agents(live.home)
    os.kill(int(before["n2"]["pid"]), signal.SIGKILL)

    def another() -> bool:
        found = local_agents.running_agents(live.home)
        return found.keys() == before.keys() and found["n2"] != before["n2"]

    until(another, "the node does not come back")
    job = live.submit("--sizes", "3", "--", "python", "-m", "apps.matmul", "--n", 300,
                      "--iterations", 3, "--check")  # fmt: skip
    assert live.wait_end(job)["state"] == "done", live.dq("logs", job, "--err", code=None)
    now = local_agents.running_agents(live.home)
    assert [now[name] == before[name] for name in ("n1", "n2", "n3")] == [True, False, True]
    live.dq("down")
    assert up.count() == NOTHING
