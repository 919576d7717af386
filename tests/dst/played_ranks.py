"""What an agent does for the ranks that it starts itself (docs/ranks.md)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dq_client import messages as m
from dq_client.agent.context import Context
from tests.dst.played_keeper import NEVER, Keeper, Rank
from tests.dst.played_start import begin, started
from tests.dst.verdict import Wrong

if TYPE_CHECKING:
    from tests.dst.world import World

RELAY_S = 0.5
SEGV = 139
SPAWN_AGAIN_S = 1.0


class Ranks:
    """One agent's part; its memory dies with it, the keepers live on."""

    def __init__(self, world: World, context: Context) -> None:
        self.world, self.context = world, context
        self.node = context.name
        self.seen: dict[tuple[int, int], set[int]] = {}  # worlds started, or ended
        self.told: set[tuple[int, int]] = set()
        self.vacating: list[m.Vacate] = []
        self.asked: dict[str, tuple[Keeper, int]] = {}  # request -> spawn and ticket
        self.ended: set[tuple[int, int, int]] = set()  # worlds reported: job, instance, world

    def keepers(self) -> list[Keeper]:
        trees: Any = self.context.holdings.trees.values()
        return [held for held in trees if isinstance(held, Keeper)]

    def keeper(self, job: int, instance: int) -> Keeper | None:
        found: Keeper | None = self.context.holdings.get(job, instance)  # type: ignore[assignment]
        return found

    # --- orders -----------------------------------------------------------------------------

    def start(self, order: m.StartRanks) -> None:
        of, context, world = (order.job, order.instance), self.context, self.world
        seen = self.seen.setdefault(of, set())
        if of in context.closed or order.world in seen:
            return
        keeper = self.keeper(*of)
        if keeper is not None and (order.world in keeper.worlds or keeper.killed):
            return
        start = started(world, order)
        if start is None:
            return
        seen.add(order.world)
        if keeper is None:
            keeper = Keeper(world, start, self.node)
            context.holdings.add(keeper)  # type: ignore[attr-defined]
        keeper.worlds.add(order.world)
        if order.programs[0][0] == "spawned":
            start.own.add(order.world)
        # What was said before does not hold any more, whatever is answered.
        context.reports._open.pop(f"end {of[0]}.{of[1]}", None)
        if any((r.world, r.node) == (order.world, self.node) for r in start.ranks):
            raise Wrong(f"world {order.world} of job {of[0]} is started twice on {self.node}")
        mine = [place.processor for place in order.places if place.node == self.node]
        if not mine:
            raise Wrong(f"{self.node} shall start ranks of job {of[0]} and has no place")
        if world.chance(0.02):
            self.cannot_start(keeper, order)
            return
        for p in mine:
            world.machine.occupy(start, [p])
            start.where[p] = self.node
            start.ranks.append(self.rank(keeper, order, p))
        if order.world == 0:
            started_here = m.AppStarted(of[0], of[1], start.pid)
            context.reports.add(f"start {of[0]}.{of[1]}", started_here)
            if len(start.ranks) == len(order.places):
                begin(world, start)

    def rank(self, keeper: Keeper, order: m.StartRanks, processor: int) -> Rank:
        """One that may crash; those that the program has spawned soon end by themselves."""
        world, own = self.world, order.programs[0][0] == "spawned"
        made = Rank(order.world, processor, self.node, joined=order.world == 0 or own)
        if own:
            ends_s = world.rng.choice([0.1, 1.0, 3.0])
            world.later(ends_s, lambda: keeper.ends(made, 0))
        if world.chance(0.02):
            crashes_s = world.rng.uniform(0.0, 5.0)
            world.later(crashes_s, lambda: keeper.ends(made, SEGV, "a rank got signal 11"))
        return made

    def cannot_start(self, keeper: Keeper, order: m.StartRanks) -> None:
        """A world that joins is given up by who waits for it; any other one fails the job."""
        if order.world and order.programs[0][0] != "spawned":
            keeper.failed_worlds.add(order.world)
        else:
            keeper.failed = 127, f"on {self.node} the ranks cannot be started"

    def vacate(self, order: m.Vacate) -> None:
        """End the ranks of a world that is not wanted any more."""
        self.seen.setdefault((order.job, order.instance), set()).add(order.world)
        keeper = self.keeper(order.job, order.instance)
        if keeper is not None:
            for rank in keeper.alive():
                if rank.world == order.world and not rank.killed:
                    if rank.processor not in order.processors:
                        raise Wrong(f"world {order.world} ends, but not on {rank.processor}")
                    keeper.kill(rank)
        if order not in self.vacating:
            self.vacating.append(order)

    def relayed(self, order: m.Relayed) -> None:
        keeper = self.keeper(order.job, order.instance)
        if keeper is not None and keeper.start.app is not None:
            keeper.start.app.heard(order.node, json.loads(order.data))

    # --- what happens -----------------------------------------------------------------------

    def look(self) -> None:
        for keeper in self.keepers():
            self.look_at(keeper)
            self.look_at_worlds(keeper)
        self.vacating = [order for order in self.vacating if not self.vacated(order)]

    def look_at(self, keeper: Keeper) -> None:
        r, reports = keeper.record, self.context.reports
        about = f"end {r.job}.{r.instance}"
        ranks = [rank for rank in keeper.start.ranks if rank.node == self.node]
        code, error = keeper.failed or ((137, "") if keeper.killed else (0, ""))
        body = m.AppEnded(
            job=r.job,
            instance=r.instance,
            exit_code=code,
            error=error,
            # Not a newer one that waits: what is said of the others says nothing of that.
            world=max((rank.world for rank in ranks if rank.joined), default=0),
        )
        ended = not any(rank.joined and rank.code is None for rank in ranks)
        said = reports._open.get(about)
        if said is not None and (not ended or said.body != body):
            del reports._open[about]  # it does not hold any more
        if ended and (not keeper.running() or any(rank.joined for rank in ranks)):
            held: Any = None if keeper.running() else keeper
            reports.add(about, body, held)
        elif keeper.failed and (r.job, r.instance) not in self.told:
            self.told.add((r.job, r.instance))
            reports.add(f"fail {r.job}.{r.instance}", body)

    def look_at_worlds(self, keeper: Keeper) -> None:
        now, r = self.world.now, keeper.record
        for world_id in sorted(keeper.worlds - {0}):
            ranks = [x for x in keeper.start.ranks if (x.world, x.node) == (world_id, self.node)]
            waiting = [rank for rank in ranks if rank.code is None and not rank.joined]
            failed = world_id in keeper.failed_worlds
            if (waiting or failed) and now - keeper.relayed_s.get(world_id, NEVER) >= RELAY_S:
                keeper.relayed_s[world_id] = now
                arrived = {"arrived": world_id, "count": len(waiting)}
                data = json.dumps({"failed": world_id} if failed else arrived).encode()
                self.say(keeper, keeper.start.node, data)
            of = r.job, r.instance, world_id
            own = all(rank.joined for rank in ranks) and world_id in keeper.start.own
            if own and of not in self.ended and all(rank.code is not None for rank in ranks):
                self.ended.add(of)
                self.context.reports.add(f"world {world_id}", m.WorldEnded(*of))
        for ticket, spawn in list(keeper.spawning.items()):
            if not keeper.running():
                del keeper.spawning[ticket]
            elif now - spawn.asked_s >= SPAWN_AGAIN_S:
                spawn.asked_s = now
                self.asked[self.context.send(spawn.body)] = keeper, ticket

    def answered(self, message: m.Reply) -> None:
        """The server's word on a spawn: a refusal is told to the rank."""
        keeper, ticket = self.asked.pop(message.id, (None, 0))
        refused = isinstance(message.body, m.Error)
        if isinstance(message.body, m.Error) and message.body.code == "later":
            return
        if keeper is not None and ticket in keeper.spawning:
            body = keeper.spawning.pop(ticket).body
            if refused and keeper.start.app is not None and body.world:
                keeper.start.app.heard(self.node, {"failed": body.world})

    def say(self, keeper: Keeper, node: str, data: bytes) -> None:
        """To the keeper on another node, or here."""
        r = keeper.record
        if node == self.node:
            self.relayed(m.Relayed(job=r.job, instance=r.instance, node=node, data=data))
        else:
            self.context.send(m.Relay(job=r.job, instance=r.instance, node=node, data=data))

    def vacated(self, order: m.Vacate) -> bool:
        keeper = self.keeper(order.job, order.instance)
        if keeper is not None and any(rank.world == order.world for rank in keeper.alive()):
            return False
        about = f"vacated {order.job}.{order.instance} {order.processors[0]}"
        body = m.Vacated(order.job, order.instance, order.processors)
        self.context.reports.add(about, body)
        return True
