"""The server's part in nodes that leave: what agents say, and what they are told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dq_client.base import messages as m
from dq_server.core.features.draining import Drains
from dq_server.core.model.jobs import Job
from dq_server.core.model.launching import Launching
from dq_server.live.views.tables import nodes_view
from tests.live.talking import Talking, ended, held, refusal, running


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talking]:
    """Agents a and b, of a processor each, and c with nodes c1 and c2."""
    made = Talking(tmp_path)
    made.agent("a", life="a1")
    made.agent("b", life="b1")
    made.agent("c", "c1", "c2", life="c1")
    yield made
    made.close()


def states(talk: Talking) -> str:
    return " ".join(node["state"] for node in nodes_view(talk.state, talk.server.desk.places))


def pass_time(talk: Talking, seconds: float, *agents: str) -> None:
    """The server runs on; these agents send heartbeats."""
    for _ in range(int(2 * seconds)):
        talk.later(0.5)
        for name in agents:
            talk.beat(name)
        talk.server.tick()
        talk.server.finish_turn()


def ends(talk: Talking, job: Job, *agents: str) -> None:
    for name in agents:
        talk.say(name, ended(job))
    for name in agents:
        for order in talk.orders(name, m.Vacate):
            talk.say(name, m.Vacated(job.id, job.instance, order.processors))


# --- an agent that is told to go ----------------------------------------------------------------


def test_an_idle_agent_may_go_at_once(talk: Talking) -> None:
    talk.beat("a", leaving_s=30.0)
    assert [order.nodes for order in talk.orders("a", m.Retire)] == [["a"]]
    assert states(talk) == "left up up up"
    assert refusal(talk.beat("a", leaving_s=30.0))[0] == "later"


def test_an_agent_goes_when_its_job_has_ended_and_it_holds_nothing(talk: Talking) -> None:
    job = running(talk, "a", "b")
    talk.beat("a", held(job), leaving_s=30.0)
    assert states(talk) == "draining up up up"
    assert Drains.of(talk.state).nodes["a"].deadline_s == talk.now + 30.0
    ends(talk, job, "a", "b")
    assert states(talk) == "empty up up up"
    talk.beat("a", held(job, running=False), leaving_s=28.0)
    assert not talk.orders("a", m.Retire)
    talk.beat("a", leaving_s=28.0)
    assert [order.nodes for order in talk.orders("a", m.Retire)] == [["a"]]
    assert states(talk) == "left up up up"


def test_a_sooner_end_counts_and_its_reason_is_the_jobs(talk: Talking) -> None:
    job = running(talk, "a")
    talk.beat("a", held(job), leaving_s=30.0)
    talk.beat("a", held(job), leaving_s=29.9)
    assert Drains.of(talk.state).nodes["a"].deadline_s == talk.now + 30.0, (
        "a word on its way is no news"
    )
    talk.beat("a", held(job), leaving_s=2.0, leaving_why="SIGTERM of the batch system")
    found = Drains.of(talk.state).nodes["a"]
    assert (found.deadline_s, found.reason) == (talk.now + 2.0, "SIGTERM of the batch system")


def test_it_is_told_once_more_if_that_got_lost(talk: Talking) -> None:
    talk.beat("a", leaving_s=30.0)
    talk.restart()
    talk.agent("a", life="a1")
    talk.orders("a", m.Retire)
    talk.beat("a", leaving_s=20.0)
    assert [order.nodes for order in talk.orders("a", m.Retire)] == [["a"]]
    assert states(talk) == "left up up up"


def test_an_agent_that_goes_does_not_bring_its_lost_node_back(talk: Talking) -> None:
    pass_time(talk, 20.0)
    assert states(talk) == "lost lost lost lost"
    talk.agent("a", life="a1")
    talk.beat("a", leaving_s=20.0)
    assert states(talk) == "lost lost lost lost"
    assert [order.nodes for order in talk.orders("a", m.Retire)] == [["a"]]


def test_another_agent_takes_over_while_it_leaves(talk: Talking) -> None:
    """Killed while it waited, and started again: the node does not leave any more."""
    job = running(talk, "a")
    talk.beat("a", held(job), leaving_s=30.0)
    talk.agent("a", life="a2")
    assert states(talk) == "draining up up up"
    talk.beat("a", held(job))
    assert states(talk) == "up up up up"
    talk.beat("a", held(job), leaving_s=10.0)
    assert Drains.of(talk.state).nodes["a"].life == "a2"


def test_a_heartbeat_that_was_overtaken_takes_nothing_back(talk: Talking) -> None:
    job = running(talk, "a")
    talk.beat("a", held(job), leaving_s=30.0)
    talk.beat("a", held(job))
    assert states(talk) == "draining up up up"


def test_the_next_agent_of_that_name_brings_the_node_back(talk: Talking) -> None:
    talk.beat("a", leaving_s=30.0)
    talk.agent("a", life="a2")
    talk.beat("a")
    assert states(talk) == "up up up up"


def test_an_agent_of_several_nodes_keeps_the_one_that_is_not_empty(talk: Talking) -> None:
    first = running(talk, "a", "b", "c")
    talk.beat("c", held(first), leaving_s=30.0)
    assert [order.nodes for order in talk.orders("c", m.Retire)] == [["c2"]]
    assert states(talk) == "up up draining left"
    ends(talk, first, "a", "b", "c")
    talk.beat("c", leaving_s=30.0)
    assert [order.nodes for order in talk.orders("c", m.Retire)] == [["c1"]]


def test_what_it_has_in_memory_of_copies_is_saved_first(talk: Talking) -> None:
    job = talk.submit(2, 1, protect=m.Protect("partner"))
    for name in ("a", "b"):
        talk.say(name, m.AppStarted(job.id, 1, 7))
    talk.beat("a", leaving_s=30.0)
    answer = talk.rank0(job, m.RemapPoint(1, 2, 0, 1.0))
    assert isinstance(answer, m.RemapAnswer)
    assert [place.node for place in answer.places] == ["a"]
    talk.rank0(job, m.Committed(answer.resize_id, 0.1, [99]))
    talk.say("a", m.Vacated(job.id, 1, [0]))
    talk.beat("a", leaving_s=30.0)
    (saved,) = talk.orders("a", m.SaveCopies)
    assert (saved.job, saved.instance) == (job.id, 1)
    assert talk.orders("a", m.Retire)


# --- what a user asks for -----------------------------------------------------------------------


def test_a_node_that_is_removed_does_not_come_back_by_itself(talk: Talking) -> None:
    row = talk.say("user", m.DrainNode("c1", reason="sold", remove=True))
    assert isinstance(row, m.Data)
    assert (row.data["state"], row.data["jobs"]) == ("left", [])
    assert [order.nodes for order in talk.orders("c", m.Retire)] == [["c1"]]
    talk.beat("c")
    talk.restart()
    talk.agent("c", "c1", "c2", life="c1")  # it has not heard of it
    talk.orders("c", m.Retire)
    talk.beat("c")
    assert [order.nodes for order in talk.orders("c", m.Retire)] == [["c1"]]
    assert states(talk) == "up up left up"
    talk.agent("c", "c1", "c2", life="c2")
    talk.beat("c")
    assert states(talk) == "up up up up"


def test_a_removed_node_whose_agent_is_away_leaves_when_it_reports(talk: Talking) -> None:
    talk.restart()
    talk.say("user", m.DrainNode("a", remove=True))
    assert states(talk) == "empty up up up"
    talk.agent("a", life="a1")
    talk.beat("a")
    assert states(talk) == "left up up up"


def test_a_drain_outlives_the_server(talk: Talking) -> None:
    job = running(talk, "a")
    talk.say("user", m.DrainNode("a", 60.0, "why not"))
    talk.restart()
    talk.agent("a", life="a1")
    talk.beat("a", held(job))
    assert states(talk).startswith("draining")
    talk.later(60.0)
    talk.server.tick()
    talk.server.finish_turn()
    assert talk.orders("a", m.KillTree)


def test_its_row_says_who_and_why(talk: Talking) -> None:
    job = running(talk, "a")
    row = talk.say("user", m.DrainNode("a", 60.0, "why not"))
    assert isinstance(row, m.Data)
    assert row.data["drain"] == {
        "asked_s": talk.now,
        "deadline_s": talk.now + 60.0,
        "by": "",
        "reason": "why not",
        "leaves": False,
    }
    assert row.data["jobs"] == [job.id]
    row = talk.say("user", m.ResumeNode("a"))
    assert isinstance(row, m.Data)
    assert (row.data["state"], row.data["drain"]) == ("up", None)


def test_requests_that_make_no_sense(talk: Talking) -> None:
    assert refusal(talk.say("user", m.DrainNode("x"))) == ("not_found", "no node named x")
    told = refusal(talk.say("user", m.ResumeNode("c12")))
    assert told == ("not_found", "no node named c12; did you mean c2?")
    assert refusal(talk.say("user", m.ResumeNode("a")))[0] == "refused"


def test_an_agent_that_reports_with_fewer_nodes_has_lost_the_others(talk: Talking) -> None:
    talk.agent("c", "c2", life="c2")
    assert "c1" not in talk.server.agents.by_node
    pass_time(talk, 10.0, "a", "b", "c")
    assert states(talk) == "up up lost up"


def test_under_mpiexec_the_launcher_keeps_the_node(tmp_path: Path) -> None:
    talk = Talking(tmp_path, launching=Launching.MPIEXEC)
    talk.agent("a", life="a1")
    talk.agent("b", life="b1")
    job = talk.submit(2, 1)
    talk.say("a", m.AppStarted(job.id, 1, 7))
    talk.beat("a", held(job), leaving_s=30.0)
    answer = talk.rank0(job, m.RemapPoint(1, 2, 0, 1.0))
    assert isinstance(answer, m.RemapAnswer)
    talk.rank0(job, m.Committed(answer.resize_id, 0.1, [99]))
    talk.say("a", m.Vacated(job.id, 1, [0]))
    assert states(talk) == "draining up"
    talk.close()
