"""Agents, servers and commands of versions that cannot talk: one line says what to do."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dq_client import __version__
from dq_client.base import messages as m
from dq_client.base import versions
from dq_client.base.errors import UsageError
from dq_client.base.home import Home
from dq_client.node.agent.agent import UNSENT, Agent, WrongServer
from dq_client.node.agent.build import make_agent
from dq_server.live.access import Principal
from harness.live import Live
from tests.live.talking import Talking

AGENT, USER = Principal("agent"), Principal("user")


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talking]:
    made = Talking(tmp_path)
    yield made
    made.close()


def answer(talk: Talking, request: dict[str, Any], principal: Principal = AGENT) -> m.ReplyBody:
    """What the server says to bytes that its own messages do not make."""
    talk.server.receive(b"raw", principal, msgspec.msgpack.encode(request))
    talk.server.finish_turn()
    message = talk.sent[-1][1]
    assert isinstance(message, m.Reply)
    assert message.id == request["id"]
    return message.body


def old_hello(**more: Any) -> dict[str, Any]:
    """As an older agent says it: it has a node, and fields that nobody knows any more."""
    node = {"name": "n1", "processors": 2, "host": "n1", "colour": "red"}
    return {
        "id": "1",
        "body": {"t": "agenthello", "protocol": 1, "agent": "a", "nodes": [node]} | more,
    }


@pytest.mark.parametrize(
    ("hello", "named"),
    [
        (old_hello(), "DQ 0.1 (protocol 1)"),
        (old_hello(nodes=[{"name": "n1", "processors": 2, "host": "n1"}]), "DQ 0.1 (protocol 1)"),
        (old_hello(protocol=99, version="9.9.0", moon=True), "DQ 9.9.0 (protocol 99)"),
        (old_hello(protocol=2**63, nodes=None), None),
        (old_hello(agent=[1]), None),
    ],
)
def test_an_agent_of_another_version_is_told_what_to_do(
    talk: Talking, hello: dict[str, Any], named: str | None
) -> None:
    said = answer(talk, hello)
    assert isinstance(said, m.Error)
    if named is None:  # no version would say so
        assert said.code == "usage"
        return
    assert said.code == "version"
    assert said.text.startswith(
        f"agent a is {named}, this server {versions.OURS}: jobs there go on"
    )
    assert "dq down --force" in said.text and "\n" not in said.text
    assert talk.state.processors.capacity == 0
    status = talk.say("user", m.StatusQuery())
    assert isinstance(status, m.Data)
    assert status.data["agents"]["a"] == {"pid": 0, "nodes": ["n1"], "troubles": [said.text]}
    talk.agent("a", "n1")  # it was upgraded
    status = talk.say("user", m.StatusQuery())
    assert isinstance(status, m.Data)
    assert status.data["agents"]["a"]["troubles"] == []


def test_only_an_agent_has_such_a_hello(talk: Talking) -> None:
    said = answer(talk, old_hello(), USER)
    assert isinstance(said, m.Error)
    assert said.code == "usage"
    assert talk.server.agents.others == {}


def test_a_node_whose_agent_is_of_another_version_is_lost_for_that_reason(talk: Talking) -> None:
    talk.agent("a", "n1", processors=2)
    talk.restart()
    answer(talk, old_hello())
    for _ in range(60):
        talk.now += 1.0
        talk.server.tick()
        talk.server.finish_turn()
    nodes = talk.say("user", m.NodesQuery())
    assert isinstance(nodes, m.Data)
    (node,) = nodes.data
    assert node["state"] == "lost"
    lost = [e for e in talk.server.journal.entries() if "DQ 0.1 (protocol 1)" in str(e)]
    assert lost, "the journal has the reason"


# --- the agent's side -----------------------------------------------------------------------------


class Line:
    """A connection that keeps what is sent."""

    handshakes = 0

    def __init__(self) -> None:
        self.sent: list[m.RequestBody] = []

    def send(self, body: m.RequestBody) -> str:
        self.sent.append(body)
        return f"r{len(self.sent)}"

    def check_refused(self) -> None: ...


def an_agent(tmp_path: Path, line: Line) -> Agent:
    home = Home(tmp_path / "home")
    home.create()
    home.agent("a").mkdir(parents=True)
    nodes = [m.NodeInfo("n1", 1, "n1")]
    made: Any = lambda _: line  # noqa: E731
    return make_agent(home, "a", nodes, made, "tcp://127.0.0.1:1", alone=True)


def test_an_agent_that_was_welcomed_waits_for_a_server_of_its_version(tmp_path: Path) -> None:
    line = Line()
    agent = an_agent(tmp_path, line)
    agent._say_hello()
    (hello,) = line.sent
    assert isinstance(hello, m.AgentHello)
    assert hello.version == __version__
    welcome = m.Welcome(m.PROTOCOL, __version__, 1, "agent", session=7)
    agent._handle(m.Reply(agent._hello, welcome))
    agent._say_hello()  # to another server
    refusal = m.Error("version", versions.refusal("a", __version__, m.PROTOCOL))
    agent._handle(m.Reply(agent._hello, refusal))
    assert not agent.retired
    assert agent._hello == UNSENT
    agent._last_beat -= 100.0
    agent._heartbeat()
    assert isinstance(line.sent[-1], m.AgentHello)
    agent._handle(m.Reply(agent._hello, welcome))
    assert agent._hello == ""


def test_an_agent_that_was_never_welcomed_ends_with_the_line(tmp_path: Path) -> None:
    agent = an_agent(tmp_path, Line())
    agent._say_hello()
    with pytest.raises(WrongServer, match="this server"):
        agent._handle(m.Reply(agent._hello, m.Error("version", versions.refusal("a", "9", 9))))


# --- files ----------------------------------------------------------------------------------------


def test_files_of_other_versions() -> None:
    versions.require_server(versions.noted(), "/h")
    versions.require_agents({"a": {"pid": 1} | versions.noted()}, "/h")
    with pytest.raises(UsageError, match=r"the server of /h is DQ 0\.1 \(protocol 1\), this is DQ"):
        versions.require_server({"pid": 1}, "/h")
    with pytest.raises(UsageError, match=r"agent a \(pid 7\) of /h is DQ 9\.9 \(protocol 9\)"):
        versions.require_agents({"a": {"pid": 7, "version": "9.9", "protocol": 9}}, "/h")


def rewrite(path: Path, **more: object) -> dict[str, Any]:
    before: dict[str, Any] = json.loads(path.read_text())
    path.write_text(json.dumps(before | more))
    return before


@pytest.mark.live
@pytest.mark.mpi
def test_an_upgrade_with_running_jobs_is_refused_and_harms_nothing(live: Live) -> None:
    live.up(2)
    job = live.submit("-n", 1, "--", "sleep", "600")
    began = live.wait(job, lambda view: view["state"] == "running")["start_s"]
    # As if all of it had been started by an older version.
    before = rewrite(live.home.server_file, protocol=1, version="0.1.0")
    for words in (("jobs",), ("submit", "--", "true"), ("down",), ("up", "--detach")):
        refused = live.run(*words)
        assert refused.returncode == 2, (words, refused.stderr)
        assert "is DQ 0.1.0 (protocol 1), this is DQ" in refused.stderr
        assert len(refused.stderr.strip().splitlines()) == 1
    live.home.server_file.write_text(json.dumps(before))
    live.dq("server", "stop")
    agent = live.home.agent("local") / "agent.json"
    before = rewrite(agent, protocol=1, version="0.1.0")
    refused = live.run("server", "start", "--detach")
    assert (refused.returncode, "agent local" in refused.stderr) == (2, True)
    time.sleep(0.5)
    agent.write_text(json.dumps(before))
    live.dq("server", "start", "--detach")  # the older version again
    assert live.wait(job, lambda view: view["state"] == "running")["start_s"] == began
    rewrite(live.home.server_file, protocol=1)
    assert live.run("down", "--force").returncode == 0
