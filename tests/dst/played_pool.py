"""A batch system that gives nodes and takes them away, in some worlds; with dice of its own.

Real: the pool, the driver of engines, and what the server does with both. Played: the engine. Its
requests are lost, answered late or not at all, and carried out after the server that made them has
died; its nodes are refused, start late or never, are revoked, killed, and come to the end of their
time.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dq_client.base import messages as m
from dq_client.node.agent.agent import WrongServer
from dq_server.core.model.pool import Pool, PoolOptions, Shape
from dq_server.live.engines.driver import Driver
from dq_server.live.engines.link import EngineLink
from dq_server.live.engines.port import Has, News, Refusal, TicketPhase, Unclear, WantedTicket
from dq_server.live.server import Server
from tests.dst.played_agent import PlayedAgent
from tests.dst.played_machine import PROCESSORS
from tests.dst.stand_ins import Holdings

if TYPE_CHECKING:
    from tests.dst.world import World

NODES_MAX = 3
OPTIONS = PoolOptions(
    max=NODES_MAX, idle_s=1.5, shape=Shape(PROCESSORS), start_s=1.0, start_within_s=4.0,
    retry_s=1.0, retry_max_s=4.0,
)  # fmt: skip
REMEMBERED_S = 30.0  # holders that have ended


def has_pool(seed: int) -> bool:
    """In these worlds; all others stay as they were."""
    return seed % 16 in (8, 9, 11, 12, 15)


@dataclass
class Holder:
    """A node of the engine's. `silent`: it runs, and its agent does not."""

    key: int
    ticket: int
    phase: TicketPhase = TicketPhase.PENDING
    node: str = ""
    ends_s: float | None = None
    ended_s: float = 0.0
    why: str = "waits"
    silent: bool = False
    agent: PlayedAgent | None = None


class PooledAgent(PlayedAgent):
    """One whose node may have been given back: it is told so, and ends."""

    def turn(self) -> None:
        try:
            super().turn()
        except WrongServer:
            self.retired = True


