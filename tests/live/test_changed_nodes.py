"""Nodes that come back as others, and what agents say that nodes have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dq_client.base import messages as m
from dq_server.core.model.jobs import JobState
from dq_server.live.views.tables import nodes_view, why_view
from tests.live.talking import Talking, ended, held, refusal


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talking]:
    made = Talking(tmp_path)
    yield made
    made.close()


def report(talk: Talking, name: str, processors: int, **has: object) -> None:
    """The agent of a node says hello, and what it has."""
    info = m.NodeInfo(name, processors, name, **has)  # type: ignore[arg-type]
    welcome = talk.say(name, m.AgentHello(protocol=m.PROTOCOL, agent=name, nodes=[info]))
    assert isinstance(welcome, m.Welcome)
    talk.sessions[name] = welcome.session


def row(talk: Talking, name: str) -> dict[str, object]:
    rows = nodes_view(talk.state, talk.server.desk.places)
    return next(row for row in rows if row["name"] == name)


def test_a_node_that_comes_back_smaller_is_taken_at_its_new_size(talk: Talking) -> None:
    report(talk, "a", 4)
    first, second = talk.submit(2), talk.submit(2)
    for job in (first, second):
        talk.say("a", m.AppStarted(job.id, job.instance, 7))
    report(talk, "a", 3)
    assert row(talk, "a")["processors"] == 4, "only a heartbeat is relied upon"
    talk.beat("a", held(first), held(second))
    assert (row(talk, "a")["processors"], row(talk, "a")["processors_gone"]) == (3, 1)
    assert (first.state, second.state) == (JobState.RUNNING, JobState.KILLING)
    assert [order.job for order in talk.orders("a", m.KillTree)] == [second.id]
    why = "node a came back with 3 processors instead of 4: what ran on the others is lost"
    assert why_view(talk.server.scheduler, second, talk.now)["now"][0]["text"] == why
    talk.say("a", ended(second, -9))
    for order in talk.orders("a", m.Vacate):
        talk.say("a", m.Vacated(second.id, second.instance, order.processors))
    assert row(talk, "a")["idle"] == 1
    report(talk, "a", 6)
    talk.beat("a", held(first))
    assert (row(talk, "a")["processors"], row(talk, "a")["idle"]) == (6, 4)
    talk.restart()
    assert (row(talk, "a")["processors"], row(talk, "a")["idle"]) == (6, 4)


def test_what_nodes_have_is_shown_and_kept(talk: Talking) -> None:
    report(talk, "a", 2, memory=4 << 30, gpus=2, first_gpu=4, features=["x", "y", "x"])
    job = talk.submit(2, gpus=1, memory=1 << 30, constraint=" x&y ")
    (order,) = talk.orders("a", m.StartRanks)
    assert order.gpus == [[4], [5]]
    shown = row(talk, "a")
    assert (shown["memory"], shown["gpus"], shown["features"]) == (4 << 30, 2, ["x", "y"])
    assert (shown["memory_used"], shown["gpus_used"]) == (2 << 30, 2)
    talk.restart()
    assert row(talk, "a") == shown | {"host": "a"}
    report(talk, "a", 2, memory=1 << 30)
    talk.beat("a", held(job))
    assert (row(talk, "a")["memory"], row(talk, "a")["gpus"]) == (1 << 30, 0)
    talk.restart()  # a state in which jobs have more than there is can be started from


def test_what_no_node_has_is_refused(talk: Talking) -> None:
    report(talk, "a", 2, memory=4 << 30)
    body = m.Submit(request="r", name="job", argv=["prog"], cwd="/", initial=1, gpus=1)
    code, text = refusal(talk.say("user", body))
    assert code == "refused"
    assert "the largest node is a with 2 processors, 4 GiB of memory, 0 GPUs, no features" in text
