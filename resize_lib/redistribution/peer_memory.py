"""The memory of another process of this node: one copy, straight from part to part.

Linux copies between two processes of one user in one call (process_vm_readv(2)), wherever the
memory lies: parts stay in private memory, whose first touch in huge pages takes a sixth of that of
shared pages, and giving it back almost nothing. The system may forbid it (a container's filter,
Yama): then data go by message.
"""

from __future__ import annotations

import ctypes
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resize_lib.redistribution.blocks import Part, RawBytes, address_of, copy_runs
from resize_lib.redistribution.runs import Box, Run, share_of

TOKEN_BYTES = 16
# Shorter stretches cost less by way of a window: each costs the kernel 30 ns where it goes, and
# 0.4 us where it comes from.
DIRECT_MIN = 640
GAP_MAX = 4096  # as much is read in the time that another stretch takes
BATCH = 4096  # stretches whose addresses are worked out together: they stay in the cache
WINDOW_BYTES_MIN, WINDOW_BYTES = 64 << 10, 4 << 20  # from the first to the last item of a window
WINDOW_ITEMS_BYTES = 1 << 20  # that are wanted of it: they stay in a core's own cache
STRETCHES_MAX = 1024  # IOV_MAX
CALL_BYTES_MAX = 1 << 30  # the kernel moves at most 2 GiB in a call

PR_GET_DUMPABLE = 3
PR_SET_PTRACER = 0x59616D61
PR_SET_PTRACER_ANY = ctypes.c_ulong(-1)
YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")

# Proves that a pid is the process that told its address: in another pid namespace it is not.
_token = ctypes.create_string_buffer(TOKEN_BYTES)
NO_TOKEN = bytes(TOKEN_BYTES)

Addresses: TypeAlias = NDArray[np.int64]
Numbers: TypeAlias = Addresses | Sequence[int]  # where there are few, an array costs more
# Of a process: stretches there, here, their lengths.
Move: TypeAlias = Callable[[int, Numbers, Numbers, Numbers], None]
Vectors: TypeAlias = NDArray[np.int64]  # a row each: struct iovec, base and length
VECTOR_BYTES = 16
READ, WRITE = "process_vm_readv", "process_vm_writev"
_TwoVectors = ctypes.c_int64 * 4  # one on each side


def token() -> bytes:
    """This process's proof of identity; it stays where it is: another process reads it there."""
    if _token.raw == NO_TOKEN:
        _token.raw = secrets.token_bytes(TOKEN_BYTES)
    return _token.raw


def token_at() -> int:
    """Where the token stands."""
    return ctypes.addressof(_token)


def _forget_token() -> None:
    _token.raw = NO_TOKEN


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_token)


def permitted() -> bool:
    """Whether other processes of this user may read and write this one, as far as it can tell."""
    return _permitted(os.getpid())


@lru_cache(maxsize=1)
def _permitted(pid: int) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "process_vm_readv") or libc.prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 1:
        return False
    scope = int(YAMA.read_text()) if YAMA.exists() else 0
    if scope > 1 or (scope == 1 and libc.prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0)):
        return False
    try:
        check(pid, token_at(), token())
        same = np.array([token_at()]), np.array([token_at()]), np.array([TOKEN_BYTES])
        write(pid, *same)
    except OSError:
        return False
    return True


def check(pid: int, address: int, expected: bytes) -> None:
    """Make sure that the process ``pid`` is the one whose ``token`` this is.

    Raises:
        OSError: it is not, or it cannot be read.
    """
    found = ctypes.create_string_buffer(TOKEN_BYTES)
    _one(READ, pid, address, ctypes.addressof(found), TOKEN_BYTES)
    if found.raw != expected:
        raise OSError(f"process {pid} is not the rank that sent the address of its data")


def read(pid: int, remote: Numbers, local: Numbers, lengths: Numbers) -> None:
    """Copy stretches of memory from process ``pid``; all are parallel, in bytes.

    Raises:
        OSError: they cannot be read.
    """
    _move(READ, pid, remote, local, lengths)


