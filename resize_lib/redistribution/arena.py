"""Memory that is kept between redistributions, and that neighbours on the node can read.

The first touch of fresh pages costs more than the move itself, so an arena keeps what is given
back and hands it out again, and can touch memory ahead of time (``prepare``). Shared segments are
memfds: a neighbour opens them as /proc/PID/fd/N, which needs no /dev/shm, works across spawned
and merged communicators, and leaves nothing behind when a process dies.

An array from ``empty`` returns to the arena when the last reference to it is gone.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import secrets
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from resize_lib.redistribution.copying import Array, RawBytes, address_of, byte_bounds
from resize_lib.redistribution.neighbours import Location, Neighbours
from resize_lib.redistribution.repeats import Repeats

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

    def shrink(self, nbytes: int) -> bool:
        """Give whole pages of the last ``nbytes`` back; False if something still looks at them."""
        keep = (self.capacity - nbytes) // PAGE_BYTES * PAGE_BYTES
        try:
            self.memory.resize(keep)
            self.start = address_of(np.frombuffer(self.memory, dtype=np.uint8))
        except (BufferError, OSError, ValueError, SystemError):
            return False
        return True

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
        self.repeats = Repeats()

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike, order: Order = "C") -> Array:
        """A new array with any content, as ``numpy.empty``; shared if the arena is.

        Raises:
            MemoryError: the system has none left.
        """
        return self._array(shape, np.dtype(dtype), order, fresh_shared=self.shared)

    def empty_quick(self, shape: tuple[int, ...], dtype: DTypeLike, order: Order = "C") -> Array:
        """As ``empty``, but never in fresh shared pages: kept memory, or private huge pages.

        A first touch of shared pages is several times as slow as one of huge pages. What lies in
        private memory may have to move by messages the next time.
        """
        return self._array(shape, np.dtype(dtype), order, fresh_shared=False)

    def empty_at(
        self, address: int, shape: tuple[int, ...], dtype: DTypeLike, order: Order = "C"
    ) -> Array | None:
        """As ``empty``, in kept memory at ``address`` only; None if there is none that fits."""
        nbytes = prod(shape) * np.dtype(dtype).itemsize
        for place, segment in enumerate(self._free):
            if segment.start == address and segment.capacity >= nbytes:
                return self._array_in(self._free.pop(place), shape, np.dtype(dtype), order)
        return None

    def _array(
        self, shape: tuple[int, ...], dtype: np.dtype[np.generic], order: Order, fresh_shared: bool
    ) -> Array:
        segment = self._take(max(prod(shape) * dtype.itemsize, 1), fresh_shared=fresh_shared)
        return self._array_in(segment, shape, dtype, order)

    def _array_in(
        self, segment: Segment, shape: tuple[int, ...], dtype: np.dtype[np.generic], order: Order
    ) -> Array:
        try:
            array: Array = np.ndarray(shape, dtype, buffer=segment.memory, order=order)
        except BaseException:
            self._free.append(segment)
            raise
        self._used[segment.start] = segment
        weakref.finalize(array, self._give_back, segment).atexit = False
        return array

    def scratch(self, name: str, nbytes: int) -> RawBytes:
        """A private buffer that is kept under ``name`` and grows when needed.

        It begins with a page: copies to and from odd addresses are half as fast.
        """
        buffer = self._scratch.get(name)
        if buffer is None or buffer.size < nbytes:
            self._scratch.pop(name, None)
            self.repeats = Repeats()  # what they refer to is gone
            size = -(-max(nbytes, 1) // PAGE_BYTES) * PAGE_BYTES
            segment = _new_segment(size, shared=False)
            buffer = self._scratch[name] = np.frombuffer(segment.memory, dtype=np.uint8)
        return buffer[:nbytes]

    def prepare(self, sizes: Iterable[int]) -> None:
        """Touch memory now, so that later arrays of these ``sizes`` (bytes) are quick.

        Meant for a process that waits, or for a thread beside one that computes.
        """
        taken: list[Segment] = []
        try:
            for size in sizes:
                taken.append(self._take(max(size, 1), fresh_shared=self.shared))
                _touch(taken[-1])
        finally:
            self._free += taken

    def locate(self, array: Array) -> Location | None:
        """Where a neighbour finds ``array``'s first item; None if it is not in shared memory."""
        low, high = byte_bounds(array)
        for start, segment in self._used.items():
            if segment.fd >= 0 and start <= low and high <= start + segment.capacity:
                return Location(segment.fd, segment.name, address_of(array) - start)
        return None

    def trim(self, keep_bytes: int | None = None) -> None:
        """Give free memory beyond ``keep_bytes`` back to the system, smallest segments first.

        Default: as much as is in use, and at least ``KEPT_BYTES_MIN``. Call it when the old parts
        are gone. Neighbours' memory is let go of as well: what they give back is then really gone.
        """
        self.neighbours, self.repeats = Neighbours(), Repeats()
        if keep_bytes is None:
            keep_bytes = max(self.used_bytes, KEPT_BYTES_MIN)
        self._free.sort(key=lambda segment: segment.capacity)
        while self._free and (surplus := self.free_bytes - keep_bytes) > 0:
            if surplus < self._free[0].capacity and self._free[0].shrink(surplus):
                break
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
        self.neighbours, self.repeats = Neighbours(), Repeats()
        self._free.clear()
        self._used.clear()
        self._scratch.clear()

    def _take(self, nbytes: int, *, fresh_shared: bool) -> Segment:
        """The smallest free segment that fits, a shared one first; or a new one."""
        fitting = [segment for segment in self._free if segment.capacity >= nbytes]
        if fresh_shared:
            fitting = [segment for segment in fitting if segment.fd >= 0]
        if not fitting:
            return _new_segment(_round_up(nbytes), shared=fresh_shared)
        segment = min(fitting, key=lambda segment: (segment.fd < 0, segment.capacity))
        self._free.remove(segment)
        return segment

    def _give_back(self, segment: Segment) -> None:
        if self._used.pop(segment.start, None) is not None:
            self._free.append(segment)


def _round_up(nbytes: int) -> int:
    unit = HUGE_PAGE_BYTES if nbytes >= HUGE_PAGE_BYTES else PAGE_BYTES
    return -(-nbytes // unit) * unit


def _new_segment(size: int, *, shared: bool) -> Segment:
    """``size``: whole pages."""
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


def _touch(segment: Segment) -> None:
    """Fault every page in; other threads of this process go on meanwhile."""
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if madvise(segment.start, segment.capacity, MADV_POPULATE_WRITE) != 0:
        # A kernel before 5.14: write one byte per page.
        np.frombuffer(segment.memory, dtype=np.uint8)[::PAGE_BYTES] = 0
