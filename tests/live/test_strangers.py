"""Whoever connects to whatever listens, from a job's start on: no job ends, no secret is told, no
resize comes later (docs/security.md). As another user, and from another network.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from dq_client.node.emulation import contained
from harness.live import Live
from tests.live.strangers import PROGRAM, PYTHON, Socket, Stranger, listeners

pytestmark = [
    pytest.mark.live,
    pytest.mark.alone,
    pytest.mark.mpi,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user and a second network"),
]

NOBODY = "65534"
# Each turn of it checks every element.
CHECKED = Path(__file__).parents[2] / "benchmarks" / "_endless_app.py"
ROUNDS = (2, 1) * 3
DELAY_MOST_S = 1.0
EMULATED = """
engine = "emulated"
[[nodes]]
names = "n[1-2]"
core_share = 0.2
"""


def resized(live: Live, folder: Path, rounds: Sequence[int] = ROUNDS) -> list[float]:
    """Seconds of each resize of a job that is started for it, and ends right."""
    stop = folder / "stop"
    stop.unlink(missing_ok=True)
    job = live.submit("-n", "1", "--sizes", "1,2", "--", "python", CHECKED, stop)
    live.wait(job, lambda found: found["remap_points"] > 0)
    took = []
    for size in rounds:
        began = time.monotonic()
        live.dq("resize", job, size)
        live.wait(job, lambda found: found["processors"] == size)  # noqa: B023
        took.append(time.monotonic() - began)
    stop.touch()
    found = live.wait_end(job)
    assert found["state"] == "done", found["reason"]
    return took


def check(live: Live, folder: Path, stranger: Stranger, *, reached: bool) -> None:
    """The job beside the stranger as without him."""
    quiet = resized(live, folder)
    with stranger:
        beside = resized(live, folder)
    assert stranger.places, "somebody listens"
    assert (stranger.found["connections"] > 0) is reached, stranger.found
    assert stranger.learned() == []
    assert statistics.median(beside) < statistics.median(quiet) + DELAY_MOST_S, (quiet, beside)


def as_nobody() -> list[str]:
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
            PYTHON, "-c", PROGRAM.read_text()]  # fmt: skip


@pytest.mark.parametrize("engine", ["local", "emulated"])
def test_another_user(live: Live, tmp_path: Path, engine: str) -> None:
    before = listeners()
    if engine == "local":
        live.up(2)
    else:
        cluster = tmp_path / "two.toml"
        cluster.write_text(EMULATED)
        live.dq("up", "--cluster", cluster, "--detach")
    check(live, tmp_path, Stranger(as_nobody(), lambda: listeners() - before), reached=True)


@contextmanager
def another_network() -> Iterator[tuple[int, str]]:
    """A process in a network of its own with one line to this machine, and our address on it."""
    holder = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])
    name, mine = f"dqs{os.getpid() % 10000}", f"10.214.{os.getpid() % 250}."
    try:
        ours = Path("/proc/self/ns/net").readlink()
        while Path(f"/proc/{holder.pid}/ns/net").readlink() == ours:
            time.sleep(0.01)
        inside = f"nsenter -t {holder.pid} -n ip"
        for command in (
            f"ip link add {name} type veth peer name eth0 netns {holder.pid}",
            f"ip addr add {mine}1/24 dev {name}",
            f"ip link set {name} up",
            f"{inside} addr add {mine}2/24 dev eth0",
            f"{inside} link set eth0 up",
        ):
            subprocess.run(command.split(), check=True)
        yield holder.pid, f"{mine}1"
    finally:
        holder.kill()
        holder.wait()


def test_from_another_network_nothing_of_a_local_cluster_can_be_reached(
    live: Live, tmp_path: Path
) -> None:
    before = listeners()
    live.up(2)

    with another_network() as (process, ours):

        def look() -> set[Socket]:
            return {(ours, port) for _, port in listeners() - before}

        words = ["nsenter", "-t", str(process), "-n", PYTHON, str(PROGRAM)]
        check(live, tmp_path, Stranger(words, look), reached=False)


def networks(live: Live) -> dict[str, str]:
    """The networks that processes of this cluster are in, each with one of them."""
    mark = f"DQ_HOME={live.home.root}".encode()
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found[str((process / "ns/net").readlink())] = process.name
    return found


@pytest.mark.skipif(bool(contained.what_is_missing()), reason="no contained nodes here")
def test_from_outside_of_contained_nodes_none_can_be_reached(live: Live, tmp_path: Path) -> None:
    before = listeners()
    cluster = tmp_path / "two.toml"
    cluster.write_text(EMULATED.replace("core_share = 0.2", "core_share = 0.2\nprocessors = 1"))
    live.dq("up", "--cluster", cluster, "--fidelity", "contained", "--detach")
    inside = list(networks(live).values())

    def look() -> set[Socket]:
        found = set()
        for process in inside:
            with suppress(OSError):
                found |= listeners(process)
        return found - before

    stranger = Stranger(as_nobody(), look)
    check(live, tmp_path, stranger, reached=False)
    assert len(stranger.places) >= 3, "the server, and UCX in each rank"
