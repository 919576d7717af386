"""What a server does while it can save nothing, and what it makes up for afterwards."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dq_client.base import messages as m
from dq_server.core.model.jobs import JobState
from dq_server.live.store.journal import Journal, JournalError
from tests.live.talking import Talking, ended, held, refusal, running

FULL = "the disk is full"


class FailingJournal:
    """Makes a journal fail as long as there is a `why`.

    unreadable  reading fails, too
    once        until the first trial only
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.why, self.trials = "", 0
        self.unreadable = self.once = False
        commit, fault, entries = Journal.commit, Journal.fault, Journal.entries

        def failing_commit(journal: Journal) -> None:
            if self.why and journal._open:
                raise JournalError(self.why)
            commit(journal)

        def failing_fault(journal: Journal) -> str:
            self.trials += 1
            self.why = "" if self.once else self.why
            return self.why or fault(journal)

        def failing_entries(journal: Journal, after: int = 0) -> Any:
            if self.unreadable:
                raise JournalError("the disk fails")
            return entries(journal, after)

        monkeypatch.setattr(Journal, "commit", failing_commit)
        monkeypatch.setattr(Journal, "fault", failing_fault)
        monkeypatch.setattr(Journal, "entries", failing_entries)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FailingJournal:
    return FailingJournal(monkeypatch)


@pytest.fixture
def talk(disk: FailingJournal, tmp_path: Path) -> Iterator[Talking]:
    made = Talking(tmp_path)
    yield made
    made.close()


def hello(name: str) -> m.AgentHello:
    return m.AgentHello(protocol=m.PROTOCOL, agent=name, nodes=[m.NodeInfo(name, 2, name)])


def submission(request: str) -> m.Submit:
    return m.Submit(request=request, name="job", argv=["prog"], cwd="/", initial=1)


def test_nothing_happens_while_nothing_can_be_saved(talk: Talking, disk: FailingJournal) -> None:
    talk.agent("a", processors=4)
    job = running(talk, "a")
    short = talk.submit(1, walltime_s=60.0)
    talk.say("a", m.AppStarted(short.id, 1, 7))
    events = talk.server._seq
    disk.why = FULL
    for n in range(3):
        code, text = refusal(talk.say("user", submission(f"new-{n}")))
        assert (code, text) == ("later", f"not saved: {FULL}")
    assert refusal(talk.say("a", ended(job)))[0] == "later"
    for _ in range(60):  # two minutes: walltimes end, and the agent is heard of
        talk.later(2.0)
        talk.server.tick()
        talk.server.finish_turn()
        assert talk.beat("a", held(job), held(short)) == m.Heard(2.0)
        assert (job.id, short.id) == tuple(talk.state.active)
        assert all(j.state is JobState.RUNNING for j in talk.state.active.values())
    assert talk.state.processors.nodes["a"].up
    assert talk.server._seq == events
    assert not talk.orders("a", m.KillTree)
    why = talk.say("user", m.WhyQuery(job.id))
    assert isinstance(why, m.Data)
    assert why.data["now"][0]["text"] == f"not saved: {FULL}"

    disk.why = ""
    talk.later(1.0)
    talk.server.tick()
    talk.server.finish_turn()
    assert talk.say("a", ended(job)) == m.Done()
    assert talk.state.job(job.id).state is JobState.DONE
    assert talk.state.job(short.id).state is JobState.KILLING, "its time was over meanwhile"
    assert isinstance(talk.say("user", submission("new-0")), m.Submitted)
    assert len(talk.state.jobs) == 3


