"""The same commands without root and without writable control groups, in a process of this kind.

In a user namespace whose own mounts hide the control groups, as a user without any capability, and
as its root, which looks like root and may do nothing outside. What is left is counted from outside.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from dq_client.base.errors import UsageError
from dq_client.base.home import Home
from dq_client.deploy import local
from dq_client.node.emulation import contained
from harness.commands import HANG_S

ROOT = Path(__file__).parents[2]
PROBE = "import msgspec, mpi4py, numpy, dq_client.base.cgroups as c; print(c.find())"
HIDE = [
    "unshare", "--user", "--map-root-user", "--mount",
    "sh", "-c", 'mount -t tmpfs -o ro none /sys/fs/cgroup && exec "$@"', "sh",
]  # fmt: skip
WAYS = {
    "user": [*HIDE, "unshare", "--user", "--map-user=1000", "--map-group=1000"],
    "root of a user namespace": HIDE,
}
CLUSTER = """
engine = "emulated"
[[nodes]]
names = "n[1-3]"
core_share = 0.2
[link]
rate_mbit = 1000
"""
DQ = f'set -e; dq() {{ {sys.executable} -m dq_client.cli.main "$@"; }}\n'
LIFE = """
dq up --cluster "$1" --fidelity "$2" --detach --json
work="python -m apps.matmul --n 300 --iterations 25 --check"
dq submit --sizes 1,3 --wait -- $work > "$DQ_HOME/id"
dq logs last
dq down
"""
KILLED = """
dq up --cluster "$1" --fidelity "$2" --detach
dq submit --sizes 3 -- python -c "
open('$DQ_HOME/burning', 'w').close()
while True:
    pass"
until [ -e "$DQ_HOME/burning" ]; do sleep 0.1; done
sleep 0.5
kill -9 $(python -c "
import json, pathlib
from dq_client.base.home import Home
from dq_client.node import supervision
print(supervision.pid_of(Home(pathlib.Path('$DQ_HOME'))))  # it would start the server again
print(json.load(open('$DQ_HOME/server.json'))['pid'])
")
"""


def why_not(way: list[str]) -> str:
    """Why this machine does not let a test run in this way; empty if it does."""
    if shutil.which("unshare") is None:
        return "the program unshare is missing (package util-linux)"
    done = subprocess.run(
        [*way, sys.executable, "-c", PROBE],
        cwd=ROOT, capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        return f"no user namespace can be made: {done.stderr.strip()[-200:]}"
    assert done.stdout.strip() == "None", "the control groups are hidden"
    return ""


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> list[str]:
    reason = why_not(WAYS[request.param])
    if reason:
        pytest.skip(f"no test as {request.param}: {reason}")
    return WAYS[request.param]


@pytest.fixture
def home() -> Iterator[Home]:
    """A home that belongs to the user; nothing of it may be left."""
    folder = Path(tempfile.mkdtemp(prefix="dq-unprivileged-"))
    found = Home(folder / "home")
    (folder / "three.toml").write_text(CLUSTER)
    yield found
    left = local.leftovers(found)
    for pid in left:
        psutil.Process(pid).kill()
    shutil.rmtree(folder)
    assert not left, f"{len(left)} processes were left behind"


def run(way: list[str], home: Home, script: str, fidelity: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "DQ_HOME": str(home.root), "PATH": path, "HOME": str(home.root.parent)}
    return subprocess.run(
        [*way, "sh", "-c", DQ + script, "sh", str(home.root.parent / "three.toml"), fidelity],
        env=env, cwd=ROOT, capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip


def leftovers(home: Home) -> dict[str, int]:
    """Counted from outside: processes, and what any contained cluster has anywhere."""
    tag = contained.tag_of(home)
    return {
        "processes": len(local.leftovers(home)),
        "in the kernel": int(tag in contained.tags()),
        "records": len(list(Path(tempfile.gettempdir()).glob(f"dq-emulation-*/{tag}.json"))),
    }


NOTHING = {"processes": 0, "in the kernel": 0, "records": 0}


@pytest.mark.live
@pytest.mark.mpi
def test_a_cluster_lives_and_leaves_nothing(way: list[str], home: Home) -> None:
    assert leftovers(home) == NOTHING
    done = run(way, home, LIFE, "auto")
    assert done.returncode == 0, done.stderr
    up, result = (json.loads(line) for line in done.stdout.splitlines())
    assert up["mechanism"] == "paced"
    assert "not slowed" in done.stderr
    assert result["ok"]
    assert leftovers(home) == NOTHING


def test_nodes_cannot_be_contained(way: list[str], home: Home) -> None:
    done = run(way, home, LIFE, "contained")
    assert done.returncode == UsageError.exit_code
    (line,) = done.stderr.splitlines()
    assert "no control groups can be made here" in line and "--fidelity paced" in line
    assert leftovers(home) == NOTHING


@pytest.mark.live
@pytest.mark.mpi
def test_what_a_killed_server_left_is_removed(way: list[str], home: Home) -> None:
    done = run(way, home, KILLED + "dq down --force", "paced")
    assert done.returncode == 0, done.stderr
    assert leftovers(home) == NOTHING
