"""A place in shared memory where the ranks of one node exchange records, asleep until all came.

Ranks that wait by testing an MPI request take time from those that still copy: with 16 ranks on
two cores, more than the exchange itself. Here a rank leaves its record, and sleeps in the kernel
until the last one wakes all. Setting it up costs a segment and a mapping per rank, so that only a
communicator on which ranks agree again and again gets one: the third redistribution has it.

On Linux (futex, memfd) and x86-64 only, whose processors show stores to others in the order in
which they were made: a record, and the parts copied before, before the number that announces it.
Elsewhere, and between nodes, ranks agree by MPI.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import secrets
import sys
import time
import weakref
from contextlib import suppress
from functools import lru_cache
from typing import ClassVar

import numpy as np
from mpi4py import MPI

from resize_lib.redistribution.copying import RawBytes, address_of
from resize_lib.redistribution.neighbours import Location, open_segment

RECORD_BYTES_MAX = 1 << 12
LINE_BYTES = 64
FUTEX = 202 if platform.machine() == "x86_64" and sys.maxsize > 1 << 32 else None
FUTEX_WAIT, FUTEX_WAKE = 0, 1
EVERYONE = 0x7FFFFFFF
WATCH_S = 1e-4  # before going to sleep
LOOKS = 16  # between two turns for MPI
LOST_WAKE_NS = 2_000_000  # two last ranks may each miss the other: look again after this,
LOST_WAKE_NS_MAX = 64_000_000  # and less and less often
TIMES_BEFORE = 1  # a communicator's second redistribution sets a meeting up for those after


class _Duration(ctypes.Structure):
    _fields_: ClassVar = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


_futex = ctypes.CDLL(None, use_errno=True).syscall
_futex.argtypes = (
    ctypes.c_long,
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.c_uint32,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_uint32,
)


class Meeting:
    """Exchanges of the ranks of one communicator, all on one node.

    ``fd`` and ``name`` let the others open the memory; fd is -1 where it was opened.
    """

    def __init__(self, memory: mmap.mmap, rank: int, size: int, fd: int, name: str) -> None:
        self.fd, self.name = fd, name
        self._closing: weakref.finalize[..., Meeting] | None = None
        self._rank, self._number = rank, 0
        self._woken = np.ndarray(1, np.uint32, memory)  # number of the last complete exchange
        self._came = np.ndarray(size, np.uint32, memory, LINE_BYTES, (LINE_BYTES,))
        at = (size + 1) * LINE_BYTES
        self._records = np.ndarray((2, size, RECORD_BYTES_MAX), np.uint8, memory, at)
        self._word = address_of(self._woken)
        self._number_of = ctypes.c_uint32.from_buffer(memory)

    @staticmethod
    def possible() -> bool:
        """Whether this system has what a meeting needs."""
        return FUTEX is not None and hasattr(os, "memfd_create")

    @classmethod
    def create(cls, size: int) -> Meeting:
        """On rank 0.

        Raises:
            OSError: the system has no memory for it.
        """
        name = f"dq-{secrets.token_hex(8)}"
        fd = os.memfd_create(name, os.MFD_CLOEXEC)
        try:
            nbytes = (size + 1) * LINE_BYTES + 2 * size * RECORD_BYTES_MAX
            os.ftruncate(fd, nbytes)
            meeting = cls(mmap.mmap(fd, nbytes), 0, size, fd, name)
        except BaseException:
            os.close(fd)
            raise
        meeting._closing = weakref.finalize(meeting, os.close, fd)
        return meeting

    @classmethod
    def join(cls, pid: int, location: Location, rank: int, size: int) -> Meeting:
        """On the other ranks; ``pid``: rank 0's.

        Raises:
            OSError: the memory cannot be opened, or is another.
        """
        return cls(open_segment(pid, location, writing=True), rank, size, -1, location.name)

    def close(self) -> None:
        """Nobody else will come."""
        if self._closing is not None:
            self._closing()

    def exchange(self, comm: MPI.Intracomm, record: RawBytes) -> RawBytes:
        """Every rank's ``record`` (equally long everywhere), one row per rank.

        ``comm``: what others still wait for from here goes on meanwhile.
        """
        self._number = number = (self._number + 1) & 0xFFFFFFFF
        records = self._records[number & 1]
        # Two sets of records: whoever leaves one in the next set knows that all came to this one,
        # and so have read the last.
        records[self._rank, : record.size] = record
        self._came[self._rank] = number
        if not self._complete(number):
            self._wait(comm, number)
        every: RawBytes = records[:, : record.size].copy()
        return every

    def _complete(self, number: int) -> bool:
        """Whether all came; wakes them if so."""
        if self._woken[0] == number:  # a rank that has seen all come may be ahead already
            return True
        if not (self._came == number).all():
            return bool(self._woken[0] == number)
        self._woken[0] = number
        _futex(FUTEX, self._word, FUTEX_WAKE, EVERYONE, None, None, 0)
        return True

    def _wait(self, comm: MPI.Intracomm, number: int) -> None:
        comm.Iprobe()  # lets MPI get on with what was sent
        if self._complete(number):
            return
        end_s = time.perf_counter() + WATCH_S
        while time.perf_counter() < end_s:
            for _ in range(LOOKS):
                os.sched_yield()
                if self._number_of.value == number:
                    return
            comm.Iprobe()  # lets MPI get on with what was sent
        nap_ns = LOST_WAKE_NS
        while not self._complete(number):
            comm.Iprobe()
            before = (number - 1) & 0xFFFFFFFF  # another value: woken meanwhile, no sleep
            limit = ctypes.byref(_Duration(0, nap_ns))
            failed = _futex(FUTEX, self._word, FUTEX_WAIT, before, limit, None, 0)
            if failed and ctypes.get_errno() in (errno.ENOSYS, errno.EPERM):
                time.sleep(WATCH_S)  # a sandbox that forbids it
            nap_ns = min(2 * nap_ns, LOST_WAKE_NS_MAX)


class Attendance:
    """What a communicator keeps between redistributions; the same on every rank but for ``offer``.

    ``times``: redistributions so far. ``meeting``: in use. ``offer``: being set up.
    """

    def __init__(self) -> None:
        self.times = 0
        self.meeting: Meeting | None = None
        self.offer: Meeting | None = None

    @property
    def is_settled(self) -> bool:
        """Whether it is known if ranks meet."""
        return self.times > TIMES_BEFORE

    def begin(self, comm: MPI.Intracomm) -> Location | None:
        """A redistribution starts; on rank 0, at the right one, where a meeting could be."""
        self._withdraw()  # that of a redistribution that failed
        if self.times != TIMES_BEFORE or comm.size == 1 or not Meeting.possible():
            return None
        if comm.rank == 0:
            try:
                self.offer = Meeting.create(comm.size)
            except OSError:
                return None
            return Location(self.offer.fd, self.offer.name, 0)
        return None

    def join(self, comm: MPI.Intracomm, pid: int, place: Location) -> None:
        """All ranks are on one node: open what rank 0, process ``pid``, has set up."""
        if self.offer is None:
            with suppress(OSError):
                self.offer = Meeting.join(pid, place, comm.rank, comm.size)

    def settle(self, *, everyone: bool) -> None:
        """Whether ``everyone`` has joined is known; only then is the meeting used."""
        self.times += 1
        if everyone:
            self.meeting = self.offer
        self._withdraw()

    def _withdraw(self) -> None:
        """The memory stays with those who have opened it."""
        if self.offer is not None:
            self.offer.close()
            self.offer = None


def attendance_of(comm: MPI.Intracomm) -> Attendance:
    """The communicator's own; it goes with the communicator."""
    found = comm.Get_attr(_keyval())
    if not isinstance(found, Attendance):
        found = Attendance()
        comm.Set_attr(_keyval(), found)
    return found


@lru_cache(maxsize=1)
def _keyval() -> int:
    return MPI.Comm.Create_keyval()