class BatchSystem:
    """An Engine, and what happens to its nodes."""

    name, at_once = "Batch", 1
    period_s = idle_period_s = 0.7

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = random.Random(f"pool of {world.seed}")
        self.holders: dict[int, Holder] = {}
        self.away = False

    def chance(self, p: float) -> bool:
        return self.world.faults and self.rng.random() < p

    def alive(self) -> list[Holder]:
        return [h for h in self.holders.values() if h.phase is not TicketPhase.ENDED]

    # --- the port -------------------------------------------------------------------------------

    def ask(self, tickets: Sequence[int], processors: int, queue: str) -> None:
        assert (processors, queue) == (PROCESSORS, "")
        (ticket,) = tickets
        if self.chance(0.15):
            raise Refusal("nobody gets anything")
        if self.chance(0.2):  # it may be carried out, whoever is alive then
            if self.chance(0.6):
                self.world.later(self.rng.uniform(0.0, 3.0), lambda: self.take_in(ticket))
            raise Unclear("no answer")
        self.take_in(ticket)

    def take_in(self, ticket: int) -> None:
        key = len(self.holders) + 1
        self.holders[key] = Holder(key, ticket)
        self.world.trace.append(f"{self.world.now:.3f} holder {key} of ticket {ticket}")
        self.world.later(self.rng.uniform(0.0, 2.0), lambda: self.grant(self.holders[key]))

    def give(self, keys: Sequence[str]) -> None:
        if self.chance(0.2):
            raise Unclear("no answer")
        for key in keys:
            self.end(self.holders[int(key)], "cancelled")

    def poll(self) -> list[Has]:
        if self.away:
            raise Unclear("the controller is away")
        now = self.world.now
        return [
            Has(h.ticket, str(h.key), h.phase, h.why, h.node, h.ends_s and max(0.0, h.ends_s - now))
            for h in self.holders.values()
            if h.phase is not TicketPhase.ENDED or now - h.ended_s < REMEMBERED_S
        ]

    def words(self, ticket: int) -> str:
        return ""

    # --- a holder's life ------------------------------------------------------------------------

    def grant(self, holder: Holder) -> None:
        if holder.phase is not TicketPhase.PENDING:
            return
        used = {h.node for h in self.alive()}
        holder.node = next(name for n in range(1, 100) if (name := f"p{n}") not in used)
        holder.phase, holder.why, holder.silent = TicketPhase.RUNNING, "runs", self.chance(0.1)
        world = self.world
        if world.faults and self.rng.random() < 0.7:
            holder.ends_s = world.now + self.rng.uniform(3.0, 8.0)
            world.later(holder.ends_s - world.now, lambda: self.end(holder, "out of time"))
        if self.chance(0.3):
            world.later(self.rng.uniform(0.5, 6.0), lambda: self.strike(holder))
        if not holder.silent:
            world.later(self.rng.uniform(0.1, 1.0), lambda: self.start(holder))

    def start(self, holder: Holder) -> None:
        """Its agent begins."""
        world, node = self.world, holder.node
        if holder.phase is not TicketPhase.RUNNING or holder.agent is not None:
            return
        world.holdings.setdefault(node, Holdings(world.machine))
        agent = holder.agent = PooledAgent(world, node, world.holdings[node])
        agent.nodes = [m.NodeInfo(node, PROCESSORS, node, ticket=holder.ticket)]
        world.agents[node] = agent
        agent._say_hello()
        self.turn(holder, agent)

    def turn(self, holder: Holder, agent: PlayedAgent) -> None:
        if self.world.agents.get(holder.node) is not agent:
            return
        agent.turn()
        if agent.retired:
            self.end(holder, "its agent has ended")
        else:
            pause_s = 0.1 if agent.vacancies.waiting else 0.25
            self.world.later(pause_s, lambda: self.turn(holder, agent))

    def strike(self, holder: Holder) -> None:
        """Revoked, or killed."""
        if holder.phase is not TicketPhase.RUNNING or not self.world.faults:
            return
        if holder.agent is None or self.rng.random() < 0.4:
            self.world.trace.append(f"{self.world.now:.3f} kill {holder.node}")
            self.end(holder, "killed")
            return
        self.world.trace.append(f"{self.world.now:.3f} revoke {holder.node}")
        holder.agent.notice.leave_within_s = 3.0
        holder.agent.leave()
        self.world.later(4.0, lambda: self.end(holder, "preempted"))

    def end(self, holder: Holder, why: str) -> None:
        """With all that runs there."""
        if holder.phase is TicketPhase.ENDED:
            return
        world, agent = self.world, holder.agent
        world.trace.append(f"{world.now:.3f} holder {holder.key} ends: {why}")
        holder.phase, holder.why, holder.ended_s = TicketPhase.ENDED, why, world.now
        if agent is not None and world.agents.get(holder.node) is agent:
            for held in world.holdings[holder.node].trees.values():
                held.vanishes()
            agent.close()
            world.agents[holder.node] = None
        world.memory.lose(holder.node)

    def fail(self) -> None:
        """The controller is away for a while, again and again."""
        world = self.world
        self.away = world.faults and not self.away
        if world.faults:
            pause_s = self.rng.uniform(0.5, 3.0) if self.away else self.rng.uniform(2.0, 8.0)
            world.later(pause_s, self.fail)


class Rounds:
    """Stands for driver.Thread: of one server's life, in the world's time."""

    def __init__(self, world: World, engine: BatchSystem) -> None:
        self.world, self.engine = world, engine
        self.driver = Driver(engine, lambda: world.now)
        self.wanted: dict[int, WantedTicket] | None = None
        self.said: list[News] = []

    def start(self) -> None:
        self.round()

    def want(self, wanted: dict[int, WantedTicket]) -> None:
        self.wanted = wanted

    def news(self) -> list[News]:
        found, self.said = self.said, []
        return found

    def stop(self) -> None:
        """Its server's end is."""

    def round(self) -> None:
        server = self.world.server
        mine: object = server and server.engine and server.engine._thread
        if mine is not self:
            return
        if self.wanted is not None:
            self.said += self.driver.round(self.wanted)
        self.world.later(self.engine.period_s, self.round)


def link(world: World, engine: BatchSystem) -> EngineLink:
    """For a server that starts."""
    return EngineLink(Rounds(world, engine))  # type: ignore[arg-type]


def leaked(server: Server, engine: BatchSystem) -> str:
    """What is left of the pool when nobody needs it; empty: nothing."""
    tickets = Pool.of(server.scheduler.state).tickets
    alive = [(h.key, h.ticket) for h in engine.alive()]
    return f"tickets {list(tickets)}, holders {alive}" if tickets or alive else ""
