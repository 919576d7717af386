"""Memory that is kept between redistributions.

The first touch of fresh pages costs more than the move itself, so an arena takes huge pages where
the system has them, keeps freed memory and reuses it.

The memory of an array from ``empty`` returns to the arena when the last reference to it is gone.
"""

from __future__ import annotations

import mmap
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from resize_lib.redistribution.blocks import Array, RawBytes, address_of
from resize_lib.redistribution.types import Order

PAGE_BYTES = mmap.PAGESIZE
HUGE_PAGE_BYTES = 2 << 20
HUGE_FROM_BYTES = 512 << 10  # touched in 57 us in a huge page, in 250 us in small ones
MADV_POPULATE_WRITE = 23  # <linux/mman.h>, since Linux 5.14; Python has no name for it
TOUCHED_AT_ONCE_BYTES = 8 << 20
KEPT_BYTES_MIN = 64 << 20  # free memory that is kept whatever is in use


@dataclass(slots=True, eq=False)
class Segment:
    """One mapping."""

    memory: mmap.mmap
    start: int = field(init=False)  # address

    def __post_init__(self) -> None:
        self.start = address_of(np.frombuffer(self.memory, dtype=np.uint8))

    @property
    def capacity(self) -> int:
        """Bytes."""
        return len(self.memory)

    def resize(self, nbytes: int) -> bool:
        """Take only the difference from the system, or give it back; False if that cannot be."""
        try:
            self.memory.resize(nbytes)
            self.start = address_of(np.frombuffer(self.memory, dtype=np.uint8))
        except (BufferError, OSError, ValueError, SystemError):
            return False
        return True


class Arena:
    """Keeps and hands out memory for local parts and exchange buffers of one process."""

    def __init__(self) -> None:
        self._free: list[Segment] = []
        self._used: dict[int, Segment] = {}  # by address
        self._scratch: dict[str, RawBytes] = {}

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike, order: Order = "C") -> Array:
        """A new array with any content, as ``numpy.empty``.

        Raises:
            MemoryError: the system has none left.
        """
        dtype = np.dtype(dtype)
        segment = self._take(max(prod(shape) * dtype.itemsize, 1))
        try:
            array: Array = np.ndarray(shape, dtype, buffer=segment.memory, order=order)
        except BaseException:
            self._free.append(segment)
            raise
        self._used[segment.start] = segment
        # Not at exit: views may outlive the interpreter's finalizers, and the system cleans up.
        weakref.finalize(array, self._give_back, segment).atexit = False
        return array

    def scratch(self, name: str, nbytes: int) -> RawBytes:
        """A private buffer that is kept under ``name`` and grows when needed.

        It begins with a page: copies to and from unaligned addresses are half as fast.
        """
        buffer = self._scratch.get(name)
        if buffer is None or buffer.size < nbytes:
            self._scratch.pop(name, None)  # first, so that never both exist
            size = -(-max(nbytes, 1) // PAGE_BYTES) * PAGE_BYTES
            segment = _new_segment(size)
            buffer = self._scratch[name] = np.frombuffer(segment.memory, dtype=np.uint8)
        return buffer[:nbytes]

    def reserve(self, sizes: Sequence[int]) -> Iterator[float]:
        """Have free memory of these sizes (bytes) whose pages are there, for arrays to come.

        Piece by piece, as the iterator is run; it gives the seconds that the rest should take. As
        far as the system gives memory: what is missing is made when it is needed.
        """
        capacities = [whole_pages(max(nbytes, 1)) for nbytes in sizes]
        begun_s, todo, done = time.perf_counter(), sum(capacities), 0
        for capacity in capacities:
            try:
                segment = _new_segment(capacity)
                for at in range(0, capacity, TOUCHED_AT_ONCE_BYTES):
                    nbytes = min(TOUCHED_AT_ONCE_BYTES, capacity - at)
                    segment.memory.madvise(MADV_POPULATE_WRITE, at, nbytes)
                    done += nbytes
                    yield (time.perf_counter() - begun_s) / done * (todo - done)
            except (MemoryError, OSError):
                return
            self._free.append(segment)

    def touch(self, array: Array) -> None:
        """Have the pages of an array of ``empty`` there, near the core that this process is on."""
        segment = self._used.get(address_of(array))
        with suppress(OSError):  # then the first to write does it
            if segment is not None:
                segment.memory.madvise(MADV_POPULATE_WRITE, 0, max(array.nbytes, 1))

    def trim(self, keep_bytes: int | None = None) -> None:
        """Give free memory beyond ``keep_bytes`` back to the system, smallest segments first.

        Default: as much as is in use, and at least ``KEPT_BYTES_MIN``. Call it when the old parts
        are gone.
        """
        if keep_bytes is None:
            keep_bytes = max(self.used_bytes, KEPT_BYTES_MIN)
        self._free.sort(key=lambda segment: segment.capacity)
        while self._free and (surplus := self.free_bytes - keep_bytes) > 0:
            smallest = self._free[0]
            left = (smallest.capacity - surplus) // PAGE_BYTES * PAGE_BYTES
            if left > 0 and smallest.resize(left):
                break
            del self._free[0]  # unmaps; views that are still alive keep the mapping

    @property
    def used_bytes(self) -> int:
        """Memory behind arrays that are alive."""
        return sum(segment.capacity for segment in self._used.values())

    @property
    def free_bytes(self) -> int:
        """Memory kept for later."""
        return sum(segment.capacity for segment in self._free)

    def _take(self, nbytes: int) -> Segment:
        """The smallest free segment that fits, the largest made larger, or a new one."""
        size = whole_pages(nbytes)
        fitting = [segment for segment in self._free if segment.capacity >= nbytes]
        if fitting:
            segment = min(fitting, key=lambda segment: segment.capacity)
        else:
            # One without huge pages would not get them by being made larger.
            large = [segment for segment in self._free if segment.capacity >= HUGE_PAGE_BYTES]
            if not large:
                return _new_segment(size)
            segment = max(large, key=lambda segment: segment.capacity)
            if not segment.resize(size):
                return _new_segment(size)
        self._free.remove(segment)
        return segment

    def _give_back(self, segment: Segment) -> None:
        if self._used.pop(segment.start, None) is not None:
            self._free.append(segment)


@lru_cache(maxsize=1)
def numa_nodes() -> int:
    """How many parts of this machine's memory are near other cores; 1 if it does not say."""
    return len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or 1


def whole_pages(nbytes: int) -> int:
    """``nbytes`` rounded up to pages, to huge ones where those pay."""
    unit = HUGE_PAGE_BYTES if nbytes >= HUGE_FROM_BYTES else PAGE_BYTES
    return -(-nbytes // unit) * unit


def _new_segment(size: int) -> Segment:
    """``size``: whole pages."""
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if size >= HUGE_PAGE_BYTES:
            memory.madvise(mmap.MADV_HUGEPAGE)
    except OSError as error:
        raise MemoryError(f"no memory for a segment of {size} bytes: {error}") from error
    return Segment(memory)
