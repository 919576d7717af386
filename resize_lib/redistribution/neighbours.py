"""The local parts of other processes on the same node, seen from here.

Each rank tells all others its host key and, for each array, where in its shared memory the part
lies (``Location``). A neighbour opens that memory through /proc/PID/fd/N and checks that it is the
segment named (a pid may mean another process in another namespace).
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from resize_lib.redistribution.copying import Array, Part, address_of

# One row per array: where the part lies and its first two strides (bytes; 0 where there is none).
LOCATION = np.dtype(
    [("fd", "i8"), ("name", "S32"), ("offset", "i8"), ("stride0", "i8"), ("stride1", "i8")]
)
Table = NDArray[np.void]


def host_key() -> bytes:
    """Equal on two processes only if they run on the same node and see each other's pids."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
    return boot + str(Path("/proc/self/ns/pid").stat().st_ino).encode()


@dataclass(frozen=True, slots=True)
class Location:
    """Where a neighbour finds an array: the segment's descriptor, name, and a byte offset."""

    fd: int
    name: str
    offset: int


def table_of(
    locate: Callable[[Array], Location | None], parts: Sequence[Array | None]
) -> Table | None:
    """Where neighbours find ``parts`` (None: this rank holds none); None if one is not shared."""
    table = np.zeros(len(parts), dtype=LOCATION)
    for row, part in enumerate(parts):
        if part is None or part.size == 0:
            continue
        location = locate(part)
        if location is None:
            return None
        strides = (*part.strides, 0, 0)[:2]
        table[row] = (location.fd, location.name.encode(), location.offset, *strides)
    return table


@dataclass(slots=True)
class _Mapping:
    memory: mmap.mmap
    round: int = 0  # in which it was last used


class Neighbours:
    """Mappings of other processes' segments, kept while they are in use.

    A process alternates between the segments of its old and its new parts: what was not used in
    the last two rounds is dropped.
    """

    def __init__(self) -> None:
        self._mappings: dict[tuple[int, str, bool], _Mapping] = {}
        self._round = 0

    def begin(self) -> None:
        """A new redistribution starts."""
        self._round += 1

    def part(
        self, pid: int, row: np.void, *, item: int, transposed: bool, writing: bool = False
    ) -> Part:
        """The array that process ``pid`` describes by ``row`` of its table.

        Raises:
            OSError: the memory cannot be opened, or is not the segment named.
        """
        location = Location(int(row["fd"]), row["name"].decode(), int(row["offset"]))
        mapping = self._mappings.get((pid, location.name, writing))
        if mapping is None:
            mapping = self._mappings[pid, location.name, writing] = _Mapping(
                self._open(pid, location, writing=writing)
            )
        mapping.round = self._round
        strides = int(row["stride0"]), int(row["stride1"])
        strides = strides[::-1] if transposed else strides
        keeper = np.frombuffer(mapping.memory, dtype=np.uint8)
        return Part(address_of(keeper) + location.offset, item, *strides, keeper)

    def end(self, leaving: Collection[int]) -> None:
        """Drop mappings of the processes ``leaving`` and those not used lately."""
        self._mappings = {
            key: mapping
            for key, mapping in self._mappings.items()
            if key[0] not in leaving and mapping.round > self._round - 2
        }

    @staticmethod
    def _open(pid: int, location: Location, *, writing: bool) -> mmap.mmap:
        path = f"/proc/{pid}/fd/{location.fd}"
        fd = os.open(path, (os.O_RDWR if writing else os.O_RDONLY) | os.O_CLOEXEC)
        try:
            if not Path(path).readlink().name.startswith(f"memfd:{location.name}"):
                raise OSError(f"{path} is not the segment {location.name}")
            protection = mmap.PROT_READ | (mmap.PROT_WRITE if writing else 0)
            return mmap.mmap(fd, os.fstat(fd).st_size, prot=protection)
        finally:
            os.close(fd)
