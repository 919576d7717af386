"""The agent's own logic, with played processes for it to look after."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from played_line import Line
from played_machine import PROCESSORS
from played_start import launch, spread
from stand_ins import Held, Holdings, NoCopies

from dq_client import messages as m
from dq_client.agent.agent import Agent
from dq_client.agent.applications import Applications
from dq_client.agent.departures import Departures
from dq_client.agent.holdings import Record
from dq_client.agent.proxies import Proxies
from dq_client.agent.ranks import Ranks
from dq_client.home import Home
from dq_server.live.access import Principal

if TYPE_CHECKING:
    from world import World

HEARTBEAT_S = 1.0


class PlayedAgent(Agent):
    """The agent's logic over played processes."""

    __slots__ = ("world",)

    def __init__(self, world: World, node: str, holdings: Holdings) -> None:
        self.world = world
        info = [m.NodeInfo(node, PROCESSORS, node)]
        line = Line(world, node, Principal("agent"), self.turn)
        super().__init__(Home(Path("/nowhere")), node, info, line, HEARTBEAT_S)  # type: ignore[arg-type]
        self.clock = lambda: world.now
        self.copies = NoCopies()  # type: ignore[assignment]
        self.holdings = holdings  # type: ignore[assignment]

    def __post_init__(self) -> None:
        """Without sockets and folders."""
        self.applications = PlayedApplications(self)
        self.departures, self.proxies = PlayedDepartures(self), Proxies(self, None)
        self.ranks = Ranks(self)  # no folder, so nobody is ever missing


class PlayedApplications(Applications):
    """Over played processes."""

    def start(self, order: m.Launch) -> Any:
        agent: Any = self._agent
        process = launch(agent.world, order)
        held = Held(Record(order.job, order.instance), process, agent.world.machine)
        spread(agent.world, process, agent.name)
        return agent.holdings.add(held)


class PlayedDepartures(Departures):
    """Over played processes."""

    def still_there(self, order: m.Vacate) -> list[int]:
        pids = self._agent.world.machine.pids  # type: ignore[attr-defined]
        return [pid for pid in order.pids if pid in pids]

    def clear(self, order: m.Vacate) -> bool:
        on = self._agent.world.machine.on  # type: ignore[attr-defined]
        return all(on.get(p, (0, 0))[0] != order.job for p in order.processors)
