"""Shared memory that MPICH would leave behind.

MPICH makes a file of a megabyte or more in /dev/shm for the ranks of a node and removes its name in
MPI_Finalize, which a rank that is killed never comes to, nor one that leaves a running job: each
would cost its node that memory for good. Once all ranks of a world have the file nobody opens it
any more, so its name can go at once.
"""

from __future__ import annotations

from pathlib import Path

PREFIX = "/dev/shm/mpich_shm_"  # noqa: S108 - MPICH's choice


def remove_names() -> None:
    """Remove the names of this process's segments.

    To be called when every rank of its MPI_COMM_WORLD is known to have come out of MPI_Init.
    """
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return
    for path in {line.split(maxsplit=5)[-1] for line in maps.splitlines() if PREFIX in line}:
        Path(path).unlink(missing_ok=True)  # "... (deleted)" names no file either
