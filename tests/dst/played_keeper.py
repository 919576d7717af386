"""Ranks that agents start, and their keepers (node/ranks/keeper.py). Both outlive agents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from dq_client.base import messages as m
from dq_client.node.agent.holdings import HoldingRecord
from dq_client.node.agent.local_start import joins
from dq_client.node.ranks.worlds import Worlds
from tests.dst.played_machine import Process
from tests.dst.verdict import Wrong

if TYPE_CHECKING:
    from tests.dst.played_app import App
    from tests.dst.world import World

AGAIN_S = 0.5  # until what has not had its effect is said again
SEGV = 139


@dataclass(eq=False)
class Rank:
    """A rank on a processor. `part`: of the job, which a rank that waits to join is not."""

    world: int
    processor: int
    node: str
    part: bool
    code: int | None = None  # it has ended with
    killed: bool = False
    mended: bool = False  # it was lost, and the others have gone on without it
    released: bool = False  # by a shrink: how it ends does not matter any more


@dataclass(eq=False)
class Start(Process):
    """A start of a job by agents. It computes once all ranks of world 0 have come up."""

    program: str = ""
    protected: bool = False
    growth: str = ""
    env: dict[str, str] = field(default_factory=dict)
    ranks: list[Rank] = field(default_factory=list)
    own: set[int] = field(default_factory=set)  # worlds that the program itself has spawned
    app: App | None = None
    ending: bool = False  # the program comes to no more remap points
    keepers: dict[str, Keeper] = field(default_factory=dict)  # by node
    lost: list[Rank] = field(default_factory=list)  # the others are free to go on without them
    orphaned: bool = False  # ranks ended after their keeper

    def mends(self, world: World, rank: Rank) -> bool:
        """Whether it is tried in place to go on without a rank that died."""
        app = self.app
        computes = app is not None and not self.ending and rank.world not in self.own
        if app is not None and app.awaited is not None and app.awaited.blocks:
            computes = False  # in MPI_Comm_spawn nobody is free to go on
        if self.protected and computes and world.chance(0.7):
            self.lost.append(rank)
            return True
        return False

    def gives_up_on(self, rank: Rank) -> None:
        if rank in self.lost:
            self.gives_up()

    def gives_up(self) -> None:
        """It does not work in place: the keepers report what they held back."""
        for rank in self.lost:
            self.keepers[rank.node].failed = {"code": SEGV, "why": "a rank got signal 11"}
        self.lost.clear()

    def end(self, world: World) -> None:
        """The program ends, on each rank at its own time; one may end with the program's code."""
        self.ending = True
        ranks = [rank for rank in self.alive() if rank.part and rank.world not in self.own]
        for rank in ranks:
            code = self.code if rank is ranks[-1] else 0
            keeper = self.keepers[rank.node]
            world.later(
                world.rng.uniform(0.0, 0.5),
                lambda keeper=keeper, rank=rank, code=code: keeper.ends(rank, code),  # type: ignore[misc]
            )

    def stands_on(self) -> set[str]:
        return {rank.node for rank in self.ranks if rank.part and not rank.released}

    def ended_well(self) -> bool:
        """Whether all of its ranks have ended with 0, and keepers have seen it."""
        parts = [rank for rank in self.ranks if rank.part and not rank.released]
        well = all(rank.code == 0 and not rank.killed for rank in parts)
        return bool(parts) and well and self.ending and not (self.orphaned or self.torn)

    def check_done(self) -> None:
        super().check_done()
        if self.program == "worker":
            return  # it goes on without those that were lost
        for rank in self.ranks:
            gone = rank.mended or rank.released
            if rank.part and not gone and (rank.killed or rank.code != 0):
                how = "was killed" if rank.killed else f"ended with {rank.code}"
                where = f"processor {rank.processor} (world {rank.world})"
                raise Wrong(f"job {self.job} is done, its rank on {where} {how}")

    def leaves(self, processor: int) -> None:
        """The rank there leaves the job in order."""
        for rank in self.alive():
            if rank.processor == processor and rank.part:
                self.keepers[rank.node].ends(rank, 0)

    def misses(self) -> bool:
        """Whether a rank is dead, and the others are not free to go on without it."""
        return any(
            rank.code is not None and rank.part and rank.world not in self.own
            for rank in self.ranks
            if not (rank.mended or rank.released or rank in self.lost)
        )

    def releases(self, processors: set[int]) -> None:
        """These ranks leave the job with the next resize."""
        for rank in self.alive():
            if rank.processor in processors and rank.part:
                rank.released = True

    def alive(self) -> list[Rank]:
        return [rank for rank in self.ranks if rank.code is None]


class FewWorlds(Worlds):
    """A keeper's, which speaks of fewer than usual, so that it matters."""

    past_max = 1


