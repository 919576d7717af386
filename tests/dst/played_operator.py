"""Who looks after the nodes: drains, removes and resumes them, and tells agents to go."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from dq_client.base import messages as m
from dq_server.core.features.draining import Drains
from dq_server.live.access import Principal
from tests.dst.played_line import Line
from tests.dst.played_machine import NODES

if TYPE_CHECKING:
    from tests.dst.world import World

WITHIN_S = (0.5, 3.0, 8.0)


class Operator:
    """At random moments of some worlds; with its own dice: the other worlds stay as they were."""

    line: Line

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = random.Random(f"nodes of {world.seed}")
        self.busy = self.rng.random() < 0.6
        self.pause_s = self.rng.choice([0.3, 1.0, 3.0])

    def arrive(self) -> None:
        if self.busy:
            self.line = Line(self.world, "operator", Principal("user"), lambda: None)
            self.world.later(self.rng.uniform(0.5, 3.0), self.turn)

    def turn(self) -> None:
        """One thing that happens to a node."""
        world, rng = self.world, self.rng
        if not world.faults:
            return
        what = rng.choice(["drain", "drain", "remove", "resume", "resume", "leave", "leave"])
        node, agent = rng.choice(NODES), None
        within_s = rng.choice([None, *WITHIN_S])
        world.trace.append(f"{world.now:.3f} {what} {node} {within_s}")
        if what == "resume":
            self.line.send(m.ResumeNode(node))
        elif what == "leave":
            agent = world.agents[node]
            if agent is not None:
                agent.notice.leave_within_s = within_s or 3.0
                agent.leave()  # if it leaves already: it ends at once
        else:
            self.line.send(m.DrainNode(node, within_s, "why not", remove=what == "remove"))
        world.later(rng.uniform(0.2, 2 * self.pause_s), self.turn)

    def mend(self) -> None:
        """The faults are over: all nodes shall be up again, whatever request is on its way."""
        server = self.world.server
        if not self.busy:
            return
        if server is not None:
            for node, drain in Drains.of(server.scheduler.state).nodes.items():
                if not drain.leaves:
                    self.line.send(m.ResumeNode(node))
        self.world.later(1.0, self.mend)
