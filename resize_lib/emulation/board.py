"""Memory shared by the ranks of an emulated job: when each message began to leave its node.

A message carries no time stamp, and the receiver must know when it would have arrived. All
emulated nodes are one machine with one clock, so senders note the time here before they send:
for every pair of ranks a ring of the last messages. Sender and receiver count the messages of a
pair in the order in which they are posted, which is the order in which MPI matches them.
"""

from __future__ import annotations

import mmap
import os

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
        nbytes = 8 * CHANNELS * comm.size * comm.size * RING
        fd = -1
        where = None
        if comm.rank == 0:  # pages nobody writes take no memory
            fd = os.memfd_create("dq-board", os.MFD_CLOEXEC)
            os.truncate(fd, nbytes)
            where = f"/proc/{os.getpid()}/fd/{fd}"
        where = idle_bcast(comm, where)
        opened = fd if comm.rank == 0 else os.open(where, os.O_RDWR | os.O_CLOEXEC)
        self._memory = mmap.mmap(opened, nbytes)
        self.stamps: NDArray[np.float64] = np.frombuffer(self._memory).reshape(shape)
        idle_barrier(comm)  # everyone has it: rank 0 may close
        os.close(opened)