class KeptWorld:
    """A world as a keeper has it; stands for that of ranks/world.py."""

    def __init__(self, keeper: Keeper, order: m.StartRanks) -> None:
        self._keeper, self.start = keeper, start_of(order)
        self.ending = False
        self.expected: tuple[int, ...] = ()

    def running(self) -> list[Rank]:
        return [rank for rank in self._keeper.ranks(self.start.world) if rank.code is None]

    @property
    def is_alive(self) -> bool:
        return bool(self.running())

    @property
    def is_part(self) -> bool:
        return any(rank.part for rank in self._keeper.ranks(self.start.world))

    def shared_memory(self) -> set[str]:
        return set()


def start_of(order: m.StartRanks) -> Any:
    """What keepers look at of an order."""
    return SimpleNamespace(
        world=order.world, joins=joins(order), worker=order.worker, spawned=order.spawned
    )


class Folder:
    """Stands for the folder of a keeper."""

    def __truediv__(self, name: str) -> Folder:
        raise FileNotFoundError(name)  # it writes keeper.err when it fails, which it never does


class Keeper:
    """The ranks of a start on one node; stands for holdings.Tree, too."""

    is_proxy = False

    def __init__(self, world: World, start: Start, node: str) -> None:
        self.world, self.start, self.node = world, start, node
        start.keepers[node] = self
        self.record = HoldingRecord(start.job, start.instance, ranks=True)
        self.folder = Folder()
        self.killed = self.over = False  # as in Tree
        self.dead: dict[str, Any] | None = None  # what it had written when it was killed
        self.leaving = False
        self.orders: dict[int, m.StartRanks] = {}  # of all worlds that were started here
        self.worlds: Any = FewWorlds()
        self.stopped: dict[str, Any] | None = None  # what it had said when it was
        self.unread: list[Callable[[], None]] = []
        self.failed: dict[str, Any] | None = None
        self.failed_worlds: set[int] = set()  # that will not come up to join the job
        self.spawning: dict[int, dict[str, Any]] = {}  # by ticket
        self.tickets = 0
        self.said_s: dict[str, float] = {}

    # --- as the agent's holding -------------------------------------------------------------

    def running(self) -> bool:
        return not self.over

    def tears(self) -> None:
        """Its agent ends, and the ranks here with it: those elsewhere wait for them."""
        self.start.torn |= any(rank.part and not rank.released for rank in self.alive())

    def vanishes(self) -> None:
        """Its node is taken away, with all that runs there."""
        self.tears()
        self.killed = True
        for rank in self.alive():
            rank.killed = True
            self.ends(rank, 137)

    def exit_code(self) -> int | None:
        return None

    def abandoned(self) -> bool:
        return False

    def find(self) -> bool:
        return True

    def last_state(self) -> dict[str, Any] | None:
        """What it wrote last: as it is after each change, and that it has ended if it has."""
        return self.dead if self.dead is not None else {**self.state(), "over": True}

    def dies(self) -> None:
        """It is killed; its ranks go on without a parent."""
        self.dead = self.state() if self.stopped is None else self.stopped
        self.start.orphaned |= self.stopped is not None and self.dead != self.state()
        self.stopped = None
        # A rank that has called MPI_Comm_spawn waits in it, so a real one has not ended yet.
        if sum(k.tickets for k in self.start.keepers.values()) > len(self.start.own):
            self.dead["losing"] = self.start.orphaned = True

    def stops(self) -> None:
        """By SIGSTOP: it hears and says nothing, while its ranks go on."""
        self.stopped = self.state()

    def goes_on(self) -> None:
        """By SIGCONT: it takes in what has come."""
        self.stopped = None
        unread, self.unread = self.unread, []
        for take_in in unread:
            if self.dead is None:
                take_in()

    def terminate(self) -> None:
        self.goes_on()  # SIGTERM is followed by SIGCONT
        self.killed = True
        if self.dead is not None:
            self.sweep()
            return
        for rank in self.alive():
            self.kill(rank)

    def sweep(self) -> bool:
        for rank in self.alive() if self.dead is not None else ():
            if not rank.killed:
                self.kill(rank)
        return not self.alive()

    # --- as a process -----------------------------------------------------------------------

    @property
    def gone(self) -> bool:
        if self.dead is not None or self.stopped is not None:
            return self.dead is not None
        return (self.leaving or self.killed) and not self.alive()

    def alive(self) -> list[Rank]:
        return [rank for rank in self.start.alive() if rank.node == self.node]

    def ranks(self, world: int) -> list[Rank]:
        return [r for r in self.start.ranks if (r.world, r.node) == (world, self.node)]

    def state(self) -> dict[str, Any]:
        self.worlds.forget()
        return {
            **self.worlds.state(),
            "failed": self.failed,
            "killed": self.killed,
            "losing": any(rank.node == self.node for rank in self.start.lost),
        }

    def begin(self, order: m.StartRanks) -> list[int]:
        """Start a world; returns the processors on which ranks come up."""
        start, world = self.start, self.world
        if self.worlds.has_had(start_of(order)) or self.killed or self.dead is not None:
            return []
        self.orders[order.world] = order
        self.worlds[order.world] = KeptWorld(self, order)
        if self.ranks(order.world):
            if world.store.lost:  # an expansion whose end is not known any more: nobody takes it in
                return []
            raise Wrong(f"world {order.world} of job {start.job} starts twice on {self.node}")
        mine = [place.processor for place in order.places if place.node == self.node]
        if not mine:
            raise Wrong(f"{self.node} shall start ranks of job {start.job} and has no place")
        if order.worker:
            start.over = False  # the job may have had none for a while
        if order.worker or order.programs[0][0] == "spawned":
            start.own.add(order.world)
        elif order.env.get("DQ_PROTECT_MEMORY"):
            world.memory.begin(self.node, start.job, lambda: bool(self.alive()))
        start.where |= dict.fromkeys(mine, self.node)
        world.machine.occupy(start, mine)
        for p in mine:
            start.ranks.append(self.rank(order, p))
        return mine

    def rank(self, order: m.StartRanks, processor: int) -> Rank:
        """One that may crash; those that the program has spawned soon end by themselves."""
        world = self.world
        made = Rank(order.world, processor, self.node, part=order.world == 0 or order.spawned)
        if order.world in self.start.own:
            ends_s = world.rng.choice([1.0, 10.0, 30.0] if order.worker else [0.1, 1.0, 3.0])
            world.later(ends_s, lambda: self.ends(made, 0))
        if world.chance(0.5 if self.start.protected else 0.02):
            crashes_s = world.rng.uniform(0.0, 5.0)
            world.later(crashes_s, lambda: self.ends(made, SEGV, "a rank got signal 11"))
        return made

    def kill(self, rank: Rank) -> None:
        rank.killed = True
        self.world.later(self.world.rng.uniform(0.0, 0.5), lambda: self.ends(rank, 137))

    def ends(self, rank: Rank, code: int, error: str = "") -> None:
        if rank.code is not None:
            return
        rank.code = code
        self.world.machine.leave(self.start, [rank.processor])
        if self.dead is not None:
            self.start.orphaned = True  # nobody has seen this end
        elif code and not rank.killed and not rank.part:
            self.failed_worlds.add(rank.world)
        elif code == SEGV and not rank.killed and self.start.mends(self.world, rank):
            # Its report is held back, but not for long.
            self.world.later(3.0, lambda: self.start.gives_up_on(rank))
        elif code and not rank.killed and self.failed is None:
            self.failed = {"code": code, "why": error}
        if not self.start.alive():
            self.start.over = True

    def spawn(self, world_id: int, count: int) -> None:
        """A rank here calls MPI_Comm_spawn."""
        self.tickets += 1
        self.spawning[self.tickets] = {
            "ticket": self.tickets,
            "programs": [["spawned" if world_id == 0 else self.start.program]],
            "program_of": [0] * count,
            "cwd": "/",
            "keys": {},
            "info": {"dq_world": str(world_id)} if world_id else {},
        }

    def end_world(self, world: int, grace_s: float | None = None) -> None:
        """Kill its ranks; or a worker: it leaves in order, within its grace."""
        if world in self.worlds:
            self.worlds[world].ending = True
        for rank in self.ranks(world):
            if rank.code is not None or rank.killed or rank.released:
                continue
            if grace_s is None:
                self.kill(rank)
            else:
                rank.released = True
                after_s = self.world.rng.uniform(0.0, grace_s)
                self.world.later(after_s, lambda rank=rank: self.ends(rank, 0))  # type: ignore[misc]

    def answered(self, ticket: int, why: str) -> None:
        """The server has granted a spawn, or not."""
        asked = self.spawning.pop(ticket, None)
        if asked is not None and why and self.start.app is not None and asked["info"]:
            self.start.app.heard(self.node, {"failed": int(asked["info"]["dq_world"])})

    def heard(self, data: dict[str, Any]) -> None:
        """From a keeper of the job, on another node or this one."""
        if self.start.app is not None:
            self.start.app.heard(data.get("from", self.node), data)

    def to_say(self) -> list[dict[str, Any]]:
        """What is to be said now, or said again, to the agent."""
        found: list[dict[str, Any]] = []
        for number, order in self.orders.items():
            if not order.world or order.spawned:
                continue
            waiting = sum(r.code is None and not r.part for r in self.ranks(number))
            data: dict[str, Any] = {"arrived": number, "count": waiting, "from": self.node}
            if number in self.failed_worlds:
                data = {"failed": number, "from": self.node}
            elif not waiting:
                continue
            if self.is_due(f"world {number}"):
                if order.root == self.node:
                    self.heard(data)
                else:
                    found.append({"relay": order.root, "data": data})
        for ticket, asked in self.spawning.items():
            if self.alive() and self.is_due(f"spawn {ticket}"):
                found.append({"spawn": asked})
        return found

    def is_due(self, what: str) -> bool:
        now = self.world.now
        if now - self.said_s.get(what, float("-inf")) < AGAIN_S:
            return False
        self.said_s[what] = now
        return True
