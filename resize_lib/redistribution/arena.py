"""Memory that is kept between redistributions, and that other processes of the node can read.

The first touch of fresh pages costs more than the move itself, so an arena keeps freed memory and
reuses it. Shared segments are memfds: another process opens them as /proc/PID/fd/N, which needs no
/dev/shm, works across spawned and merged communicators (where MPI's own shared windows fail), and
leaves nothing behind when a process dies.

The memory of an array from ``empty`` returns to the arena when the last reference to it is gone.
"""

from __future__ import annotations

import mmap
import os
import secrets
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from resize_lib.redistribution.blocks import Array, RawBytes, address_of, byte_bounds
from resize_lib.redistribution.types import Order

PAGE_BYTES = mmap.PAGESIZE
HUGE_PAGE_BYTES = 2 << 20
MADV_POPULATE_WRITE = 23  # <linux/mman.h>, since Linux 5.14; Python has no name for it
KEPT_BYTES_MIN = 64 << 20  # free memory that is kept whatever is in use


@dataclass(frozen=True, slots=True)
class Location:
    """Where another process finds an array: a segment's descriptor and name, and a byte offset."""

    fd: int
    name: str
    offset: int


def open_segment(pid: int, location: Location, *, writing: bool) -> mmap.mmap:
    """Map the shared memory of process ``pid``.

    Raises:
        OSError: it cannot be opened, or is not the segment named.
    """
    path = f"/proc/{pid}/fd/{location.fd}"
    fd = os.open(path, (os.O_RDWR if writing else os.O_RDONLY) | os.O_CLOEXEC)
    try:
        # In another pid namespace the same pid is another process: believe only the name.
        if not Path(path).readlink().name.startswith(f"memfd:{location.name}"):
            raise OSError(f"{path} is not the segment {location.name}")
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if writing else 0)
        return mmap.mmap(fd, os.fstat(fd).st_size, prot=protection)
    finally:
        os.close(fd)


@dataclass(slots=True, eq=False)
class Segment:
    """One mapping; ``fd`` and ``name`` let others open it (fd is -1 for private memory)."""

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
        """Give whole pages of the last ``nbytes`` back; False if a view of the memory is alive."""
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

    ``shared``: parts lie in memory that other processes can read; otherwise in private huge pages.
    Falls back to private memory where the system has no memfd.
    """

    def __init__(self, *, shared: bool = True) -> None:
        self.shared = shared and hasattr(os, "memfd_create")
        self._free: list[Segment] = []
        self._used: dict[int, Segment] = {}  # by address
        self._scratch: dict[str, RawBytes] = {}

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike, order: Order = "C") -> Array:
        """A new array with any content, as ``numpy.empty``; shared if the arena is.

        Raises:
            MemoryError: the system has none left.
        """
        return self._array(shape, np.dtype(dtype), order, fresh_shared=self.shared)

    def empty_quick(self, shape: tuple[int, ...], dtype: DTypeLike, order: Order = "C") -> Array:
        """As ``empty``, but never in fresh shared pages: kept memory, or private huge pages.

        A first touch of shared pages takes several times as long as one of huge pages. The price:
        a part in private memory may have to move by messages the next time.
        """
        return self._array(shape, np.dtype(dtype), order, fresh_shared=False)

    def _array(
        self, shape: tuple[int, ...], dtype: np.dtype[np.generic], order: Order, fresh_shared: bool
    ) -> Array:
        segment = self._take(max(prod(shape) * dtype.itemsize, 1), fresh_shared=fresh_shared)
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
            segment = _new_segment(size, shared=False)
            buffer = self._scratch[name] = np.frombuffer(segment.memory, dtype=np.uint8)
        return buffer[:nbytes]

    def reserve(self, sizes: Iterable[int]) -> None:
        """Have free memory of these sizes (bytes) whose pages are there, for arrays to come.

        As far as the system gives it: what is missing is made when it is needed.
        """
        for nbytes in sizes:
            try:
                segment = _new_segment(_round_up(max(nbytes, 1)), shared=self.shared)
                segment.memory.madvise(MADV_POPULATE_WRITE)
            except (MemoryError, OSError):
                return
            self._free.append(segment)

    def locate(self, array: Array) -> Location | None:
        """Where others find ``array``'s first item; None if it is not in shared memory."""
        low, high = byte_bounds(array)
        for start, segment in self._used.items():
            if segment.fd >= 0 and start <= low and high <= start + segment.capacity:
                return Location(segment.fd, segment.name, address_of(array) - start)
        return None

    def trim(self, keep_bytes: int | None = None) -> None:
        """Give free memory beyond ``keep_bytes`` back to the system, smallest segments first.

        Default: as much as is in use, and at least ``KEPT_BYTES_MIN``. Call it when the old parts
        are gone.
        """
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
        name = f"dq-{secrets.token_hex(8)}"  # random: it proves that a reader has the right one
        fd = os.memfd_create(name, os.MFD_CLOEXEC)
        try:
            os.ftruncate(fd, size)
            return Segment(mmap.mmap(fd, size), fd, name)
        except BaseException:
            os.close(fd)
            raise
    except OSError as error:
        raise MemoryError(f"no memory for a segment of {size} bytes: {error}") from error
