"""How the ranks of a job are started: the shell's affair, of which the core knows what follows.

Kept with each start of a job (`Job.launching`), so that a server that starts with another setting
still knows how its running jobs were started.
"""

from __future__ import annotations

from enum import StrEnum


class Launching(StrEnum):
    """Who starts a job's ranks, and how those of an expansion come to it."""

    # MPI's launcher, which stays on the job's first node until the job ends: rank 0 asks it for
    # new ranks and computes meanwhile; or all ranks wait in MPI_Comm_spawn. To the core the same.
    MPIEXEC = "mpiexec"
    MPIEXEC_SPAWN = "mpiexec-spawn"
    # The agents. No node of the job is different from the others. New ranks start in a world of
    # their own, which joins the job ...
    JOIN = "join"
    # ... or a rank spawns them (MPI_Comm_spawn).
    SPAWN = "spawn"
    # No ranks come to a running job: a resize ends all of them, and the job starts again on its new
    # size, from a copy of its data (features/protection.py).
    RESTART = "restart"
    MPIEXEC_RESTART = "mpiexec-restart"

    @property
    def by_agents(self) -> bool:
        """Whether the agents start the ranks themselves."""
        return self in (Launching.JOIN, Launching.SPAWN, Launching.RESTART)

    @property
    def restarts(self) -> bool:
        """Whether a resize ends all ranks."""
        return self in (Launching.RESTART, Launching.MPIEXEC_RESTART)

    @property
    def by_restart(self) -> Launching:
        """The same launcher, where a resize ends all ranks."""
        return Launching.RESTART if self.by_agents else Launching.MPIEXEC_RESTART
