"""When an agent counts as lost, and when not: the server alone, under a clock of the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dq_client.base import codec, keys
from dq_client.base import messages as m
from dq_client.base.home import Home
from dq_server.live.access import Access, Principal
from dq_server.live.agents.heartbeats import MISSED, Heartbeats
from dq_server.live.server import Server
from dq_server.live.store.journal import Journal

TICK_S = 0.25


class Clocked:
    """A server with one agent of one node."""

    def __init__(self, home: Home) -> None:
        self.now = 1000.0
        self.server = Server(
            Journal(home.journal), Access(home.keys), lambda *_: None,
            heartbeat_s=2.0,
            clock=lambda: self.now, monotonic=lambda: self.now,
        )  # fmt: skip
        hello = m.AgentHello(m.PROTOCOL, "a", [m.NodeInfo("n1", 1, "n1")])
        frame = codec.encode(m.Request("q", hello))
        self.server.receive(b"a", Principal("agent"), frame)
        self.server.finish_turn()

    def is_up(self) -> bool:
        return self.server.scheduler.state.processors.nodes["n1"].up

    def attend(self, seconds: float) -> None:
        for _ in range(int(seconds / TICK_S)):
            self.now += TICK_S
            self.server.tick()
            self.server.finish_turn()


@pytest.fixture
def clocked(tmp_path: Path) -> Iterator[Clocked]:
    home = Home(tmp_path / "home")
    home.create()
    keys.ensure(home.keys)
    made = Clocked(home)
    yield made
    made.server.journal.close()


def test_an_agent_that_is_silent_for_three_heartbeats_is_lost(clocked: Clocked) -> None:
    clocked.attend(5)
    assert clocked.is_up()
    clocked.attend(1)
    assert not clocked.is_up()


def test_nobody_was_silent_while_the_server_itself_was_away(clocked: Clocked) -> None:
    """A server that was stopped for an hour has not read what the agents said meanwhile."""
    clocked.attend(3)
    clocked.now += 3600
    clocked.server.tick()
    assert clocked.is_up()
    clocked.attend(2)
    assert clocked.is_up()
    clocked.attend(1)
    assert not clocked.is_up(), "but then its silence goes on counting"


@pytest.mark.parametrize(
    ("lost_after_s", "agents", "period_s", "patience_s"),
    [
        (None, 1, 2.0, 5.5),
        (None, 64, 2.0, 5.5),
        (None, 128, 4.0, 11.0),
        (12.0, 128, 4.0, 12.0),
        (12.0, 1000, 12 / MISSED, 12.0),  # never so rare that an agent is lost by it
    ],
)
def test_many_agents_send_fewer_heartbeats(
    lost_after_s: float | None, agents: int, period_s: float, patience_s: float
) -> None:
    heartbeats = Heartbeats(2.0, lost_after_s)
    assert heartbeats.period_s(agents) == pytest.approx(period_s)
    assert heartbeats.patience_s(period_s) == pytest.approx(patience_s)


def test_an_agent_is_patiently_waited_for_as_it_was_told(clocked: Clocked) -> None:
    agents = clocked.server.agents
    agents.heartbeats = Heartbeats(20.0)
    link = agents.by_name["a"]
    assert agents.heard(link, clocked.now) == 20.0
    clocked.attend(54)
    assert clocked.is_up()
    clocked.attend(2)
    assert not clocked.is_up()
