"""Memory shared by the ranks of an emulated job: when each message began to leave its node.

A message carries no time stamp, and the receiver must know when it would have arrived. All
emulated nodes are one machine with one clock, so senders note the time here before they send:
for every pair of ranks a ring of the last messages. Sender and receiver count the messages of a
pair in the order in which they are posted, which is the order in which MPI matches them.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import time

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from resize_lib.processes import idle_barrier, idle_bcast

RING = 128  # messages a sender may be ahead of a receiver
CHANNELS = 4  # the job's communicator, its rows, its columns, one more


class Board:
    """``stamps[channel, sender, receiver, number % RING]``, shared; collective over ``comm``."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        shape = (CHANNELS, comm.size, comm.size, RING)
        nbytes = 8 * (CHANNELS * comm.size * comm.size * RING + 1)
        fd = -1
        where = None
        if comm.rank == 0:  # pages nobody writes take no memory
            fd = os.memfd_create("dq-board", os.MFD_CLOEXEC)
            os.truncate(fd, nbytes)
            where = f"/proc/{os.getpid()}/fd/{fd}"
        where = idle_bcast(comm, where)
        opened = fd if comm.rank == 0 else os.open(where, os.O_RDWR | os.O_CLOEXEC)
        self._memory = mmap.mmap(opened, nbytes)
        numbers = np.frombuffer(self._memory)
        self.stamps: NDArray[np.float64] = numbers[:-1].reshape(shape)
        self._medium_free: NDArray[np.float64] = numbers[-1:]
        idle_barrier(comm)  # everyone has it
        self._lock = opened

    def take(self, duration_s: float) -> float:
        """See link.Medium: the medium that all nodes of the job share."""
        fcntl.lockf(self._lock, fcntl.LOCK_EX)
        try:
            begin_s = max(time.monotonic(), float(self._medium_free[0]))
            self._medium_free[0] = begin_s + duration_s
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)
        return begin_s

    def __del__(self) -> None:
        if (lock := getattr(self, "_lock", None)) is not None:
            os.close(lock)
