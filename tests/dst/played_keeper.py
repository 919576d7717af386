"""Ranks that the agents start, and their keepers. Both outlive the agents.

What an agent does for them is in played_ranks.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dq_client import messages as m
from dq_client.agent.holdings import Record
from tests.dst.played_machine import Process
from tests.dst.verdict import Wrong

if TYPE_CHECKING:
    from tests.dst.played_app import App
    from tests.dst.world import World

NEVER = float("-inf")


@dataclass(eq=False)
class Rank:
    """A rank on a processor. `joined`: part of the job, or spawned by its program."""

    world: int
    processor: int
    node: str
    joined: bool
    code: int | None = None  # it has ended with
    killed: bool = False


@dataclass(eq=False)
class Start(Process):
    """A start of a job by agents. It computes once all ranks of world 0 have come up."""

    program: str = ""
    protected: bool = False
    ranks: list[Rank] = field(default_factory=list)
    own: set[int] = field(default_factory=set)  # worlds that the program itself has spawned
    app: App | None = None
    growth: str = ""
    ending: bool = False  # the program comes to no more remap points
    keepers: dict[str, Keeper] = field(default_factory=dict)  # by node

    def end(self, world: World) -> None:
        """The program ends, on each rank at its own time; one may end with the program's code."""
        self.ending = True
        ranks = [rank for rank in self.alive() if rank.joined and rank.world not in self.own]
        for rank in ranks:
            code = self.code if rank is ranks[-1] else 0
            keeper = self.keepers[rank.node]
            world.later(
                world.rng.uniform(0.0, 0.5),
                lambda keeper=keeper, rank=rank, code=code: keeper.ends(rank, code),  # type: ignore[misc]
            )

    def check_done(self) -> None:
        for rank in self.ranks:
            if rank.joined and (rank.killed or rank.code != 0):
                how = "was killed" if rank.killed else f"ended with {rank.code}"
                where = f"processor {rank.processor} (world {rank.world})"
                raise Wrong(f"job {self.job} is done, its rank on {where} {how}")

    def leaves(self, processor: int) -> None:
        """The rank there leaves the job in order."""
        for rank in self.alive():
            if rank.processor == processor and rank.joined:
                self.keepers[rank.node].ends(rank, 0)

    def alive(self) -> list[Rank]:
        return [rank for rank in self.ranks if rank.code is None]


@dataclass
class Spawn:
    """What a rank spawns: asked for until it is answered."""

    body: m.SpawnRanks
    asked_s: float = NEVER


class Keeper:
    """Stands for holdings.Tree: the ranks of a start on one node."""

    is_proxy = False

    def __init__(self, world: World, start: Start, node: str) -> None:
        self.world, self.start, self.node = world, start, node
        self.record = Record(start.job, start.instance)
        self.worlds: set[int] = set()  # that were started here
        start.keepers[node] = self
        self.failed: tuple[int, str] | None = None  # the first failure: exit code, error
        self.failed_worlds: set[int] = set()  # that will not come up to join the job
        self.killed = False
        self.relayed_s: dict[int, float] = {}
        self.spawning: dict[int, Spawn] = {}  # by ticket
        self.tickets = 0

    def alive(self) -> list[Rank]:
        return [rank for rank in self.start.alive() if rank.node == self.node]

    def there(self) -> list[int]:
        """Worlds of which ranks are here."""
        return sorted({rank.world for rank in self.alive()} - {0})

    def running(self) -> bool:
        return bool(self.alive())

    def exit_code(self) -> int | None:
        return None  # Ranks.look sees to keepers

    def terminate(self) -> None:
        self.killed = True
        for rank in self.alive():
            self.kill(rank)

    def kill(self, rank: Rank) -> None:
        rank.killed = True
        world = self.world
        world.later(world.rng.uniform(0.0, 0.5), lambda: self.ends(rank, 137))

    def ends(self, rank: Rank, code: int, error: str = "") -> None:
        if rank.code is not None:
            return
        rank.code = code
        self.world.machine.leave(self.start, [rank.processor])
        if code and not rank.killed and not rank.joined:
            self.failed_worlds.add(rank.world)
        elif code and not rank.killed and self.failed is None:
            self.failed = code, error
        if not self.start.alive():
            self.start.over = True

    def abandoned(self) -> bool:
        return False

    def sweep(self) -> bool:
        return not self.running()

    def spawn(self, world_id: int, count: int) -> None:
        """A rank here calls MPI_Comm_spawn."""
        self.tickets += 1
        start = self.start
        body = m.SpawnRanks(
            job=start.job,
            instance=start.instance,
            ticket=self.tickets,
            world=world_id,
            programs=[["spawned" if world_id == 0 else start.program]],
            program_of=[0] * count,
        )
        self.spawning[self.tickets] = Spawn(body)
