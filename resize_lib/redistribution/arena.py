"""Memory that is kept between redistributions, and that neighbours on the node can read.

The first touch of fresh pages costs more than the move itself, so an arena keeps what is given
back and hands it out again, and can touch memory ahead of time (``prepare``). Shared segments are
memfds: a neighbour opens them as /proc/PID/fd/N, which needs no /dev/shm, works across spawned
and merged communicators, and leaves nothing behind when a process dies.

An array from ``empty`` returns to the arena when the last reference to it is gone.
"""

from __future__ import annotations

import mmap
import os
import secrets
import weakref
from dataclasses import dataclass, field
from math import prod
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from resize_lib.redistribution.copying import Array, RawBytes, address_of, byte_bounds
from resize_lib.redistribution.neighbours import Location, Neighbours

Order: TypeAlias = Literal["C", "F"]

PAGE_BYTES = mmap.PAGESIZE
HUGE_PAGE_BYTES = 2 << 20
KEPT_BYTES_MIN = 64 << 20  # free memory that is kept whatever is in use
MADV_POPULATE_WRITE = 23  # linux/mman.h; Linux 5.14


@dataclass(slots=True, eq=False)
class Segment:
    """One mapping; ``fd`` and ``name`` let a neighbour open it (fd is -1 for private memory)."""

    memory: mmap.mmap
    fd: int
    name: str
    start: int = field(init=False)  # address

    def __post_init__(self) -> None:
        self.start = address_of(np.frombuffer(self.memory, dtype=np.uint8))

    @property
    def capacity(self) -> int:
        """Bytes."""
        return len(self.memory)

    def close(self) -> None:
        """Give the memory back to the system; views that are still alive keep the mapping."""
        if self.fd >= 0:
            os.close(self.fd)
        # Not memory.close(): that raises while a view is alive; dropping the reference unmaps.


class Arena:
    """Keeps and hands out memory for local parts and exchange buffers of one process.

    ``shared``: parts lie in memory that neighbours can read; otherwise in private huge pages.
    Falls back to private memory where the system has no memfd.
    """

    def __init__(self, *, shared: bool = True) -> None:
        self.shared = shared and hasattr(os, "memfd_create")
        self._free: list[Segment] = []
        self._used: dict[int, Segment] = {}  # by address
        self._scratch: dict[str, RawBytes] = {}
        self.neighbours = Neighbours()

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike, order: Order = "C") -> Array:
        """A new array with any content, as ``numpy.empty``.

        Raises:
            MemoryError: the system has none left.
        """
        dtype = np.dtype(dtype)
        segment = self._take(max(prod(shape) * dtype.itemsize, 1))
        array: Array = np.ndarray(shape, dtype, buffer=segment.memory, order=order)
        self._used[segment.start] = segment
        weakref.finalize(array, self._give_back, segment).atexit = False
        return array

    def scratch(self, name: str, nbytes: int) -> RawBytes:
        """A private buffer that is kept under ``name`` and grows when needed."""
        buffer = self._scratch.get(name)
        if buffer is None or buffer.size < nbytes:
            self._scratch.pop(name, None)
            buffer = self._scratch[name] = np.empty(nbytes, dtype=np.uint8)
        return buffer[:nbytes]

    def prepare(self, nbytes: int) -> None:
        """Touch ``nbytes`` of memory now, so that a later ``empty`` of that size is quick."""
        segment = self._take(nbytes)
        _touch(segment.memory)
        self._free.append(segment)

    def locate(self, array: Array) -> Location | None:
        """Where a neighbour finds ``array``'s first item; None if it is not in shared memory."""
        low, high = byte_bounds(array)
        for start, segment in self._used.items():
            if segment.fd >= 0 and start <= low and high <= start + segment.capacity:
                return Location(segment.fd, segment.name, address_of(array) - start)
        return None

    def trim(self, keep_bytes: int | None = None) -> None:
        """Give free memory beyond ``keep_bytes`` back to the system, smallest segments first.

        Default: as much as is in use, and at least ``KEPT_BYTES_MIN``.
        """
        if keep_bytes is None:
            keep_bytes = max(self.used_bytes, KEPT_BYTES_MIN)
        self._free.sort(key=lambda segment: segment.capacity)
        while self._free and self.free_bytes > keep_bytes:
            self._free.pop(0).close()

    @property
    def used_bytes(self) -> int:
        """Memory behind arrays that are alive."""
        return sum(segment.capacity for segment in self._used.values())

    @property
    def free_bytes(self) -> int:
        """Memory kept for later."""
        return sum(segment.capacity for segment in self._free)

    def close(self) -> None:
        """Give everything back; arrays that are alive stay valid, but are not kept after."""
        for segment in [*self._free, *self._used.values()]:
            segment.close()
        self._free.clear()
        self._used.clear()
        self._scratch.clear()

    def _take(self, nbytes: int) -> Segment:
        fitting = [segment for segment in self._free if segment.capacity >= nbytes]
        if not fitting:
            return _new_segment(nbytes, shared=self.shared)
        segment = min(fitting, key=lambda segment: segment.capacity)
        self._free.remove(segment)
        return segment

    def _give_back(self, segment: Segment) -> None:
        if self._used.pop(segment.start, None) is not None:
            self._free.append(segment)


def _round_up(nbytes: int) -> int:
    unit = HUGE_PAGE_BYTES if nbytes >= HUGE_PAGE_BYTES else PAGE_BYTES
    return -(-nbytes // unit) * unit


def _new_segment(nbytes: int, *, shared: bool) -> Segment:
    size = _round_up(nbytes)
    try:
        if not shared:
            memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            if size >= HUGE_PAGE_BYTES:
                memory.madvise(mmap.MADV_HUGEPAGE)
            return Segment(memory, -1, "")
        name = f"dq-{secrets.token_hex(8)}"
        fd = os.memfd_create(name, os.MFD_CLOEXEC)
        try:
            os.ftruncate(fd, size)
            return Segment(mmap.mmap(fd, size), fd, name)
        except BaseException:
            os.close(fd)
            raise
    except OSError as error:
        raise MemoryError(f"no memory for a segment of {size} bytes: {error}") from error


def _touch(memory: mmap.mmap) -> None:
    try:
        memory.madvise(MADV_POPULATE_WRITE)
    except OSError:  # an older kernel: write one byte per page
        np.frombuffer(memory, dtype=np.uint8)[::PAGE_BYTES] = 0