def write(pid: int, remote: Numbers, local: Numbers, lengths: Numbers) -> None:
    """Copy stretches of memory to process ``pid``, as ``read``.

    That process must let nobody use this memory until it knows that the call has returned.
    """
    _move(WRITE, pid, remote, local, lengths)


def _move(call: str, pid: int, remote: Numbers, local: Numbers, lengths: Numbers) -> None:
    if len(lengths) == 1 and lengths[0] <= CALL_BYTES_MAX:
        _one(call, pid, int(remote[0]), int(local[0]), int(lengths[0]))
        return
    remote, local, lengths = map(np.asarray, (remote, local, lengths))
    total = int(lengths.sum())
    if len(lengths) <= STRETCHES_MAX and total <= CALL_BYTES_MAX:
        _call(pid, _vectors(local, lengths), _vectors(remote, lengths), total, call)
        return
    if lengths.max() > CALL_BYTES_MAX:
        remote, local, lengths = _cut(remote, local, lengths)
    ours, theirs = _vectors(local, lengths), _vectors(remote, lengths)
    ends = np.cumsum(lengths)
    first = done = 0
    while first < len(lengths):
        fitting = int(np.searchsorted(ends, done + CALL_BYTES_MAX, side="right"))
        last = min(fitting, first + STRETCHES_MAX)
        _call(pid, ours[first:last], theirs[first:last], int(ends[last - 1]) - done, call)
        first, done = last, int(ends[last - 1])


def _vectors(base: Addresses, length: Addresses) -> Vectors:
    vectors = np.empty((len(base), 2), np.int64)
    vectors[:, 0], vectors[:, 1] = base, length
    return vectors


