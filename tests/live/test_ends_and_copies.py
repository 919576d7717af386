"""What agents that were away say of ends, copies and output: believed, saved or removed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dq_client.base import messages as m
from dq_server.core.model.jobs import Job, JobState
from dq_server.live.requests import agents
from tests.live.talking import Talking, ended, held, refusal

PARTNER = m.Protect("partner")


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talking]:
    made = Talking(tmp_path)
    for name in "ab":
        made.agent(name)
    yield made
    made.close()


def state(job: Job) -> JobState:
    return job.state


def away(talk: Talking, *names: str) -> None:
    for name in names:
        talk.server.agents.forget(talk.server.agents.by_name[name])
        talk.server.lose(name, "unplugged")
    talk.server.finish_turn()


def protected(talk: Talking, size: int) -> Job:
    job = talk.submit(size, protect=PARTNER)
    for name in "ab"[:size]:
        talk.say(name, m.AppStarted(job.id, 1, 7))
    assert job.state is JobState.RUNNING
    return job


def beat(
    talk: Talking, name: str, *copies: m.CopiesHeld, holds: tuple[m.Holding, ...] = ()
) -> None:
    body = m.Heartbeat(talk.sessions[name], list(holds), copies=list(copies))
    assert isinstance(talk.say(name, body), m.Heard)


# --- ends ----------------------------------------------------------------------------------------


def test_ranks_that_ended_well_while_their_agent_was_away_are_a_job_that_is_done(
    talk: Talking,
) -> None:
    away(talk, "b")
    job = protected(talk, 1)
    away(talk, "a")
    assert job.state is JobState.QUEUED
    talk.agent("a")
    assert isinstance(talk.say("a", ended(job)), m.Done)
    assert (state(job), job.exit_code) == (JobState.DONE, 0)


def test_all_agents_must_have_said_so(talk: Talking) -> None:
    job = protected(talk, 2)
    away(talk, "a", "b")
    assert job.state is JobState.QUEUED
    talk.agent("a")
    code, text = refusal(talk.say("a", ended(job)))
    assert (code, text) == ("later", f"job {job.id} has not ended on b")
    talk.agent("b")
    assert isinstance(talk.say("b", ended(job)), m.Done)
    assert state(job) is JobState.DONE
    assert isinstance(talk.say("a", ended(job)), m.Done)


def test_what_was_reported_before_the_interruption_does_not_count_after_it(talk: Talking) -> None:
    job = protected(talk, 2)
    assert refusal(talk.say("a", ended(job)))[0] == "later"
    away(talk, "a", "b")
    talk.agent("a")
    talk.agent("b")
    text = f"job {job.id} has not ended on a"
    assert refusal(talk.say("b", ended(job))) == ("later", text)
    assert isinstance(talk.say("a", ended(job)), m.Done)
    assert state(job) is JobState.DONE


@pytest.mark.parametrize("word", [(1, ""), (0, "lost"), (143, "the keeper was killed")])
def test_no_other_word_of_theirs_counts(talk: Talking, word: tuple[int, str]) -> None:
    job = protected(talk, 2)
    away(talk, "a", "b")
    talk.agent("a")
    assert isinstance(talk.say("a", ended(job, *word)), m.Done)
    assert job.state is JobState.QUEUED


def test_who_had_no_ranks_of_it_says_nothing(talk: Talking) -> None:
    job = protected(talk, 1)
    away(talk, "b")
    away(talk, "a")
    talk.agent("c")
    assert (job.state, job.instance) == (JobState.STARTING, 2)
    assert isinstance(talk.say("c", m.AppEnded(job=job.id, instance=1, exit_code=0)), m.Done)
    assert job.state is JobState.STARTING


# --- copies --------------------------------------------------------------------------------------


def test_a_node_joins_when_the_copies_that_a_job_starts_again_from_are_saved(
    talk: Talking,
) -> None:
    away(talk, "b")
    job = protected(talk, 1)
    away(talk, "a")
    talk.agent("a")
    beat(talk, "a", m.CopiesHeld(job.id, in_memory=True))
    (order,) = talk.orders("a", m.SaveCopies)
    assert (order.job, order.instance) == (job.id, 1)
    assert order.places.memory
    assert job.state is JobState.QUEUED, "it would find nothing"
    beat(talk, "a", m.CopiesHeld(job.id, in_memory=False))
    assert (state(job), job.instance) == (JobState.STARTING, 2)
    assert talk.orders("a", m.SaveCopies) == []


@pytest.mark.parametrize("protect", [None, PARTNER])
def test_the_end_of_a_protected_job_removes_its_copies_on_all_nodes(
    talk: Talking, protect: m.Protect | None
) -> None:
    job = talk.submit(1, protect=protect)
    talk.say("a", m.AppStarted(job.id, 1, 7))
    talk.say("a", ended(job))
    assert state(job) is JobState.DONE
    for name in "ab":
        found = [order.job for order in talk.orders(name, m.ForgetCopies)]
        assert found == ([job.id] if protect else [])


def test_copies_of_a_job_that_runs_are_left_alone(talk: Talking) -> None:
    job = protected(talk, 2)
    beat(talk, "a", m.CopiesHeld(job.id, in_memory=True), holds=(held(job),))
    assert not talk.orders("a", m.SaveCopies)
    assert not talk.orders("a", m.ForgetCopies)


def test_copies_of_a_job_that_has_ended_are_removed_whoever_was_away(talk: Talking) -> None:
    job = protected(talk, 1)
    away(talk, "b")
    talk.say("a", ended(job))
    assert state(job) is JobState.DONE
    talk.agent("b")
    talk.orders("b", m.ForgetCopies)
    beat(talk, "b", m.CopiesHeld(job.id, in_memory=True))
    (order,) = talk.orders("b", m.ForgetCopies)
    assert order.job == job.id
    assert order.places.memory
    beat(talk, "b")
    assert talk.orders("b", m.ForgetCopies) == []


def test_copies_of_a_job_that_this_journal_does_not_know_yet_stay(talk: Talking) -> None:
    beat(talk, "a", m.CopiesHeld(99, in_memory=True))
    assert not talk.orders("a", m.SaveCopies)
    assert not talk.orders("a", m.ForgetCopies)


def test_copies_of_a_job_that_is_forgotten_are_removed(tmp_path: Path) -> None:
    talk = Talking(tmp_path, keep_ended=0)
    talk.agent("a")
    job = talk.submit(1)
    talk.say("a", m.AppStarted(job.id, 1, 7))
    talk.say("a", ended(job))
    assert job.id not in talk.state.jobs
    beat(talk, "a", m.CopiesHeld(job.id, in_memory=True))
    assert [order.job for order in talk.orders("a", m.ForgetCopies)] == [job.id]
    talk.close()


# --- output --------------------------------------------------------------------------------------


def lost(job: Job, count: int, node: str = "a") -> m.OutputLost:
    return m.OutputLost(
        job=job.id, instance=1, node=node, lost_bytes=count, why="out: No space left on device"
    )


@pytest.mark.parametrize("before", [True, False])
def test_output_that_is_lost_stands_in_the_job_before_and_after_its_end(
    talk: Talking, before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[str] = []
    monkeypatch.setattr(agents.log, "warning", lambda text, *words: logged.append(text % words))
    job = protected(talk, 1)
    if not before:
        talk.say("a", ended(job))
    assert isinstance(talk.say("a", lost(job, 12)), m.Done)
    (line,) = [line for line in logged if "lost" in line]
    assert line == f"job {job.id}: 12 bytes of output on a are lost: out: No space left on device"
    if before:
        talk.say("a", ended(job))
    assert state(job) is JobState.DONE
    found = talk.say("user", m.JobQuery(job.id))
    assert isinstance(found, m.Data)
    assert found.data["output_lost_bytes"] == 12
    why = talk.say("user", m.WhyQuery(job.id))
    assert isinstance(why, m.Data)
    assert any(
        "12 bytes of the output of its ranks on a are lost" in s["text"] for s in why.data["story"]
    )
    kept = talk.server.journal.archived(job.id)
    assert kept is not None
    assert b'"output_lost_bytes":12' in kept


def test_nobody_speaks_of_the_output_on_the_node_of_another(talk: Talking) -> None:
    job = protected(talk, 1)
    assert refusal(talk.say("b", lost(job, 12)))[0] == "refused"


def test_only_what_starts_again_has_copies_to_save(talk: Talking) -> None:
    job = protected(talk, 1)
    talk.say("a", ended(job))
    (order,) = talk.orders("a", m.Vacate)
    assert order.save is None, "the job is done"
    talk.say("a", m.Vacated(job.id, 1, order.processors))
    again = protected(talk, 2)
    talk.say("b", ended(again, 137, "the keeper of its ranks on b was killed"))
    (order,) = talk.orders("a", m.Vacate)
    assert order.save is not None
    assert order.save.memory
