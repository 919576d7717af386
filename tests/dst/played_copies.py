"""Copies of protected jobs' data in the memory of nodes, and the notes of the agents about them.

Both outlive agents and servers; memory goes with its node. What a job starts again from must have
been saved before, as far as its nodes are there, and in the end nothing is left in memory.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dq_client.base import messages as m
from dq_server.core.model.actions import StartJob
from dq_server.core.transaction import Succession
from tests.dst.verdict import Wrong

if TYPE_CHECKING:
    from tests.dst.world import World

MADE_AFTER_S = 0.3  # ranks have come up
SAVED_WITHIN_S = 1.0


class Memory:
    """Of all nodes; with its own dice: the worlds stay as they were."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = random.Random(f"copies of {world.seed}")
        self.held: set[tuple[str, int]] = set()  # node and job, not on disk
        self.notes: dict[str, set[int]] = {}  # by node

    @property
    def how(self) -> str:
        """How the next protected job of the user is protected."""
        return self.rng.choice(["disk", "partner", "partner"])

    def begin(self, node: str, job: int, alive: object) -> None:
        """Ranks of a job that is protected in memory have started on a node."""
        if job not in self.notes.get(node, set()):
            raise Wrong(f"ranks of job {job} start on {node}, whose agent has not noted its copies")

        def made() -> None:
            if callable(alive) and alive():
                self.held.add((node, job))

        self.world.later(MADE_AFTER_S, made)

    def decided(self, actions: list[Any]) -> None:
        """Wrong if a job starts again whose copies, on nodes that are up, are not saved."""
        world = self.world
        for start in actions:
            if not isinstance(start, StartJob) or world.store.lost:
                continue
            state = world.last_server.scheduler.state
            job = state.jobs.get(start.job)
            if job is None or Succession.of(job).inherits:
                continue  # another server's job; or a resize by restart, which has its own copy
            # What an earlier start has left on a node that was away is no use to a later one.
            former = world.machine.processes.get((start.job, start.instance - 1))
            last = former.stands_on() if former is not None else set()
            up = {name for name, node in state.processors.nodes.items() if node.up}
            left = sorted(node for node in last & up if (node, start.job) in self.held)
            if left:
                raise Wrong(f"job {start.job} starts again, its copies on {left} are not saved")

    def lose(self, node: str) -> None:
        """The node is gone with its memory, and so is its agent's folder."""
        self.held = {(n, job) for n, job in self.held if n != node}
        self.notes.pop(node, None)

    def left(self) -> list[tuple[str, int]]:
        """What nobody has saved or removed."""
        return sorted(self.held)


class PlayedCopies:
    """Stands for CopyKeeper, of one life of an agent."""

    def __init__(self, world: World, node: str) -> None:
        self.world, self.node = world, node
        self.saving: dict[tuple[int, int], float] = {}  # until when, by job and instance

    def expect(self, job: int, env: Mapping[str, str]) -> None:
        if env.get("DQ_PROTECT_MEMORY"):
            self.world.memory.notes.setdefault(self.node, set()).add(job)

    def held(self) -> list[m.CopiesHeld]:
        memory = self.world.memory
        self._look()
        return [
            m.CopiesHeld(job, (self.node, job) in memory.held)
            for job in sorted(memory.notes.get(self.node, set()))
        ]

    def save(self, job: int, instance: int, places: m.CopyPlaces) -> bool:
        assert places.memory or places.folder or not places.memory
        takes_s = self.world.memory.rng.uniform(0.0, SAVED_WITHIN_S)
        self.saving.setdefault((job, instance), self.world.now + takes_s)
        self._look()
        return self.world.now >= self.saving[job, instance]

    def _look(self) -> None:
        for (job, _), until_s in self.saving.items():
            if self.world.now >= until_s:
                self.world.memory.held.discard((self.node, job))

    def leave(self) -> None:
        """No cluster goes down here."""

    def finish(self) -> None:
        for job, _ in self.saving:
            self.world.memory.held.discard((self.node, job))

    def forget(self, job: int, _: m.CopyPlaces, *, here: bool) -> None:
        if here:
            return
        self.saving = {key: until_s for key, until_s in self.saving.items() if key[0] != job}
        self.world.memory.held.discard((self.node, job))
        self.world.memory.notes.get(self.node, set()).discard(job)