def _cut(
    remote: Addresses, local: Addresses, lengths: Addresses
) -> tuple[Addresses, Addresses, Addresses]:
    """The same in stretches that one call can copy."""
    parts = -(-lengths // CALL_BYTES_MAX)
    starts = np.concatenate([np.arange(n) * CALL_BYTES_MAX for n in parts.tolist()])
    rest = np.repeat(lengths, parts) - starts
    return (
        np.repeat(remote, parts) + starts,
        np.repeat(local, parts) + starts,
        np.minimum(rest, CALL_BYTES_MAX),
    )


def _one(call: str, pid: int, remote: int, local: int, nbytes: int) -> None:
    """Copy one stretch, of at most CALL_BYTES_MAX: without arrays, which cost 10 µs."""
    vectors = _TwoVectors(local, nbytes, remote, nbytes)
    ours = ctypes.addressof(vectors)
    moved = _function(call)(pid, ours, 1, ours + VECTOR_BYTES, 1, 0)
    _moved(pid, moved, nbytes, call)


def _call(
    pid: int,
    ours: Vectors,
    theirs: Vectors,
    nbytes: int,
    call: str = READ,
) -> None:
    sides = address_of(ours), len(ours), address_of(theirs), len(theirs)
    _moved(pid, _function(call)(pid, *sides, 0), nbytes, call)


def _moved(pid: int, moved: int, nbytes: int, call: str) -> None:
    """Raise unless a call has ``moved`` all of ``nbytes``."""
    if moved < 0:
        number = ctypes.get_errno()
        what = "read" if call == READ else "written"
        raise OSError(
            number, f"the memory of process {pid} cannot be {what}: {os.strerror(number)}"
        )
    if moved != nbytes:
        raise OSError(f"process {pid} has only {moved} of {nbytes} bytes where its data should be")


@lru_cache(maxsize=2)
def _function(name: str) -> Any:
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    vectors = ctypes.c_void_p, ctypes.c_ulong
    function.argtypes = (ctypes.c_int, *vectors, *vectors, ctypes.c_ulong)
    function.restype = ctypes.c_ssize_t
    return function


def window_bytes(part_bytes: int) -> int:
    """How large a window should be for parts of at most ``part_bytes``."""
    return min(max(part_bytes, WINDOW_BYTES_MIN), WINDOW_BYTES)


def read_box(
    pid: int,
    window: RawBytes,
    box: Box,
    source: Part,
    destination: Part,
    *,
    long_too: bool = True,
) -> int:
    """``blocks.copy_box`` from a part of process ``pid``; returns the bytes. ``window``: scratch.

    ``long_too``: if not, all but what ``write_box`` writes.

    Raises:
        OSError: it cannot be read; some items may have been copied.
    """
    nbytes = 0
    for some in _shared(box, source, destination):
        if some.is_long and not long_too:
            continue
        nbytes += some.nbytes
        if some.is_long:
            for remote, local in some.batches():
                _read_together(pid, remote, local, some.width, window)
            continue
        for runs, extent in _windows(some.runs, source, some.old, window.size):
            _by_window(pid, runs, extent, source, destination, window)
    return nbytes


def write_box(pid: int, box: Box, source: Part, destination: Part) -> int:
    """``blocks.copy_box`` to a part of process ``pid``; returns the bytes.

    Only long stretches: what lies between short ones there is not to be written.

    Raises:
        OSError: it cannot be written; some items may have been copied.
    """
    nbytes = 0
    for some in _shared(box, source, destination):
        if some.is_long:
            nbytes += some.nbytes
            for local, remote in some.batches():
                write(pid, remote, local, np.full(len(local), some.width))
    return nbytes


# (how many, bytes from one to the next), innermost first.
Dimensions: TypeAlias = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Shared:
    """The product of one run per axis, as it lies in the old and in the new part."""

    runs: Sequence[Run]
    ends: tuple[Part, Part]
    old: Dimensions
    new: Dimensions
    width: int  # bytes of its stretches
    inner: int  # how many dimensions a stretch has

    @property
    def is_long(self) -> bool:
        """Whether its stretches are too long for a window."""
        return self.width >= DIRECT_MIN

    @property
    def nbytes(self) -> int:
        """All of it."""
        return prod(run.items for run in self.runs) * self.ends[0].item

    def batches(self) -> Iterator[tuple[Addresses, Addresses]]:
        """Where the stretches begin, in the old and in the new part."""
        first = (
            self.ends[0].at(run.source for run in self.runs),
            self.ends[1].at(run.destination for run in self.runs),
        )
        return _batches(first, (self.old[self.inner :], self.new[self.inner :]))


def _shared(box: Box, source: Part, destination: Part) -> Iterator[_Shared]:
    for runs in product(*box):
        old = _dimensions(runs, source, old=True)
        new = _dimensions(runs, destination, old=False)
        yield _Shared(runs, (source, destination), old, new, *_contiguous(source.item, old, new))


def _dimensions(runs: Sequence[Run], part: Part, *, old: bool) -> Dimensions:
    found: Dimensions = []
    for run, stride in zip(reversed(runs), reversed(part.strides), strict=True):
        step = run.source_stride if old else run.destination_stride
        found += (run.length, stride), (run.count, step * stride)
    return found


def _contiguous(item: int, *sides: Dimensions) -> tuple[int, int]:
    """Bytes of the longest stretches without a gap on any side, and of how many dimensions."""
    width = item
    for inner, steps in enumerate(zip(*sides, strict=True)):
        count = steps[0][0]
        if count > 1 and any(step != width for _, step in steps):
            return width, inner
        width *= count
    return width, len(sides[0])


def _starts(first: int, outer: Dimensions) -> Addresses:
    """Where the stretches begin, in the order of the items."""
    starts = np.array([first], np.int64)
    for count, step in outer:
        if count > 1:
            starts = (np.arange(count)[:, np.newaxis] * step + starts).ravel()
    return starts


def _batches(
    first: tuple[int, int], sides: tuple[Dimensions, Dimensions]
) -> Iterator[tuple[Addresses, Addresses]]:
    """Where the stretches begin on both sides, at most about BATCH of them at a time."""
    split, together = 0, 1
    for count, _ in sides[0]:
        if together * count > BATCH:
            break
        together, split = together * count, split + 1
    inner = [_starts(at, side[:split]) for at, side in zip(first, sides, strict=True)]
    outer = [_starts(0, side[split:]) for side in sides]
    rows = max(1, BATCH // together)
    for row in range(0, len(outer[0]), rows):
        remote, local = (
            (shifts[row : row + rows, np.newaxis] + starts).ravel()
            for shifts, starts in zip(outer, inner, strict=True)
        )
        yield remote, local


def _read_together(
    pid: int, remote: Addresses, local: Addresses, width: int, scratch: RawBytes
) -> None:
    """Copy stretches of ``width`` bytes, those that lie near each other there as one.

    What lies between them goes to ``scratch``, always to the same place, which stays in the cache.
    """
    gap_max = min(GAP_MAX, scratch.size)
    each_call = min(STRETCHES_MAX // 2, CALL_BYTES_MAX // (width + gap_max))
    gaps = np.diff(remote, append=remote[-1]) - width  # the last one: none
    joined = (gaps >= 0) & (gaps <= gap_max)
    if each_call < 2 or not joined.any():
        read(pid, remote, local, np.full(len(local), width))
        return
    joined[each_call - 1 :: each_call] = False
    ours = np.empty((len(local), 2, 2), np.int64)  # each with the gap behind it
    ours[:, 0, 0], ours[:, 0, 1] = local, width
    ours[:, 1, 0], ours[:, 1, 1] = address_of(scratch), np.where(joined, gaps, 0)
    begins = np.flatnonzero(np.concatenate(([True], ~joined[:-1])))
    ends = np.append(remote[begins[1:] - 1], remote[-1]) + width
    theirs = _vectors(remote[begins], ends - remote[begins])
    calls = np.searchsorted(begins, np.arange(0, len(local), each_call)).tolist()
    for k, (one, following) in enumerate(pairwise([*calls, len(begins)])):
        into = ours[k * each_call : (k + 1) * each_call].reshape(-1, 2)
        out_of = theirs[one:following]
        _call(pid, into, out_of, int(out_of[:, 1].sum()))


def _cover(low: int, dimensions: Dimensions, item: int) -> tuple[Addresses, int]:
    """Where stretches that cover all items begin, with small gaps between items, and their bytes.

    ``low``: the first address of any item.
    """
    width = item
    outer: Dimensions = []
    for step, count in sorted((abs(step), count) for count, step in dimensions if count > 1):
        if step - width <= GAP_MAX and not outer:
            width = max(width, (count - 1) * step + width)
        else:
            outer.append((count, step))
    return _starts(low, outer), width


@dataclass(frozen=True, slots=True)
class _Extent:
    """Where the items of some runs lie in the old part."""

    low: int  # the first address
    high: int  # the one after the last
    dimensions: Dimensions

    @classmethod
    def of(cls, runs: Sequence[Run], part: Part, dimensions: Dimensions) -> _Extent:
        low = high = part.at(run.source for run in runs)
        for count, step in dimensions:
            if step < 0:
                low += (count - 1) * step
            else:
                high += (count - 1) * step
        return cls(low, high + part.item, dimensions)


def _windows(
    runs: Sequence[Run], part: Part, dimensions: Dimensions, size: int
) -> Iterator[tuple[Sequence[Run], _Extent]]:
    """The items of these runs in pieces that fit into a window of ``size`` bytes."""
    extent = _Extent.of(runs, part, dimensions)
    nbytes = prod(run.items for run in runs) * part.item
    pieces = max(-(-(extent.high - extent.low) // size), -(-nbytes // WINDOW_ITEMS_BYTES))
    # The outermost axis that has something to cut.
    axis = next((k for k, run in enumerate(runs) if run.items > 1), None)
    if axis is None or pieces == 1:
        yield runs, extent
        return
    pieces = min(pieces, runs[axis].items)
    for piece in range(pieces):
        for some in share_of((runs[axis],), piece, pieces):
            fewer = (*runs[:axis], some, *runs[axis + 1 :])
            yield from _windows(fewer, part, _dimensions(fewer, part, old=True), size)


def _by_window(
    pid: int,
    runs: Sequence[Run],
    extent: _Extent,
    source: Part,
    destination: Part,
    window: RawBytes,
) -> None:
    """Read what is wanted of a window to where it would be if the window began in scratch."""
    begins, width = _cover(extent.low, extent.dimensions, source.item)
    shift = address_of(window) - extent.low
    if len(begins) == 1:
        _one(READ, pid, extent.low, extent.low + shift, width)
    else:
        read(pid, begins, begins + shift, np.full(len(begins), width))
    here = Part(source.address + shift, source.item, source.strides, window)
    copy_runs(runs, here, destination)
