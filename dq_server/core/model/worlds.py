"""Which MPI world the ranks on a job's processors belong to, where the agents start them.

A world is the set of ranks that start together: 0 is the start of the job, the others have the id
of the resize (or of the spawn) that they were started for. Ids ascend, and none is used twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dq_server.core.model.records import Record


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
