"""How the ranks of a job are started: the shell's affair, of which the core knows what follows.

Kept with each start of a job (`Job.launching`), so that a server that starts with another setting
still knows how its running jobs were started.

Where the agents start the ranks, each belongs to an MPI world (`Worlds`): the set of ranks that
start together. 0 is the start of the job, the others have the id of the resize (or of the spawn)
that they were started for. Ids ascend, and none is used twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from dq_server.core.model.records import Record


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


@dataclass(slots=True)
class Worlds(Record, key="Worlds"):
    """Of a job whose ranks the agents start (Launching.by_agents); empty for all others.

    A server that starts again knows from it what it has to ask the agents for.
    """

    # Processor of the job -> world of its rank, where that is not 0.
    started: dict[int, int] = field(default_factory=dict)
    # Processor that the job has let go -> world whose ranks shall end there: one that never joined,
    # or a spawned one. Until its node confirms that it is empty, or the job's start is over; longer
    # than a loss of the node, because the ranks may still be there when it comes back.
    ending: dict[int, int] = field(default_factory=dict)
    # How many ranks have joined this start of the job; processor -> how many had before its rank.
    joined: int = 0
    before: dict[int, int] = field(default_factory=dict)

    def begin(self, processors: Iterable[int], world: int) -> None:
        """Ranks of this world start on these processors."""
        processors = tuple(processors)
        for p in processors:
            self.started[p] = world
            self.before[p] = self.joined
            self.ending.pop(p, None)
        self.joined += len(processors)

    def met(self, processor: int) -> int:
        """How many ranks have joined since the rank there did, with those that came with it."""
        return self.joined - self.before.get(processor, 0)

    def leave(self, processors: Iterable[int]) -> None:
        """The ranks there have left the job in order."""
        for p in processors:
            self.started.pop(p, None)
            self.before.pop(p, None)

    def end(self, processors: Iterable[int], world: int) -> None:
        """The ranks of this world shall end there."""
        for p in processors:
            self.started.pop(p, None)
            self.before.pop(p, None)
            self.ending[p] = world

    def vacated(self, processors: Iterable[int]) -> None:
        """Nothing is left there."""
        for p in processors:
            self.ending.pop(p, None)

    def clear(self) -> None:
        """The start of the job is over, and with it all of its worlds."""
        self.started.clear()
        self.ending.clear()
        self.before.clear()
        self.joined = 0
