"""Shares of a core by cgroup: one group per node, v1 (cfs quota) or v2 (cpu.max).

Quotas are handed out once per period. The period is 100 ms: 5 % of a core comes as a burst of 5 ms
and a stall of 95. Shorter ones gain little, because the kernel enforces quotas at its tick (4 ms),
and cost a switch per burst. Iterations under two seconds mean little here.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

PERIOD_US = 100_000
QUOTA_US_MIN = 1_000  # the kernel takes no less
PERIOD_US_MAX = 1_000_000
# The nodes together against whatever else the machine does: without a weight all of them count as
# much as one other program. The largest that the kernel takes.
WEIGHT = {"v1": ("cpu.shares", "262144"), "v2": ("cpu.weight", "10000")}
STARTING_S = 5.0  # a program may start at full speed for so long
JOIN_VARIABLE = "DQ_CGROUP"  # in ranks: the folder that has their node's group


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Where groups with a CPU limit can be made."""

    version: str  # "v1" or "v2"
    base: Path

    def group(self, tag: str) -> Path:
        """The folder of one cluster's groups."""
        return self.base / f"dq-{tag}"

    def create(self, tag: str, cores: dict[str, float]) -> Path:
        """One group per node with its number of cores; OSError if that is not allowed."""
        top = self.group(tag)
        top.mkdir(exist_ok=True)
        if self.version == "v2":
            for folder in (self.base, top):
                _write(folder / "cgroup.subtree_control", "+cpu")
        name, weight = WEIGHT[self.version]
        _write(top / name, weight)
        for node, share in cores.items():
            folder = top / node
            folder.mkdir(exist_ok=True)
            quota_us, period_us = quota(share)
            if self.version == "v2":
                _write(folder / "cpu.max", f"{quota_us} {period_us}")
            else:
                _write(folder / "cpu.cfs_period_us", str(period_us))
                _write(folder / "cpu.cfs_quota_us", str(quota_us))
        return top

    def tags(self) -> list[str]:
        """Clusters that have groups here."""
        return [p.name.removeprefix("dq-") for p in self.base.glob("dq-*") if p.is_dir()]

    def remove(self, tag: str, patience_s: float = 5.0) -> None:
        """Kill what is left in a cluster's groups and remove them."""
        top = self.group(tag)
        deadline = time.monotonic() + patience_s
        while top.is_dir():
            for folder in [*top.glob("*/"), top]:
                for pid in _members(folder):
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(OSError):
                    folder.rmdir()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{top} cannot be removed, because its processes do not end")
            time.sleep(0.01)


def quota(cores: float) -> tuple[int, int]:
    """Quota and period in microseconds for a number of cores.

    >>> quota(0.05)
    (5000, 100000)
    >>> quota(0.005)
    (1000, 200000)
    """
    period_us = PERIOD_US
    if cores * period_us < QUOTA_US_MIN:
        period_us = min(PERIOD_US_MAX, round(QUOTA_US_MIN / cores))
    return max(QUOTA_US_MIN, round(cores * period_us)), period_us


def find() -> Hierarchy | None:
    """The hierarchy in which this process may make groups; None if there is none."""
    for kind, where, options in _mounts():
        if kind == "cgroup" and "cpu" in options.split(","):
            found = Hierarchy("v1", Path(where))
        elif kind == "cgroup2" and "cpu" in _words(Path(where) / "cgroup.controllers"):
            found = Hierarchy("v2", Path(where) / _own_v2().lstrip("/"))
        else:
            continue
        if _can_make(found.base):
            return found
    return None


def join(node: str) -> None:
    """Put this process into its node's group, if the cluster has groups; called once MPI is up.

    Start-up is not charged at the emulated speed: four ranks take 0.7 s to start at full speed and
    3.6 s inside 5 % of a core.
    """
    top = os.environ.get(JOIN_VARIABLE)
    if top:
        put(Path(top) / node, 0)


def leave() -> None:
    """Put this process above the cluster's groups, where no quota is: it measures a link."""
    top = os.environ.get(JOIN_VARIABLE)
    if top:
        put(Path(top).parent, 0)


def put(folder: Path, pid: int) -> None:
    """Put a process there; 0 is this one."""
    _write(folder / "cgroup.procs", str(pid))


def _write(path: Path, text: str) -> None:
    """In one write: the kernel takes each for a whole command."""
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _members(folder: Path) -> list[int]:
    return [int(word) for word in _words(folder / "cgroup.procs")]


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _mounts() -> list[tuple[str, str, str]]:
    lines = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    return [(kind, where, options) for _, where, kind, options, *_ in lines]


def _own_v2() -> str:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        if line.startswith("0::"):
            return line[3:]
    return "/"


def _can_make(base: Path) -> bool:
    probe = base / f"dq-probe-{os.getpid()}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError:
        return False
    return True
