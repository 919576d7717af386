"""The agent's own logic, with played processes for it to look after."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from dq_client import messages as m
from dq_client.agent import tree
from dq_client.agent.agent import Agent
from dq_client.agent.applications import Applications, Launcher
from dq_client.agent.context import Context
from dq_client.agent.holdings import Record
from dq_client.agent.proxies import Proxies
from dq_client.agent.ranks import Ranks
from dq_client.agent.vacancies import Vacancies
from dq_client.home import Home
from dq_server.live.access import Principal
from tests.dst.played_line import Line
from tests.dst.played_machine import PROCESSORS
from tests.dst.played_ranks import Ranks as OwnRanks
from tests.dst.played_start import launch, spread
from tests.dst.stand_ins import Held, Holdings, NoCopies, NoOwnRanks

if TYPE_CHECKING:
    from tests.dst.world import World

HEARTBEAT_S = 1.0
NOWHERE = Path("/nowhere")
LAUNCHER = Launcher(rsh=NOWHERE, rsh_socket=NOWHERE)


class PlayedAgent(Agent):
    """The agent's logic over played processes, without sockets and folders."""

    def __init__(self, world: World, node: str, holdings: Holdings) -> None:
        context = Context(
            home=Home(NOWHERE),
            owner=tree.Owner(NOWHERE, node),
            connection=Line(world, node, Principal("agent"), self.turn),  # type: ignore[arg-type]
            holdings=holdings,  # type: ignore[arg-type]
            clock=lambda: world.now,
        )
        ranks = Ranks(context)  # no folder, so nobody is ever missing
        proxies, copies = Proxies(context, ranks, {node}, None), NoCopies()
        own: Any = NoOwnRanks()  # played_ranks.py stands for them
        super().__init__(
            nodes=[m.NodeInfo(node, PROCESSORS, node)],
            context=context,
            applications=PlayedApplications(world, context, proxies, ranks, own),
            vacancies=PlayedVacancies(world, context, copies, own),
            proxies=proxies,
            ranks=ranks,
            own=own,
            copies=copies,  # type: ignore[arg-type]
            heartbeat_s=HEARTBEAT_S,
        )
        self.own_ranks = OwnRanks(world, context)

    def _carry_out(self, body: m.OrderBody) -> None:
        match body:
            case m.StartRanks():
                self.own_ranks.start(body)
            case m.Relayed():
                self.own_ranks.relayed(body)
            case m.Vacate(world=world) if world >= 0:
                self.own_ranks.vacate(body)
            case _:
                super()._carry_out(body)

    def _holdings(self) -> list[m.Holding]:
        worlds = {(k.record.job, k.record.instance): k.there() for k in self.own_ranks.keepers()}
        return [
            structs.replace(held, worlds=worlds.get((held.job, held.instance), []))
            for held in super()._holdings()
        ]

    def _acknowledged(self, message: m.Reply) -> None:
        self.own_ranks.answered(message)
        super()._acknowledged(message)

    def _watch(self) -> None:
        super()._watch()
        self.own_ranks.look()


class PlayedApplications(Applications):
    """Over played processes."""

    def __init__(
        self, world: World, context: Context, proxies: Proxies, ranks: Ranks, own: Any
    ) -> None:
        super().__init__(context, LAUNCHER, proxies, ranks, own)
        self.world = world

    def start(self, order: m.Launch) -> Any:
        process = launch(self.world, order)
        held = Held(Record(order.job, order.instance), process, self.world.machine)
        spread(self.world, process, self._context.name)
        return self._context.holdings.add(held)  # type: ignore[attr-defined]


class PlayedVacancies(Vacancies):
    """Over played processes."""

    def __init__(self, world: World, context: Context, copies: NoCopies, own: Any) -> None:
        super().__init__(context, copies, own)  # type: ignore[arg-type]
        self.machine = world.machine

    def still_there(self, order: m.Vacate) -> list[int]:
        return [pid for pid in order.pids if pid in self.machine.pids]

    def clear(self, order: m.Vacate) -> bool:
        on = self.machine.on
        return all(on.get(p, (0, 0))[0] != order.job for p in order.processors)
