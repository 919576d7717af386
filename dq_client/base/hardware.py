"""What a machine has beside processors: memory and GPUs.

Memory is what is installed, or less where a control group or Slurm limits it (a container, a batch
job).
GPUs are counted by NVIDIA's device files; CUDA_VISIBLE_DEVICES, which batch systems set, says which
of them are ours.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from dq_client.base.messages.base import GPUS_MAX, MEMORY_BYTES_MAX

if TYPE_CHECKING:
    from dq_client.base.messages import NodeInfo

_BYTES = r"(\d{1,15}(?:\.\d{1,9})?)\s*(?:([KMGTPkmgtp])(?:i?[Bb])?|[Bb])?"


def memory_bytes(root: Path = Path("/sys/fs/cgroup")) -> int:
    """Memory that processes here may use."""
    import psutil  # most commands read a size at most

    found = int(psutil.virtual_memory().total)
    for limit in _limits(root):
        try:
            found = min(found, int(limit.read_text()))
        except (OSError, ValueError):  # "max": there is none
            continue
    found = min(found, _slurm_limit() or found)
    return min(found, MEMORY_BYTES_MAX)


def _slurm_limit() -> int:
    """What Slurm lets its job use on this node; 0: as much as there is, or this is none."""
    shares = {"SLURM_MEM_PER_NODE": "", "SLURM_MEM_PER_CPU": "SLURM_CPUS_ON_NODE"}
    for name, count in shares.items():
        megabytes, times = os.environ.get(name, ""), os.environ.get(count, "1")
        if megabytes.isdigit() and times.isdigit():
            return int(megabytes) * int(times) << 20
    return 0


def _limits(root: Path) -> list[Path]:
    """The files with the limits of our control group and those above it (version 2, and 1)."""
    try:
        groups = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    files = []
    for line in groups:
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        top, name = (root, "memory.max") if not controllers else (
            root / "memory",
            "memory.limit_in_bytes",
        )  # fmt: skip
        here = top / path.lstrip("/")
        files += [folder / name for folder in (here, *here.parents) if folder.is_relative_to(top)]
    return files


def gpu_count(devices: Path = Path("/dev")) -> int:
    """GPUs that processes here may use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return min(GPUS_MAX, len(visible_gpus(visible)))
    try:
        found = sum(bool(re.fullmatch(r"nvidia\d+", entry.name)) for entry in devices.iterdir())
    except OSError:
        return 0
    return min(GPUS_MAX, found)


def visible_gpus(setting: str) -> list[str]:
    """The GPUs that a value of CUDA_VISIBLE_DEVICES names; a word that is none ends the list."""
    found: list[str] = []
    for word in setting.split(","):
        gpu = word.strip()
        if not gpu or gpu in found or gpu == "-1" or gpu == "NoDevFiles":
            break
        found.append(gpu)
    return found


def cuda_visible(gpus: Sequence[int]) -> str:
    """CUDA_VISIBLE_DEVICES of a rank that was given these, counted among those visible here."""
    visible = visible_gpus(os.environ.get("CUDA_VISIBLE_DEVICES", ""))
    return ",".join(visible[gpu] if gpu < len(visible) else str(gpu) for gpu in gpus)


def shared_out(nodes: Sequence[NodeInfo]) -> list[NodeInfo]:
    """Nodes that are parts of this machine, each with its share of what the machine has.

    Where a node says itself what it has, that stands; the first nodes get a GPU more than others.
    """
    if not nodes:
        return []
    memory = memory_bytes() // len(nodes)
    found, said = gpu_count(), sum(node.gpus for node in nodes)
    per_node, more = divmod(0 if said else found, len(nodes))
    shared, first = [], 0
    for k, node in enumerate(nodes):
        gpus = node.gpus or per_node + (k < more)
        # More than there are: they are pretended, and each node has its first ones.
        has = {"memory": node.memory or memory, "gpus": gpus, "first_gpu": first}
        shared.append(msgspec.structs.replace(node, **has))
        first += gpus if said <= found else 0
    return shared


def parse_bytes(text: str) -> int | None:
    """`4G`, `512M`, `1.5GiB` or a number of bytes; units count by 1024. None: it is none."""
    found = re.fullmatch(_BYTES, text.strip())
    if found is None:
        return None
    count = int(float(found[1]) * 1024 ** " KMGTP".index((found[2] or " ").upper()))
    return count if 0 < count <= MEMORY_BYTES_MAX else None


def shown_bytes(count: int | None) -> str:
    """Bytes as `dq nodes` shows them: 64G, 1.5G; - if not known."""
    if not count:
        return "-"
    value, unit = float(count), 0
    while value >= 1024 and unit < 5:
        value, unit = value / 1024, unit + 1
    return f"{value:.3g}{' KMGTP'[unit].strip()}"
