"""CPU time and memory of jobs at the server: what agents send, what is kept, what is shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dq_client.base import messages as m
from dq_server.core.model.jobs import Job, JobState
from dq_server.live.agents.usage import POINTS_MAX, JobUse
from tests.live.talking import Talking, ended, held

MIB = 1 << 20


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talking]:
    made = Talking(tmp_path)
    for name in "ab":
        made.agent(name)
    yield made
    made.close()


def started(talk: Talking, size: int = 1) -> Job:
    job = talk.submit(size)
    for name in "ab"[:size]:
        talk.say(name, m.AppStarted(job.id, 1, 7))
    assert job.state is JobState.RUNNING
    return job


def measured(
    talk: Talking, name: str, job: Job, cpu_s: float, memory: int = MIB, *, holds: bool = True
) -> None:
    """A heartbeat with a measurement of the job's rank on the agent's node."""
    rank = m.RankSample(name, 0, "ab".index(name), cpu_s, memory)
    row = m.JobUsage(job.id, job.instance, talk.now, cpu_s, memory, [rank])
    holdings = [held(job)] if holds else []
    body = m.Heartbeat(talk.sessions[name], holdings, usage=[row])
    assert isinstance(talk.say(name, body), m.Heard)


def usage(talk: Talking, job: Job) -> Any:
    reply = talk.say("user", m.JobQuery(job.id))
    assert isinstance(reply, m.Data)
    return reply.data["usage"]


def journaled(talk: Talking) -> int:
    return [line.kind for line in talk.server.journal.lines(0, 1000, 1 << 20)].count(
        "UsageMeasured"
    )


def test_two_measurements_show_how_busy_ranks_are(talk: Talking) -> None:
    job = started(talk, 2)
    assert usage(talk, job) is None
    measured(talk, "a", job, 1.0)
    assert (usage(talk, job)["cpu"], usage(talk, job)["cpu_s"]) == (None, 1.0)
    measured(talk, "b", job, 0.0)
    talk.later(4.0)
    measured(talk, "a", job, 5.0, 200 * MIB)
    measured(talk, "b", job, 0.2)
    found = usage(talk, job)
    assert (found["cpu"], found["cpu_s"]) == pytest.approx((1.05, 5.2))
    assert (found["memory"], found["memory_max"]) == (201 * MIB, 201 * MIB)
    assert [(r["node"], r["rank"], round(r["cpu"], 2)) for r in found["ranks"]] == [
        ("a", 0, 1.0),
        ("b", 1, 0.05),
    ]
    assert journaled(talk) == 0, "measurements are no events"


def test_an_end_brings_the_rest_and_it_is_journaled_once(talk: Talking) -> None:
    job = started(talk)
    measured(talk, "a", job, 1.0)
    body = ended(job)
    talk.say("a", m.AppEnded(job.id, 1, body.exit_code, cpu_s=3.5))
    assert job.state is JobState.DONE
    found = usage(talk, job)
    assert (found["cpu"], found["memory"], found["ranks"]) == (None, None, [])
    assert (found["cpu_s"], found["memory_max"], journaled(talk)) == (3.5, MIB, 1)
    measured(talk, "a", job, 99.0)  # it was under way
    talk.beat("a")
    assert (usage(talk, job)["cpu_s"], journaled(talk)) == (3.5, 1)
    assert len(found["history"]) == 1
    talk.restart()
    found = usage(talk, job)
    assert (found["cpu_s"], found["memory_max"], found["history"]) == (3.5, MIB, [])


def test_a_job_too_short_to_be_measured_has_its_cpu_time(talk: Talking) -> None:
    job = started(talk)
    talk.say("a", m.AppEnded(job.id, 1, 0, cpu_s=0.25))
    assert (usage(talk, job)["cpu_s"], journaled(talk)) == (0.25, 1)


def test_a_new_server_is_told_of_what_runs_and_has_kept_what_ran(talk: Talking) -> None:
    job = started(talk, 2)
    measured(talk, "a", job, 2.0)
    measured(talk, "b", job, 3.0)
    talk.beat("b")  # its ranks are gone: a part has ended
    assert (usage(talk, job)["cpu_s"], journaled(talk)) == (5.0, 1)
    talk.restart()
    assert usage(talk, job)["cpu_s"] == 3.0
    talk.agent("a")
    measured(talk, "a", job, 2.5)
    assert usage(talk, job)["cpu_s"] == 5.5


def test_who_has_no_processes_of_a_job_says_nothing_of_it(talk: Talking) -> None:
    job = started(talk)
    measured(talk, "b", job, 50.0, holds=False)
    talk.say("b", m.AppEnded(job.id, 1, 0, cpu_s=50.0))
    assert usage(talk, job) is None


def test_what_could_not_be_saved_is_not_lost(
    talk: Talking, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = started(talk)
    measured(talk, "a", job, 2.0)
    journal = talk.server.journal

    def full() -> None:
        from dq_server.live.store.journal import JournalError

        raise JournalError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(journal, "commit", full)
        talk.say("a", m.AppEnded(job.id, 1, 0, cpu_s=4.0))
    job = talk.state.jobs[job.id]
    assert job.state is JobState.RUNNING
    talk.later(10.0)
    talk.server.tick()
    talk.server.finish_turn()
    talk.say("a", m.AppEnded(job.id, 1, 0, cpu_s=4.0))
    assert job.id not in talk.state.active
    assert (usage(talk, job)["cpu_s"], journaled(talk)) == (4.0, 1)


def test_readers_are_told_of_changes_only(talk: Talking) -> None:
    job = started(talk)
    seen: list[int] = []
    talk.server.feed.usage._changed = seen.append
    for n in range(20):
        talk.later(4.0)
        measured(talk, "a", job, 4.0 * n)
    assert len(seen) == 2, "memory, then how busy it is"


@given(st.lists(st.floats(0.1, 1000.0), min_size=1, max_size=300))
def test_a_curve_is_bounded_and_covers_the_life_of_a_job(pauses: list[float]) -> None:
    use, now = JobUse(), 0.0
    times = [0.0]
    use.add_point((0.0, 0.0, 0))
    for pause_s in pauses:
        now += pause_s
        times.append(now)
        use.add_point((now, 1.0, 1))
        points = [t for t, _, _ in use.points]
        assert len(points) <= POINTS_MAX and points == sorted(points)
        assert points[0] == 0.0 and set(points) <= set(times)
        assert now - points[-1] <= 2 * use.every_s + pause_s
