"""The worlds of one job on one node, by number. Those that are long over are forgotten."""

from __future__ import annotations

from typing import Any, Dict, Optional

from .world import Rank, World, WorldStart, remove_shared_memory

PAST_MAX = 16  # worlds that were to join and are over: so many of them are still spoken of


class Worlds(Dict[int, World]):
    """A job that grows and shrinks for days has thousands; what is done in each turn of the
    keeper's loop, and what it tells its agent, must not grow with them.

    `past`: the newest one that was forgotten. Only worlds that were to join are: a job has one
    resize at a time and their numbers ascend, so none that is older will come.
    """

    past = -1
    past_max = PAST_MAX

    def has_had(self, start: WorldStart) -> bool:
        """Whether the world was started here, be it over or not."""
        return start.world in self or (start.joins and start.world <= self.past)

    @property
    def kill_due_s(self) -> float:
        """When the first worker that was told to leave is killed, by time.monotonic."""
        return min((world.kill_s for world in self.values()), default=float("inf"))

    def any_alive(self) -> bool:
        """Whether ranks of any world run here."""
        return any(world.is_alive for world in self.values())

    def ranks(self) -> list[Rank]:
        """All ranks here that have not been forgotten."""
        return [rank for world in self.values() for rank in world.local.values()]

    def of_pid(self, pid: int) -> Optional[tuple[World, Rank]]:
        """Whose process it is, if it has not been seen to end."""
        for world in self.values():
            rank = world.of_pid(pid)
            if rank is not None:
                return world, rank
        return None

    def forget(self) -> None:
        """Drop what is long over."""
        if len(self) <= self.past_max:
            return
        over = [
            number
            for number, w in self.items()
            if (w.start.joins or (w.start.worker and w.ending)) and not w.is_alive
        ]
        newest = max((number for number, w in self.items() if w.is_part), default=-1)
        for number in over[: -self.past_max]:
            if number != newest:  # what the agent says of an end refers to it
                world = self.pop(number)
                remove_shared_memory(world.shared_memory())
                if world.start.joins:
                    self.past = max(self.past, number)

    def shared_memory(self) -> list[str]:
        """Files of MPICH's shared memory that may be left of worlds that are not forgotten."""
        return sorted(set().union(*(world.shared_memory() for world in self.values())))

    def state(self) -> dict[str, Any]:
        """What the agent is told of them."""
        return {
            "worlds": {
                str(number): {
                    "running": len(world.running()) + len(world.expected),
                    "part": world.is_part,
                    "spawned": world.start.spawned,
                }
                for number, world in self.items()
            },
            "past": self.past,
        }
