"""The resize library: what an application links to grow and shrink while it runs.

    import resize_lib

    with resize_lib.session() as rs:
        A = rs.matrix("A", n, n, block=64, init=fill)
        for step in rs.iterations(100):
            work(rs.grid, A)

Importing the package does not initialise MPI; opening a session does.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from resize_lib.jobsession import Session

# One rank per processor means one thread per rank. Counts only if numpy is not loaded yet.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")


def session(**options: Any) -> Session:
    """Open the session of this program; options: see `resize_lib.jobsession.Session`."""
    from resize_lib.jobsession import Session

    return Session(**options)


__all__ = ["session"]
