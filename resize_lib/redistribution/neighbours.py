"""The local parts of other processes on the same node, seen from here.

Each rank tells all others its host key and, for each array, where in its shared memory the part
lies (``Location``). A neighbour opens that memory through /proc/PID/fd/N and checks that it is the
segment named (a pid may mean another process in another namespace).
"""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from resize_lib.redistribution.copying import Array, Part, address_of

# One row per array: where the part lies and its first two strides (bytes; 0 where there is none).
LOCATION = np.dtype(
    [("fd", "i8"), ("name", "S32"), ("offset", "i8"), ("stride0", "i8"), ("stride1", "i8")]
)
Table = NDArray[np.void]


HOST_BYTES = 16


def host_key() -> bytes:
    """Equal on two processes only if they run on the same node and see each other's pids."""
    return _host_key(os.getpid())


@lru_cache(maxsize=1)
def _host_key(_pid: int) -> bytes:  # a child may be in another namespace
    boot = Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
    space = str(Path("/proc/self/ns/pid").stat().st_ino).encode()
    return hashlib.blake2b(boot + space, digest_size=HOST_BYTES).digest()


@dataclass(frozen=True, slots=True)
class Location:
    """Where a neighbour finds an array: the segment's descriptor, name, and a byte offset."""

    fd: int
    name: str
    offset: int


def location_of(row: np.void) -> Location:
    """The place that a row of a table describes."""
    return Location(int(row["fd"]), row["name"].decode(), int(row["offset"]))


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


Place: TypeAlias = tuple[int, bytes, bool]  # process, name of its segment, for writing


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
        self._mappings: dict[Place, _Mapping] = {}
        self._round = 0

    def in_use(self) -> tuple[mmap.mmap, ...]:
        """The memory that was asked for in this round."""
        seen = self._mappings.values()
        return tuple(mapping.memory for mapping in seen if mapping.round == self._round)

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
        place = pid, row["name"], writing
        mapping = self._mappings.get(place)
        if mapping is None:
            segment = open_segment(pid, location_of(row), writing=writing)
            mapping = self._mappings[place] = _Mapping(segment)
        mapping.round = self._round
        strides = int(row["stride0"]), int(row["stride1"])
        strides = strides[::-1] if transposed else strides
        keeper = np.frombuffer(mapping.memory, dtype=np.uint8)
        return Part(address_of(keeper) + int(row["offset"]), item, *strides, keeper)

    def end(self) -> None:
        """Drop mappings that were not used lately."""
        self._mappings = {
            place: mapping
            for place, mapping in self._mappings.items()
            if mapping.round > self._round - 2
        }


def open_segment(pid: int, location: Location, *, writing: bool) -> mmap.mmap:
    """Map the shared memory of process ``pid``.

    Raises:
        OSError: it cannot be opened, or is not the segment named.
    """
    path = f"/proc/{pid}/fd/{location.fd}"
    fd = os.open(path, (os.O_RDWR if writing else os.O_RDONLY) | os.O_CLOEXEC)
    try:
        if not Path(path).readlink().name.startswith(f"memfd:{location.name}"):
            raise OSError(f"{path} is not the segment {location.name}")
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if writing else 0)
        return mmap.mmap(fd, os.fstat(fd).st_size, prot=protection)
    finally:
        os.close(fd)
