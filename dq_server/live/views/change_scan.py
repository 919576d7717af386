"""What has changed without being named by an event: a job that another has waited for, one that is
forgotten, a node that is empty.

All jobs and nodes are looked at for it, as many at a time as the budget allows: who asks is told
what was found so far, and the next answer goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Generic, TypeVar

from dq_server.core.features.draining import Drains
from dq_server.core.model.jobs import JobState
from dq_server.core.model.state import State
from dq_server.live.translate import ProcessorNames
from dq_server.live.views import tables

JOBS_AT_ONCE, NODES_AT_ONCE = 200, 20  # some 50 µs between two looks at the clock

Key = int | str  # a job's id, a node's name
K = TypeVar("K", int, str)


class _Round(Generic[K]):
    """A look at all things of one kind. `due`: something may have changed since it began."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self.due = True
        self._left: Iterator[K] | None = None

    @property
    def under_way(self) -> bool:
        """Whether some were looked at, and some were not."""
        return self._left is not None

    def go_on(
        self, things: Iterable[K], look: Callable[[K], None], out: Callable[[], bool]
    ) -> bool:
        """Look at some more, one portion at least; whether that was the end of a round."""
        if self._left is None:
            if not self.due:
                return False
            # What happens from now on may concern one that was looked at already: it is due anew.
            self.due, self._left = False, iter(list(things))
        while portion := list(islice(self._left, self._at_once)):
            for thing in portion:
                look(thing)
            if out():
                return False
        self._left = None
        return True

    def begin_anew(self) -> None:
        self.due, self._left = True, None


class ChangeScan:
    """Remembers the states of jobs and the rows of nodes as last looked at.

    changed, gone   told of each that is found
    nodes           the row of each node
    """

    def __init__(self, changed: Callable[[Key], None], gone: Callable[[Key], None]) -> None:
        self._changed, self._gone = changed, gone
        self._states: dict[int, JobState] = {}
        self.nodes: dict[str, dict[str, Any]] = {}
        self._draining: set[str] = set()
        self._job_round: _Round[int] = _Round(JOBS_AT_ONCE)
        self._node_round: _Round[str] = _Round(NODES_AT_ONCE)

    def restart(self) -> None:
        """Nothing is known any more."""
        self._states.clear()
        self.nodes.clear()
        self._draining.clear()
        self._job_round.begin_anew()
        self._node_round.begin_anew()

    @property
    def known(self) -> list[Key]:
        """All that was found so far."""
        return [*self._states, *self.nodes]

    @property
    def under_way(self) -> bool:
        """Whether what was found so far is not all."""
        return self._job_round.under_way or self._node_round.under_way

    @property
    def due(self) -> bool:
        """Whether there may be something to find."""
        return self._job_round.due or self._node_round.due or self.under_way

    def expect(self, *, nodes: bool) -> None:
        """An event may have changed more than it names, `nodes` among it."""
        self._job_round.due = True
        self._node_round.due |= nodes

    def go_on(self, state: State, places: ProcessorNames, out: Callable[[], bool]) -> None:
        """Look, until `out` says that the time is up."""

        def job(number: int) -> None:
            found = state.jobs.get(number)
            if found is not None and self._states.get(number) is not found.state:
                self._states[number] = found.state
                self._changed(number)

        # A node that drains becomes empty by events that name its jobs only.
        draining = set(Drains.of(state).nodes)
        for name in draining | self._draining:
            self._node(name, state, places)
        self._draining = draining
        if self._job_round.go_on(state.jobs, job, out):
            self._forget(self._states, state.jobs)
        nodes = state.processors.nodes
        if self._node_round.go_on(nodes, lambda name: self._node(name, state, places), out):
            self._forget(self.nodes, nodes)

    def _node(self, name: str, state: State, places: ProcessorNames) -> None:
        node = state.processors.nodes.get(name)
        if node is None:
            return
        row = tables.node_known(state, places, node)
        if self.nodes.get(name) != row:
            self.nodes[name] = row
            self._changed(name)

    def _forget(self, known: dict[K, Any], there: Mapping[K, object]) -> None:
        # After a round all that is there is known. What came during it makes another one due.
        if len(known) > len(there):
            for thing in [one for one in known if one not in there]:
                del known[thing]
                self._gone(thing)
