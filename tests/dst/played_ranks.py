"""The agent's own logic for the ranks that it starts, over played keepers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import mock

from dq_client.base import messages as m
from dq_client.base.launch import LaunchError
from dq_client.node.agent import own_ranks
from dq_client.node.agent.context import Context
from dq_client.node.agent.local_start import LocalStart
from dq_client.node.agent.own_ranks import OwnRanks
from tests.dst.played_keeper import Keeper
from tests.dst.played_start import begin, started
from tests.dst.verdict import Wrong

if TYPE_CHECKING:
    from tests.dst.world import World


class PlayedLine:
    """Stands for KeeperLine: one for each life of the agent."""

    def __init__(self, ranks: PlayedOwnRanks, keeper: Keeper) -> None:
        self.ranks, self.keeper = ranks, keeper
        self.gone = False
        self.said: Any = None

    def send(self, message: dict[str, Any]) -> None:
        keeper = self.keeper
        if keeper.stopped is not None:
            keeper.unread.append(lambda: self.send(message))
            return
        if keeper.dead is not None:
            return  # nobody reads it
        match message["do"]:
            case "start":
                self.ranks.begin(keeper, message["world"])
            case "relayed":
                keeper.heard(message["data"])
            case "spawn":
                keeper.answered(message["ticket"], message["why"])
            case "end":
                keeper.end_world(message["world"], message.get("grace_s"))
            case "leave":
                keeper.leaving = True
            case _:
                raise Wrong(f"no keeper understands {message}")

    def read(self) -> list[dict[str, Any]]:
        if self.keeper.dead is not None:
            self.gone = True
            return []
        if self.keeper.stopped is not None:
            return []
        found = [] if self.keeper.gone else self.keeper.to_say()
        state = self.keeper.state()
        if state != self.said:
            self.said = state
            found.append({"state": state})
        self.gone = self.keeper.gone
        return found

    def close(self) -> None:
        """Nothing to give back."""


class PlayedOwnRanks(OwnRanks):
    """Real but for the keepers, and for the programs that they start."""

    def __init__(self, world: World, context: Context) -> None:
        self.world = world
        super().__init__(context, [context.name])

    def start(self, order: m.StartRanks) -> None:
        self.world.machine.orders[order.job, order.instance, order.world] = order
        with mock.patch.object(own_ranks, "check_program", self.check):
            super().start(order)

    def check(self, *_: object) -> None:
        if self.world.chance(0.02):
            raise LaunchError("no such program")

    def begin(self, keeper: Keeper, number: int) -> None:
        """The keeper starts its ranks of a world; the last ones of the first begin to compute."""
        start = keeper.start
        order = self.world.machine.orders[start.job, start.instance, number]
        if keeper.begin(order) and not number and len(start.ranks) == len(order.places):
            begin(self.world, start)

    def _make(self, order: m.StartRanks) -> LocalStart:
        start = started(self.world, order)
        if start is None:
            raise Wrong(f"world {order.world} of job {order.job} starts before the job")
        keeper: Any = Keeper(self.world, start, self._context.name)
        self._context.holdings.add(keeper)  # type: ignore[attr-defined]
        kept = LocalStart(keeper)
        line: Any = PlayedLine(self, keeper)
        self._use(kept, line)
        return kept

    def _find_starter(self, kept: LocalStart, order: m.StartRanks) -> None:
        """The keeper is there already."""

    def _adopt(self, held: Any) -> None:
        kept = LocalStart(held)
        self._jobs[held.record.job, held.record.instance] = kept
        held.over = False  # that is for this agent to find out
        if held.gone:
            self._is_gone(kept)
        else:
            line: Any = PlayedLine(self, held)
            self._use(kept, line)
