"""Two and three deaths at one moment: of the server, of agents, and of keepers, whose ranks go on
without a parent until their agent ends them. A keeper may be stopped for a while instead."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.dst.played_keeper import Keeper
from tests.dst.played_machine import NODES

if TYPE_CHECKING:
    from tests.dst.world import World


class Deaths:
    """In some of the worlds; with its own dice: the other worlds stay as they were."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = random.Random(f"deaths of {world.seed}")
        self.happen = self.rng.random() < 0.4

    def arrive(self) -> None:
        if self.happen:
            self.world.later(self.rng.uniform(0.5, 4.0), self.strike)

    def strike(self) -> None:
        world, rng = self.world, self.rng
        if not world.faults:
            return
        keepers = self.keepers()
        victims: list[str | Keeper] = ["server", *NODES, *keepers, *keepers]
        for victim in rng.sample(victims, min(len(victims), rng.choice([1, 2, 2, 3]))):
            self.kill(victim)
        world.later(rng.uniform(0.5, 4.0), self.strike)

    def keepers(self) -> list[Keeper]:
        """Those that run."""
        held = [t for node in NODES for t in self.world.holdings[node].trees.values()]
        return [t for t in held if isinstance(t, Keeper) and not t.gone]

    def kill(self, victim: str | Keeper) -> None:
        world = self.world
        if isinstance(victim, Keeper):
            if victim.gone or victim.stopped is not None:
                return
            if self.rng.random() < 0.3:
                world.trace.append(f"{world.now:.3f} keeper of {victim.start.job} is stopped")
                victim.stops()
                world.later(self.rng.uniform(0.1, 5.0), victim.goes_on)
            else:
                world.trace.append(f"{world.now:.3f} keeper of {victim.start.job} dies")
                victim.dies()
        elif victim == "server":
            if world.server is not None:
                world.crash()
        else:
            world.kill_agent(victim, self.rng.uniform(0.1, 5.0))
