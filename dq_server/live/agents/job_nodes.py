"""An index of the active jobs by the nodes whose agents look after them.

Every heartbeat of hundreds of agents asks for it: looking through all jobs, or through all
processors of large jobs, each time would take the server's time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dq_server.core.model.jobs import Job
from dq_server.core.model.state import State

KEPT_MIN = 100


class JobNodes:
    """Active jobs by node: by the first one, where mpiexec runs, or by all that a job holds."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._on: dict[str, dict[int, None]] = {}  # node -> ids, in the order of starting
        # Job -> what its nodes depend on, and its nodes.
        self._known: dict[int, tuple[tuple[Any, ...], frozenset[str]]] = {}
        for job in state.active.values():
            self.add(job)

    def add(self, job: Job) -> None:
        """The job starts, or was granted more processors."""
        for node in self.of(job):
            self._on.setdefault(node, {})[job.id] = None

    def of(self, job: Job) -> frozenset[str]:
        """The nodes whose agents look after this active job."""
        node_of = self._state.processors.node_of
        if not job.launching.by_agents:
            return frozenset((node_of[job.first_processor],))
        # An allocation changes with a start and with a committed resize only.
        depends = job.instance, job.resizes, job.reserved, job.spawned
        known = self._known.get(job.id)
        if known is None or known[0] != depends:
            if len(self._known) > KEPT_MIN + 2 * len(self._state.active):
                self._known = {i: k for i, k in self._known.items() if i in self._state.active}
            known = self._known[job.id] = depends, nodes_of(job.holds(), self._state)
        return known[1]

    def jobs(self, node: str) -> list[Job]:
        """Jobs that the node's agent looks after, in the order of starting."""
        active = self._state.active
        found = [active[i] for i in self._on.get(node, ()) if i in active]
        found = [job for job in found if node in self.of(job)]
        self._on[node] = dict.fromkeys(job.id for job in found)
        return found


def nodes_of(processors: Iterable[int], state: State) -> frozenset[str]:
    """The nodes of some processors."""
    node_of = state.processors.node_of
    return frozenset(node_of[p] for p in processors)