def test_agents_have_time_to_come_back_after_a_stall(talk: Talking, disk: FailingJournal) -> None:
    """One that was killed cannot start on a full disk."""
    talk.agent("a", processors=1)
    job = running(talk, "a")
    disk.why = FULL
    refusal(talk.say("user", submission("new")))
    for _ in range(100):
        talk.later(1.0)
        talk.server.tick()
    disk.why = ""
    talk.later(1.0)
    talk.server.tick()
    talk.server.finish_turn()
    assert talk.state.processors.nodes["a"].up
    talk.agent("a", processors=1, life="another")
    talk.beat("a", held(job))
    assert talk.state.job(job.id).state is JobState.RUNNING
    for _ in range(20):
        talk.later(1.0)
        talk.server.tick()
    assert not talk.state.processors.nodes["a"].up, "patience ends"


def test_an_agent_that_comes_in_a_stall_joins_after_it(talk: Talking, disk: FailingJournal) -> None:
    disk.why = FULL
    refusal(talk.say("a", hello("a")))  # the turn that fails
    talk.agent("a", processors=2)
    talk.agent("b", processors=2)
    talk.beat("b")
    assert not talk.state.processors.nodes
    disk.why = ""
    talk.later(1.0)
    talk.server.tick()
    for name in ("a", "b"):
        talk.beat(name)
    assert set(talk.state.processors.nodes) == {"a", "b"}


def test_what_a_job_has_to_say_counts_later(talk: Talking, disk: FailingJournal) -> None:
    talk.agent("a", processors=4)
    job = talk.submit(1, 2)
    talk.say("a", m.AppStarted(job.id, 1, 7))
    point = m.RemapPoint(seq=1, processors=1, resize_id=0, iteration_time_s=1.0)
    disk.why = FULL
    said = [point, m.WorkDone(), m.JobHello(m.PROTOCOL, 1)]
    assert {refusal(talk.rank0(job, body))[0] for body in said} == {"later"}
    assert talk.state.job(job.id).resize is None
    disk.why = ""
    talk.later(1.0)
    answers = [talk.rank0(talk.state.job(job.id), body) for body in said]
    assert [type(answer) for answer in answers] == [m.RemapAnswer, m.Done, m.JobWelcome]


def test_one_turn_that_fails_is_no_stall(talk: Talking, disk: FailingJournal) -> None:
    talk.agent("a", processors=1)
    disk.why = FULL
    disk.once = True
    assert refusal(talk.say("user", submission("r")))[1] == f"not saved: {FULL}"
    assert disk.trials == 1
    assert not talk.server.stall
    assert isinstance(talk.say("user", submission("r")), m.Submitted)


def test_a_disk_that_cannot_be_read_either(talk: Talking, disk: FailingJournal) -> None:
    """Nobody is answered from a state that may not be what was saved; no agent is missed."""
    talk.agent("a", processors=1)
    job = running(talk, "a")
    disk.why, disk.unreadable = FULL, True
    assert refusal(talk.say("user", submission("new")))[0] == "later"
    for _ in range(20):
        talk.later(1.0)
        talk.server.tick()
        talk.server.finish_turn()
    code, text = refusal(talk.say("user", m.JobsQuery()))
    assert code == "later"
    assert "cannot be read" in text
    assert refusal(talk.beat("a", held(job)))[0] == "later"
    disk.why, disk.unreadable = "", False
    talk.later(1.0)
    talk.server.tick()
    assert talk.beat("a", held(job)) == m.Heard(2.0)
    assert [j.state for j in talk.state.jobs.values()] == [JobState.RUNNING]


def test_a_server_that_cannot_note_that_it_goes_down_goes_on(
    talk: Talking, disk: FailingJournal
) -> None:
    talk.agent("a", processors=1)
    disk.why = FULL
    refusal(talk.say("user", submission("new")))
    assert refusal(talk.say("user", m.Stop(force=True)))[0] == "later"
    assert not talk.server.desk.draining


def test_a_trial_that_the_database_refuses_is_told(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    assert journal.fault() == ""
    journal._db.execute("PRAGMA query_only=1")
    assert "cannot be written" in journal.fault()
    assert not list(tmp_path.glob(".trial*")), "trials leave nothing"
    journal.close()
    with pytest.raises(sqlite3.Error):
        journal._db.execute("SELECT 1")
