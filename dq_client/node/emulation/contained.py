"""Contained clusters on this machine: made, found again, removed.

A contained cluster is named by a tag, a few hexadecimal digits made from its DQ_HOME, which is in
the names of everything that it has in the kernel: control groups dq-TAG, a bridge dqbTAG, ports
dqvTAGn. What belongs to it is also written down in a record under /run, so that anybody finds it
after its server and `dq up` were killed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from dq_client.base import cgroups, process_tree
from dq_client.base.errors import DQError, NoServer
from dq_client.base.home import Home, created_s, is_alive
from dq_client.base.private import check_own, make_private
from dq_client.base.text_files import object_of
from dq_client.node import supervision
from dq_client.node.emulation import network


def _records() -> Path:
    """The folder of this user's records. Root of a user namespace is not root: /run tells."""
    run = Path("/run")
    if os.geteuid() == 0 and os.access(run, os.W_OK):
        return run / "dq-emulation"
    for line in Path("/proc/self/uid_map").read_text().splitlines():
        first, outside, count = map(int, line.split())
        if first <= os.getuid() < first + count:
            return Path(tempfile.gettempdir()) / f"dq-emulation-{outside + os.getuid() - first}"
    raise DQError("this process's user is not known outside of its user namespace")


RECORDS = _records()
GONE_S = 5.0


def tag_of(home: Home) -> str:
    """The tag of this home's contained cluster."""
    return hashlib.blake2s(
        str(home.root).encode(), digest_size=network.TAG_LETTERS // 2
    ).hexdigest()


def what_is_missing() -> str:
    """Why this machine cannot contain nodes; empty if it can."""
    if os.geteuid() == 0:
        for program in ("ip", "tc"):
            if shutil.which(program) is None:
                return f"the program {program} is missing (package iproute2)"
    if cgroups.find() is None:
        return "no control groups can be made here (root, or a delegated cgroup, is needed)"
    return ""


@dataclass(frozen=True, slots=True)
class Leftover:
    """Something of a contained cluster whose server is gone."""

    tag: str
    what: str


def server_address(home: Home) -> str:
    """Where a contained cluster's server listens: nodes of their own networks reach it there."""
    path = home.root / "server.sock"
    if len(os.fsencode(path)) > 100:
        path = Path(tempfile.gettempdir()) / f"dq-{tag_of(home)}.sock"
    return f"ipc://{path}"


def make_groups(home: Home, cores: dict[str, float]) -> str:
    """The control groups of this home's nodes; returns their folder."""
    hierarchy = cgroups.find()
    if hierarchy is None:
        raise DQError(f"contained nodes: {what_is_missing()}")
    try:
        return str(hierarchy.create(tag_of(home), cores))
    except OSError as e:
        raise DQError(f"contained nodes: {e}") from e


def record(home: Home, pids: list[int]) -> None:
    """Write down whose the tag is, and its agents as this machine numbers them."""
    make_private(RECORDS, below=RECORDS.parent)
    agents = [[pid, created_s(pid)] for pid in pids if psutil.pid_exists(pid)]
    text = json.dumps({"home": str(home.root), "agents": agents})
    (RECORDS / f"{tag_of(home)}.json").write_text(text)


def remove(tag: str) -> None:
    """Remove all of a contained cluster; harmless if there is nothing (any more)."""
    owner = _owner(tag)
    if owner is not None:
        supervision.end(owner)  # it would start the agents again
    for pid, created in _agents(tag):
        if is_alive(pid, created):
            with contextlib.suppress(psutil.Error):
                psutil.Process(pid).kill()
    deadline = time.monotonic() + GONE_S
    while any(is_alive(*agent) for agent in _agents(tag)) and time.monotonic() < deadline:
        time.sleep(0.01)
    if owner is not None:
        _kill_jobs(owner)
    hierarchy = cgroups.find()
    if hierarchy is not None:
        hierarchy.remove(tag)
    if os.geteuid() == 0 and tag in network.clusters():
        network.EmulatedNetwork(tag, None).remove()
    (RECORDS / f"{tag}.json").unlink(missing_ok=True)


def _kill_jobs(home: Home) -> None:
    """End what the agents have started: without namespaces it outlives them."""
    deadline = time.monotonic() + GONE_S
    while (left := process_tree.of_home(home.root)) and time.monotonic() < deadline:
        process_tree.kill(left)
        time.sleep(0.01)


def remove_of(home: Home) -> None:
    """Remove what this home's contained cluster has left, if it ever had one."""
    if (RECORDS / f"{tag_of(home)}.json").exists() or tag_of(home) in tags():
        remove(tag_of(home))


def tags() -> set[str]:
    """Tags of everything on this machine, in use or left over."""
    hierarchy = cgroups.find()
    found = set(hierarchy.tags()) if hierarchy is not None else set()
    if os.geteuid() == 0 and shutil.which("ip"):
        found |= network.clusters()
    if RECORDS.is_dir():
        found |= {path.stem for path in RECORDS.glob("*.json")}
    return {tag for tag in found if not tag.startswith("probe")}


def leftovers() -> list[Leftover]:
    """Contained clusters whose server does not run any more, and that nobody starts it for."""
    found = []
    for tag in sorted(tags()):
        owner = _owner(tag)
        if owner is None:
            found.append(Leftover(tag, "its record is gone"))
            continue
        try:
            owner.server()
        except NoServer:
            if not supervision.restores_server(owner):
                found.append(Leftover(tag, f"the server of {owner.root} does not run"))
    return found


def _read(tag: str) -> dict[str, object]:
    try:
        check_own(RECORDS)  # what it names is killed
        found: dict[str, object] = object_of(RECORDS / f"{tag}.json")
    except (OSError, ValueError):
        return {}
    return found


def _owner(tag: str) -> Home | None:
    root = _read(tag).get("home")
    return Home(Path(str(root))) if root else None


def _agents(tag: str) -> list[tuple[int, float]]:
    agents = _read(tag).get("agents", [])
    assert isinstance(agents, list)
    return [(int(pid), float(created)) for pid, created in agents]
