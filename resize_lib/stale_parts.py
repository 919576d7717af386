"""Parts from before a resize: whoever still uses one gets an error, with the line to change.

After a resize `x.local` is another array. A program that has kept the old one (`u = x.local` before
the loop) would go on computing with it, and nothing of that would ever be the job's. So the old
array becomes read-only; and where something still holds it, its memory becomes inaccessible: a
read, or a use by a view that was taken before, is found out, too.

What touches such memory gets a SIGSEGV. The handler knows the addresses: for one of these it says
which part it is and in which line of the program, and ends the rank; any other fault takes the way
it always took. Linux, 64 bits; elsewhere only writes to the array itself are found out.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from resize_lib.mistakes import caller
from resize_lib.waiting import RankLost

NO_ACCESS, READ_WRITE = 0, mmap.PROT_READ | mmap.PROT_WRITE
SA_SIGINFO, SA_NODEFER = 4, 0x40000000
ADDRESS_OFFSET = 16  # of si_addr in siginfo_t
_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class _Action(ctypes.Structure):
    """struct sigaction of glibc and musl on 64 bits."""

    _fields_ = [
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    ]


class StaleParts:
    """Of one process. `give_up(text)`: ends the rank, and with it the job, for this reason.

    sent: a rank was lost while data moved, so MPI may still read parts to send them. Such parts
    become read-only, but stay accessible.
    """

    def __init__(self, give_up: Callable[[str], NoReturn]) -> None:
        self._give_up = give_up
        self._ranges: dict[int, tuple[int, str]] = {}  # by address: bytes, name of the declaration
        self._before = _Action()
        self._handler = _HANDLER(self._fault)
        self._installed = False
        self.sent = False

    @contextmanager
    def moving(self) -> Iterator[None]:
        """Around what moves the data."""
        try:
            yield
        except RankLost:
            self.sent = True
            raise

    def retire_all(self, replaced: list[tuple[str, Any, Any]]) -> None:
        """Names of what has moved, with the old and the new part; empties the list."""
        while replaced:  # one by one: whether anybody else holds a part is counted
            name, old, new = replaced.pop()
            self.retire(name, old, new)

    def retire(self, name: str, old: Any, new: Any) -> None:
        """The part `old` of the declaration `name` was replaced by `new`."""
        if not isinstance(old, np.ndarray) or old is new:
            return
        base: Any = old.base
        # Held by: the caller's variable, this parameter, and getrefcount's.
        held = sys.getrefcount(old) > HELD_BY_US
        old.flags.writeable = False
        if not held or self.sent or not isinstance(base, mmap.mmap) or not _PROTECTS:
            return
        memory = np.frombuffer(base, np.uint8)
        address, nbytes = memory.ctypes.data, memory.nbytes
        if isinstance(new, np.ndarray) and _overlap(new, address, nbytes):
            return
        self._install()
        self._ranges[address] = nbytes, name  # first: another thread may be reading it now
        if not _protect(address, nbytes, NO_ACCESS):
            del self._ranges[address]
            return
        # Called before the arena's own: the latest finalizer comes first.
        weakref.finalize(old, self._release, address, nbytes).atexit = False

    def bars(self, array: NDArray[Any]) -> bool:
        """Whether an array lies in memory that must not be touched any more."""
        if not self._ranges:
            return False
        low, high = np.lib.array_utils.byte_bounds(array)
        return any(at < high and low < at + nbytes for at, (nbytes, _) in self._ranges.items())

    def _release(self, address: int, nbytes: int) -> None:
        """Nobody holds the part any more: its memory may be used again."""
        if self._ranges.pop(address, None) is not None:
            _protect(address, nbytes, READ_WRITE)

    def _install(self) -> None:
        if self._installed:
            return
        self._installed = True
        action = _Action()
        action.handler = ctypes.cast(self._handler, ctypes.c_void_p).value
        action.flags = SA_SIGINFO | SA_NODEFER
        _libc().sigaction(int(signal.SIGSEGV), ctypes.byref(action), ctypes.byref(self._before))

    def _fault(self, _number: int, info: int, _context: int) -> None:
        """A fault, in the midst of whatever the program was doing. Does not return for ours."""
        at = ctypes.c_void_p.from_address(info + ADDRESS_OFFSET).value or 0
        for address, (nbytes, name) in self._ranges.items():
            if address <= at < address + nbytes:
                where = caller(sys._getframe(1))
                self._give_up(
                    f"{where}: this part of {name!r} is from before a resize, its data have moved:"
                    f" fetch it again in each iteration ({name}.local), keep no part or view of one"
                )
        # Not ours: as it was before, by doing it again.
        _libc().sigaction(int(signal.SIGSEGV), ctypes.byref(self._before), None)


HELD_BY_US = 3
_PROTECTS = os.name == "posix" and os.uname().sysname == "Linux" and sys.maxsize > 1 << 32


def _overlap(array: NDArray[Any], address: int, nbytes: int) -> bool:
    low, high = np.lib.array_utils.byte_bounds(array)
    return bool(low < address + nbytes and address < high)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _protect(address: int, nbytes: int, protection: int) -> bool:
    size = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    done: int = _libc().mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), protection)
    return done == 0
