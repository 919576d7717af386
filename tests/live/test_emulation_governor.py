"""Nodes slowed by stopping and continuing: they get their shares, and nobody stays stopped."""

from __future__ import annotations

import json
import os
import signal
import time
from functools import partial
from pathlib import Path

import psutil
import pytest

from dq_client.base import process_tree
from dq_client.cli.doctor_emulation import clean_leftovers
from dq_client.deploy import local
from dq_client.node.emulation import contained, governor
from dq_client.node.emulation.governor import PAYBACK_S_MAX
from harness.bench import until
from harness.live import Live

MISSING = governor.what_is_missing()

pytestmark = [
    pytest.mark.live,
    pytest.mark.mpi,
    pytest.mark.skipif(bool(MISSING), reason=f"no governor here: {MISSING}"),
]

CLUSTER = """
engine = "emulated"
[[nodes]]
names = "n[1-2]"
core_share = 0.1
[[nodes]]
names = "n3"
core_share = 0.2
[link]
rate_mbit = 1000
"""
BURN = """
import json, resize_lib, statistics, time
def share():
    began_s, used_s = time.monotonic(), time.process_time()
    while time.monotonic() - began_s < {wall_s} / 5:
        pass
    return (time.process_time() - used_s) / (time.monotonic() - began_s)
with resize_lib.session() as rs:
    for _ in rs.iterations(1):
        rs.comm.Barrier()
        time.sleep(0.3)  # the note of the last rank has been read
        # The median of five: what others take from this machine for a moment is not the governor's.
        shares = rs.comm.gather(statistics.median(share() for _ in range(5)))
        if rs.rank == 0:
            print(json.dumps(dict(zip((p.node for p in rs.places), shares))), flush=True)
"""


def burn(live: Live, wall_s: float) -> int:
    program = BURN.format(wall_s=wall_s)
    return live.submit("--sizes", 3, "--name", "burn", "--", "python", "-c", program)


def stopped(live: Live) -> list[int]:
    """Processes of this home's jobs that are stopped at this moment."""
    found = []
    for pid in process_tree.of_home(live.home.root):
        try:
            if psutil.Process(pid).status() == psutil.STATUS_STOPPED:
                found.append(pid)
        except psutil.Error:
            continue
    return found


def computes(pid: int, used_s: float) -> bool:
    """Whether a process has had more of the processor than this."""
    return sum(psutil.Process(pid).cpu_times()[:2]) > used_s


@pytest.fixture
def up(live: Live, tmp_path: Path) -> Live:
    path = tmp_path / "three.toml"
    path.write_text(CLUSTER)
    done = live.run("up", "--cluster", path, "--fidelity", "governor", "--detach", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["mechanism"] == "governor"
    assert "not modelled" in done.stderr
    return live


def nothing_is_left(live: Live) -> bool:
    return not (
        local.leftovers(live.home)
        or process_tree.of_home(live.home.root)
        or contained.tag_of(live.home) in contained.tags()
        or governor.folder_of(live.home).exists()
    )


def test_nodes_get_their_shares_and_down_leaves_nothing(up: Live) -> None:
    job = burn(up, 10.0)
    assert up.wait_end(job)["state"] == "done", up.dq("logs", job, "--err", code=None)
    shares = json.loads(up.dq("logs", job))
    first, second, third = shares["n1"], shares["n2"], shares["n3"]
    assert first / second == pytest.approx(1.0, rel=0.4)
    assert third / (first + second) == pytest.approx(1.0, rel=0.4)
    assert max(first, second) < 1.5 * 0.1  # never much more than asked, however idle the machine
    up.dq("down")
    until(lambda: nothing_is_left(up), "something is left")


def test_a_job_resizes_under_the_governor(up: Live) -> None:
    job = up.submit("--sizes", "1,3", "--", "python", "-m", "apps.matmul", "--n", 600,
                    "--iterations", 40, "--check")  # fmt: skip
    view = up.wait_end(job)
    assert view["state"] == "done", up.dq("logs", job, "--err", code=None)
    assert [stay["processors"] for stay in view["sizes"]][:2] == [1, 3]


def test_a_killed_governor_is_replaced_and_nobody_stays_stopped(up: Live) -> None:
    burn(up, 60.0)
    until(lambda: len(stopped(up)) >= 2, "nobody was ever stopped")
    found = governor.running(up.home)
    assert found is not None
    before = found[0]
    ranks: list[int] = []
    while not ranks:  # kill it at a moment when somebody is stopped
        os.kill(before, signal.SIGCONT)
        time.sleep(0.02)
        os.kill(before, signal.SIGSTOP)
        ranks = stopped(up)
    os.kill(before, signal.SIGKILL)
    used_s = {pid: sum(psutil.Process(pid).cpu_times()[:2]) for pid in ranks}
    another = lambda: (governor.running(up.home) or (before, 0))[0] != before  # noqa: E731
    until(another, "the agents did not start a governor")
    for pid in ranks:
        until(partial(computes, pid, used_s[pid]), "a rank stays stopped")
    until(lambda: len(stopped(up)) >= 2, "the new governor does not govern")
    up.dq("down", "--force")
    until(lambda: nothing_is_left(up), "something is left")


@pytest.mark.parametrize("way", ["down", "clean"])
def test_nothing_is_left_after_kill_9_of_server_and_governor(up: Live, way: str) -> None:
    burn(up, 60.0)
    until(lambda: len(stopped(up)) >= 2, "nobody was ever stopped")
    up.kill_server()
    found = governor.running(up.home)
    assert found is not None
    os.kill(found[0], signal.SIGKILL)
    tag = contained.tag_of(up.home)
    until(lambda: tag in {left.tag for left in contained.leftovers()}, "the server is not missed")
    if way == "down":
        up.run("down", "--force")
    else:
        assert tag in {left.tag for left in clean_leftovers()}
    until(lambda: nothing_is_left(up), "something is left", PAYBACK_S_MAX + 20.0)
