"""New nodes that are expected join in the order of their names: the server under a test's clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Never

import pytest

from dq_client.base import codec, keys
from dq_client.base import messages as m
from dq_client.base.home import Home
from dq_server.live.access import Access, Principal
from dq_server.live.agents.join_order import PATIENCE_S
from dq_server.live.server import Server
from dq_server.live.store.journal import Journal, JournalError

AGENT = Principal("agent")
TICK_S = 0.25
BEAT_S = 2.0


class Called:
    """A server that expects nodes, and agents that report to it and beat."""

    def __init__(self, home: Home, expected: list[str]) -> None:
        self.home, self.now = home, 1000.0
        self.start(expected)

    def start(self, expected: list[str]) -> None:
        self.server = Server(
            Journal(self.home.journal), Access(self.home.keys),
            lambda *_: None, heartbeat_s=BEAT_S, expected=expected,
            clock=lambda: self.now, monotonic=lambda: self.now,
        )  # fmt: skip
        self.sessions: dict[str, int] = {}

    def restart(self, expected: list[str]) -> None:
        self.server.journal.close()
        self.start(expected)

    def say(self, agent: str, body: m.RequestBody) -> None:
        self.server.receive(agent.encode(), AGENT, codec.encode(m.Request("q", body)))
        self.server.finish_turn()

    def hello(self, agent: str, *nodes: str) -> None:
        infos = [m.NodeInfo(name, 1, name) for name in nodes or (agent,)]
        self.say(agent, m.AgentHello(m.PROTOCOL, agent, infos))
        self.sessions[agent] = self.server.agents.by_name[agent].session
        self.beat(agent)

    def beat(self, agent: str) -> None:
        self.say(agent, m.Heartbeat(self.sessions[agent], [], 0.0))

    def attend(self, seconds: float, silent: Sequence[str] = ()) -> None:
        for turn in range(int(seconds / TICK_S)):
            self.now += TICK_S
            for agent in self.sessions.keys() - set(silent):
                if turn % int(BEAT_S / TICK_S) == 0:
                    self.beat(agent)
            self.server.tick()
            self.server.finish_turn()

    @property
    def nodes(self) -> list[str]:
        return list(self.server.scheduler.state.processors.nodes)

    @property
    def up(self) -> set[str]:
        return {n.name for n in self.server.scheduler.state.processors.nodes.values() if n.up}


@pytest.fixture
def called(tmp_path: Path) -> Iterator[Called]:
    home = Home(tmp_path / "home")
    home.create()
    keys.ensure(home.keys)
    made = Called(home, ["c", "a", "b"])
    yield made
    made.server.scheduler.state.check()
    made.server.journal.close()


def test_who_reports_early_waits_for_those_before(called: Called) -> None:
    called.hello("b")
    called.hello("a")
    assert called.nodes == []
    called.hello("c")
    assert called.nodes == ["c", "a", "b"]
    called.restart([])
    assert called.nodes == ["c", "a", "b"], "the journal has them so"


def test_who_reports_in_the_order_joins_at_once(called: Called) -> None:
    called.hello("c")
    assert called.nodes == ["c"]
    called.hello("b")
    called.hello("a")
    assert called.nodes == ["c", "a", "b"]


def test_nobody_waits_for_ever_and_a_late_one_is_the_last(called: Called) -> None:
    called.hello("b")
    called.hello("a")
    called.attend(PATIENCE_S)
    assert called.nodes == []
    called.attend(TICK_S)
    assert called.nodes == ["a", "b"]
    called.hello("c")
    assert called.nodes == ["a", "b", "c"]
    assert called.up == {"a", "b", "c"}


def test_everyone_who_reports_renews_the_patience_once(called: Called) -> None:
    called.hello("b")
    called.attend(PATIENCE_S - 1)
    called.hello("a")
    called.attend(2)
    assert called.nodes == []
    called.hello("b")  # again: a new connection
    called.attend(PATIENCE_S - 1.75)
    assert called.nodes == ["a", "b"]


def test_a_node_that_is_not_expected_joins_at_once(called: Called) -> None:
    called.hello("b")
    called.hello("x")
    assert called.nodes == ["x"]


def test_nodes_that_the_journal_knows_come_back_at_once(called: Called) -> None:
    for name in "cab":
        called.hello(name)
    called.restart(["c", "a", "b", "d"])
    called.attend(10)  # all are lost
    assert called.up == set()
    called.hello("b")
    assert called.up == {"b"}
    called.hello("d")
    assert called.nodes == ["c", "a", "b", "d"], "those before it have joined before"
    assert called.up == {"b", "d"}


def test_an_agent_that_dies_while_it_waits_does_not_join(called: Called) -> None:
    called.hello("b")
    called.attend(PATIENCE_S - 1, silent=["b"])
    called.hello("a")
    called.attend(PATIENCE_S + TICK_S, silent=["b"])
    assert "b" not in called.server.agents.by_name
    assert called.nodes == ["a"]
    called.hello("b")
    called.hello("c")
    assert called.nodes == ["a", "b", "c"]


def test_one_agent_with_several_nodes_among_others(called: Called) -> None:
    called.restart(["a", "b", "c", "d"])
    called.hello("second", "d", "b")
    assert called.nodes == []
    called.hello("first", "c", "a")
    assert called.nodes == ["a", "b", "c", "d"]


def test_a_turn_that_could_not_be_saved_keeps_the_order(
    called: Called, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing() -> Never:
        raise JournalError("the disk is full")

    called.hello("b")
    called.hello("a")
    with monkeypatch.context() as broken:
        broken.setattr(called.server.journal, "commit", failing)
        called.hello("c")
    assert called.nodes == []
    for name in "bac":
        called.beat(name)
    assert called.nodes == ["c", "a", "b"]
