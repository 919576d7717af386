"""The clocks of the server's machine: set forward and back, suspended, begun anew at a boot."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from dq_server.live.clock import ClockSources, ClusterClock

if TYPE_CHECKING:
    from tests.dst.world import World

JUMPS_S = (3600.0, -3600.0, 86_400.0, -86_400.0)


class Clocks:
    """They jump in some worlds; with dice of their own: the other worlds stay as they were."""

    clock: ClusterClock  # of the server that runs, or ran last

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = random.Random(f"clocks of {world.seed}")
        self.jump = self.rng.random() < 0.25
        self._kept = ""
        self._set_s = 0.0  # what the system clock was set by
        self._slept_s = self._slept_before_s = self._booted_s = 0.0
        self.boots, self._boots_now = 1, False

    def of_a_server(self) -> ClusterClock:
        """The clock of a server that starts."""

        def keep(text: str) -> None:
            self._kept = text

        self._boots_now, world = False, self.world
        sources = ClockSources(
            wall=lambda: 1e9 + world.now + self._slept_s + self._set_s,
            boot=lambda: world.now - self._booted_s + self._slept_s - self._slept_before_s,
            awake=lambda: world.now - self._booted_s,
            boot_id=lambda: f"boot {self.boots}",
        )
        self.clock = ClusterClock(self._kept, keep, sources)
        return self.clock

    def arrive(self) -> None:
        """From now on they jump."""
        if self.jump:
            self.world.later(self.rng.uniform(0.5, 5.0), self.turn)

    def turn(self) -> None:
        """One jump. Not while the machine boots: that is nothing but time that passes."""
        world, rng = self.world, self.rng
        if not world.faults:
            return
        by_s = rng.choice(JUMPS_S)
        if self._boots_now:
            pass
        elif by_s > 0 and rng.random() < 0.5:
            world.trace.append(f"{world.now:.3f} asleep for {by_s:g} s")
            self._slept_s += by_s
        else:
            world.trace.append(f"{world.now:.3f} clock set by {by_s:+g} s")
            self._set_s += by_s
        if world.server is not None:  # power that is lost before it is noticed cannot be told
            self.clock.look(idle=lambda: False)
        world.later(rng.uniform(0.3, 4.0), self.turn)

    def reboot(self) -> None:
        """The machine lost its power: what counts from the boot begins anew."""
        self._booted_s, self._slept_before_s = self.world.now, self._slept_s
        self.boots, self._boots_now = self.boots + 1, True
