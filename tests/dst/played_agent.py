"""The agent's own logic, with played processes for it to look after."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from dq_client.base import messages as m
from dq_client.base import process_tree
from dq_client.base.home import Home
from dq_client.node.agent.agent import Agent
from dq_client.node.agent.applications import Applications, Launcher
from dq_client.node.agent.context import Context
from dq_client.node.agent.handover import Handover
from dq_client.node.agent.holdings import HoldingRecord
from dq_client.node.agent.marks import Ranks
from dq_client.node.agent.proxies import Proxies
from dq_client.node.agent.troubles import NODE, Troubles
from dq_client.node.agent.usage import UsageMeter
from dq_client.node.agent.vacancies import Vacancies
from tests.dst.played_copies import PlayedCopies
from tests.dst.played_machine import MACHINE, PROCESSORS
from tests.dst.played_ranks import PlayedOwnRanks
from tests.dst.played_start import launch, spread
from tests.dst.stand_ins import Held, Holdings

if TYPE_CHECKING:
    from tests.dst.world import World

HEARTBEAT_S = 1.0
FOLDER = TemporaryDirectory(prefix="dq-dst-")  # the outputs of played proxies are to lie in it
NOWHERE = Path(FOLDER.name)
LAUNCHER = Launcher(rsh=NOWHERE, rsh_socket=NOWHERE)


class PlayedAgent(Agent):
    """The agent's logic over played processes, without sockets and folders."""

    def __init__(self, world: World, node: str, holdings: Holdings) -> None:
        context = Context(
            home=Home(NOWHERE),
            owner=process_tree.Owner(NOWHERE, node),
            connection=world.agent_line(node, self.turn),  # type: ignore[arg-type]
            holdings=holdings,  # type: ignore[arg-type]
            clock=lambda: world.now,
        )
        context.troubles = PlayedTroubles(world, node)
        context.usage = PlayedUsage(world, node)
        ranks = Ranks(context)  # no folder, so nobody is ever missing
        proxies = Proxies(context, ranks, {node}, None)
        copies = PlayedCopies(world, node)
        own = PlayedOwnRanks(world, context)
        super().__init__(
            nodes=[m.NodeInfo(node, PROCESSORS, node)],
            context=context,
            applications=PlayedApplications(world, context, proxies, ranks, own),
            vacancies=PlayedVacancies(world, context, copies, own),
            proxies=proxies,
            ranks=ranks,
            own=own,
            copies=copies,  # type: ignore[arg-type]
            handover=Handover(context.home, node, context.send, context.clock),
            allegiance=world.allegiance(node, self.turn),
            heartbeat_s=HEARTBEAT_S,
            life=f"{node}.{world.lives}",
            machine=MACHINE,
        )
        self.others = Random(f"others {world.seed} {node}")
        self.told = 0.0

    def _load(self, now: float) -> float:
        """Others come and go: every 20 heartbeats or so."""
        if self.others.random() < 0.05:
            self.told = self.others.choice((0.0, 0.2, 3.0))
        return self.told


class PlayedUsage(UsageMeter):
    """Of played processes: what a job has used on a node is the time."""

    def __init__(self, world: World, node: str) -> None:
        super().__init__(node)
        self._world, self._drawn = world, Random(f"usage {world.seed} {node}")

    def look(self, now: float, trees: Mapping[str, Any]) -> list[m.JobUsage]:
        if self._drawn.random() < 0.5:  # not each heartbeat has it
            return []
        of = sorted({(t.record.job, t.record.instance) for t in trees.values()})
        rank = m.RankSample(self.node, 0, 0, now, 1 << 20)
        return [m.JobUsage(*each, now, now, 1 << 20, [rank]) for each in of]

    def ended(self, tree: Any) -> float:
        return self._world.now


class PlayedTroubles(Troubles):
    """Of a played disk."""

    def __init__(self, world: World, node: str) -> None:
        super().__init__(Home(NOWHERE))
        self._world, self._node = world, node

    def cannot_start(self) -> str:
        self.tell(NODE, "the disk is full" if self._node in self._world.disk.full_nodes else "")
        return self._known.get(NODE, "")


class PlayedApplications(Applications):
    """Over played processes."""

    def __init__(
        self, world: World, context: Context, proxies: Proxies, ranks: Ranks, own: Any
    ) -> None:
        super().__init__(context, LAUNCHER, proxies, ranks, own)
        self.world = world

    def start(self, order: m.Launch) -> Any:
        process = launch(self.world, order)
        held = Held(HoldingRecord(order.job, order.instance), process, self.world.machine)
        spread(self.world, process, self._context.name)
        return self._context.holdings.add(held)  # type: ignore[attr-defined]


class PlayedVacancies(Vacancies):
    """Over played processes."""

    def __init__(self, world: World, context: Context, copies: PlayedCopies, own: Any) -> None:
        super().__init__(context, copies, own)  # type: ignore[arg-type]
        self.machine = world.machine

    def still_there(self, order: m.Vacate) -> list[int]:
        return [pid for pid in order.pids if pid in self.machine.pids]

    def clear(self, order: m.Vacate) -> bool:
        on = self.machine.on
        return all(on.get(p, (0, 0))[0] != order.job for p in order.processors)
