"""A receive from anybody that stays open while a job is resized, copied or loses ranks."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI


def opened(comm: MPI.Intracomm) -> MPI.Request:
    """For a message that never comes: nothing of the library's may meet it.

    On a plain handle, as a library in C does it: a resize does not wait for that.
    """
    return MPI.Intracomm(comm).Irecv(np.empty(4096), MPI.ANY_SOURCE, MPI.ANY_TAG)


def taken_back(request: MPI.Request) -> None:
    """Cancel what `opened` has begun, if anything."""
    if request != MPI.REQUEST_NULL:
        assert not request.Test()
        request.Cancel()
        request.Wait()
