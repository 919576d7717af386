"""What the keepers of one job tell each other: barriers over nodes, and worlds that join.

All of it is said again until it has had its effect, and changes nothing when it is heard twice
(docs/ranks.md, "Between keepers").
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

from . import pmi
from .loss import Losses
from .world import Rank, World

Json = dict[str, Any]
PUBLISH_TRIES = 5


@dataclass
class Awaited:
    """A world that is to join, as the keeper of the job's rank 0 knows it."""

    rank: Optional[Rank] = None  # who waits for it
    size: int = 0
    here: dict[str, int] = field(default_factory=dict)  # ranks that have come up, by node
    port: str = ""
    failed: str = ""
    mistake: bool = False  # of the program, which ranks of another try would make, too
    told: bool = False
    touch: list[int] = field(default_factory=list)  # sizes of memory that its ranks will need
    touched: dict[str, int] = field(default_factory=dict)  # ranks that have it, by node


@dataclass
class Publishing:
    """A name on its way to the other keepers."""

    data: Json
    others: set[str]  # nodes that may not know it yet
    done: Callable[[], None]
    left: int = PUBLISH_TRIES


class Exchange:
    """One keeper's part.

    nodes    of this keeper; it is known to the others by the first
    worlds   those with ranks here
    send     a message to the agent
    say      a line to a rank, by its resize library
    carry    what a barrier's end leads to
    """

    def __init__(
        self,
        nodes: list[str],
        worlds: dict[int, World],
        send: Callable[[Json], None],
        say: Callable[[Rank, str], None],
        carry: Callable[[World, list[pmi.Effect]], None],
        cancel: Callable[[int], None],
    ) -> None:
        self._nodes, self._worlds = nodes, worlds
        self._send, self._say, self._carry, self._cancel = send, say, carry, cancel
        self.losses: Optional[Losses] = None  # set by the keeper
        self._awaited: dict[int, Awaited] = {}
        self._decided: dict[int, str] = {}  # world -> "go" or "cancel"
        self.names: dict[str, str] = {}  # of MPI_Publish_name
        self._publishing: dict[int, Publishing] = {}
        self._published = 0

    def something_open(self) -> bool:
        """Whether something may have to be said again."""
        return bool(self._publishing) or any(
            world.machine.waiting() is not None or (world.arrived and not world.gone)
            for world in self._worlds.values()
            if world.running()
        )

    def say_again(self) -> None:
        """Say again what has not had its effect."""
        for number, known in list(self._publishing.items()):
            known.left -= 1
            if not known.left:  # a node has gone: nobody there looks a name up any more
                self._note_known(number, list(known.others))
            for node in sorted(known.others):
                self._send({"relay": node, "data": known.data})
        for world in self._worlds.values():
            if world.running():
                fence = world.machine.waiting()
                if fence is not None:
                    self.fence(world, fence)
                if world.arrived and not world.gone:
                    self._tell_arrived(world)

    def relay(self, node: str, data: Json) -> None:
        """To the keeper of a node of the job."""
        if node in self._nodes:
            self.heard(data)
        else:
            self._send({"relay": node, "data": data})

    def heard(self, data: Json) -> None:
        """From another keeper, or from this one."""
        if self.losses is not None and data.keys() & {"lost", "freed", "regroup"}:
            self.losses.heard(data, time.monotonic())
        elif "fence" in data:
            self._fence_from(data)
        elif "fenced" in data:
            world = self._worlds.get(data["fenced"])
            if world is not None:
                self._carry(world, world.machine.fenced(data["seq"], data["keys"]))
        elif "arrived" in data and data["arrived"] in self._decided:
            # Said after the decision: its ranks did not hear of that, and would wait for ever.
            number = data["arrived"]
            self.relay(data["from"], {self._decided[number]: number})
        elif "arrived" in data:
            known = self._awaited.setdefault(data["arrived"], Awaited())
            known.here[data["from"]] = data["count"]
            known.touched[data["from"]] = data["touched"]
            known.port = data["port"] or known.port
            self._tell_touch(data["arrived"], known)
            self._tell_rank_0(data["arrived"], known)
        elif "failed" in data:
            known = self._awaited.setdefault(data["failed"], Awaited())
            known.failed, known.mistake = data["why"], bool(data.get("mistake"))
            self._tell_rank_0(data["failed"], known)
        elif "touch" in data:
            self._touch(data["world"], data["touch"])
        elif "go" in data:
            self._go(data["go"])
        elif "cancel" in data:
            self._cancel(data["cancel"])
        elif "published" in data:
            self.names[data["published"]] = data["port"]
            self.relay(data["from"], {"known": data["number"], "nodes": self._nodes})
        elif "known" in data:
            self._note_known(data["known"], data["nodes"])

    def publish(self, name: str, port: str, done: Callable[[], None]) -> None:
        """A rank here publishes a name, or takes it back (an empty port).

        `done` once every keeper knows it: the rank may tell another one to look it up.
        """
        self.names[name] = port
        nodes = {node for world in self._worlds.values() for node in world.start.nodes}
        others = nodes - set(self._nodes)
        if not others:
            done()
            return
        self._published += 1
        data = {
            "published": name,
            "port": port,
            "number": self._published,
            "from": self._nodes[0],
        }
        self._publishing[self._published] = Publishing(data, others, done)
        for node in sorted(others):
            self._send({"relay": node, "data": data})

    def _note_known(self, number: int, nodes: list[str]) -> None:
        known = self._publishing.get(number)
        if known is not None:
            known.others -= set(nodes)
            if not known.others:
                del self._publishing[number]
                known.done()

    # --- barriers -----------------------------------------------------------------------------

    def fence(self, world: World, fence: pmi.Fence) -> None:
        """All ranks of the world here are in a barrier."""
        data = {
            "fence": world.start.world,
            "seq": fence.seq,
            "from": self._nodes[0],
            "ranks": len(world.machine.local),
            "keys": fence.keys,
        }
        self.relay(world.start.nodes[0], data)

    def _fence_from(self, data: Json) -> None:
        world = self._worlds.get(data["fence"])
        if world is None:
            return  # not started here yet: it is said again
        done = world.collect(data["seq"], data["from"], data["ranks"], data["keys"])
        for node, keys in done.items():
            self.relay(node, {"fenced": data["fence"], "seq": data["seq"], "keys": keys})

    # --- worlds that join -----------------------------------------------------------------------

    def arrive(self, world: World, rank: Rank, port: str, *, touched: bool) -> None:
        """A rank here is up and waits to join; the world's rank 0 gives an MPI port.

        touched: it has reserved the memory that it was told of.
        """
        world.arrived.add(rank.number)
        if touched:
            world.touched.add(rank.number)
        world.port = port or world.port
        self._tell_arrived(world)

    def wait_for(self, rank: Rank, said: Json) -> None:
        """Rank 0 of the job waits for a world."""
        number = int(said["await"])
        known = self._awaited.setdefault(number, Awaited())
        known.rank, known.size = rank, int(said["size"])
        known.touch = [int(nbytes) for nbytes in said.get("touch", [])]
        self._tell_touch(number, known)
        self._tell_rank_0(number, known)

    def decide(self, what: str, number: int) -> None:
        """Rank 0 of the job says: join now (`go`), or end (`cancel`)."""
        self._decided[number] = what
        self._to_all(number, {what: number})
        self._awaited.pop(number, None)

    def _to_all(self, number: int, data: Json) -> None:
        known = self._awaited.get(number, Awaited())
        for node in dict.fromkeys([self._nodes[0], *known.here]):
            self.relay(node, data)

    def _tell_arrived(self, world: World) -> None:
        data = {
            "arrived": world.start.world,
            "count": len(world.arrived),
            "touched": len(world.touched),
            "port": world.port,
            "from": self._nodes[0],
        }
        self.relay(world.start.root or self._nodes[0], data)

    def _tell_rank_0(self, number: int, known: Awaited) -> None:
        if known.rank is None or known.told or known.rank.closed:
            return
        if known.failed:
            answer: Json = {"failed": number, "why": known.failed, "mistake": known.mistake}
        elif known.port and sum(self._ready(known).values()) >= known.size:
            answer = {"ready": number, "port": known.port}
        else:
            return
        known.told = True
        self._say(known.rank, json.dumps(answer))

    @staticmethod
    def _ready(known: Awaited) -> dict[str, int]:
        """How many ranks could be taken in without a wait, by node."""
        return known.touched if known.touch else known.here

    def _tell_touch(self, number: int, known: Awaited) -> None:
        """To the nodes where ranks are up that do not have their memory yet."""
        if known.touch:
            for node, count in known.here.items():
                if known.touched[node] < count:
                    self.relay(node, {"touch": known.touch, "world": number})

    def _touch(self, number: int, sizes: list[int]) -> None:
        world = self._worlds.get(number)
        if world is None:
            return
        for rank in world.running():
            # Once: each answers, and while another one is not ready each answer comes back here.
            if rank.number not in world.told:
                world.told.add(rank.number)
                self._say(rank, json.dumps({"touch": sizes}))

    def _go(self, number: int) -> None:
        world = self._worlds.get(number)
        if world is not None and not world.gone:
            world.gone = True
            for rank in world.running():
                self._say(rank, json.dumps({"go": number}))
