"""Disks that are full for a while, and a machine of the server that loses its power."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.dst.played_machine import NODES

if TYPE_CHECKING:
    from tests.dst.world import World


class Disk:
    """The disks of some worlds; with its own dice: the other worlds stay as they were."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = random.Random(f"disks of {world.seed}")
        self.fails = self.rng.random() < 0.25
        self.p_power = self.rng.choice([0.0, 0.0, 0.5])
        self.full = False  # the server's
        self.full_nodes: set[str] = set()

    def arrive(self) -> None:
        """From now on they fail."""
        if self.fails:
            self.world.later(self.rng.uniform(0.5, 6.0), self.fill)

    def fill(self) -> None:
        world, rng = self.world, self.rng
        if not world.faults:
            return
        node = rng.choice(["", "", *NODES])
        world.trace.append(f"{world.now:.3f} full disk {node or 'of the server'}")
        if node:
            self.full_nodes.add(node)
        else:
            self.full = True
        world.later(rng.choice([0.2, 2.0, 8.0]), lambda: self.make_room(node))
        world.later(rng.uniform(0.5, 5.0), self.fill)

    def make_room(self, node: str) -> None:
        self.full_nodes.discard(node)
        if not node:
            self.full = False

    def crash(self, power: bool = False) -> None:
        """The server dies, perhaps with its machine (`power`: surely)."""
        if self.rng.random() < self.p_power or power:
            lost = len(self.world.store.safe) - self.world.store.flushed
            self.world.trace.append(f"{self.world.now:.3f} power lost, {lost} entries with it")
            self.world.store.die(power=True)
            self.world.clocks.reboot()
        else:
            self.world.store.die(power=False)

    def mend(self) -> None:
        """The faults are over."""
        self.full = False
        self.full_nodes.clear()
