"""Since: what has changed is told once, to all who follow, and nobody is held up by it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dq_client.base import messages as m
from dq_client.base.connection import Connection
from dq_client.show.feed.cursor import FeedCursor
from dq_client.show.feed.one_job import looks
from dq_server.live.views import change_scan, feed
from tests.live.serving import Serving, answer_of, submission


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Serving]:
    server = Serving(tmp_path)
    yield server
    server.close()


class Reader:
    """Follows as `dq web` does."""

    def __init__(self, line: Connection) -> None:
        self.line = line
        self.known: dict[str, Any] = {"epoch": 0, "seq": 0, "event": None}
        self.jobs: dict[int, dict[str, Any]] = {}
        self.nodes: dict[str, dict[str, Any]] = {}
        self.decisions: list[dict[str, Any]] = []

    def request(self, wait_s: float = 0.0) -> m.Since:
        return m.Since(self.known["epoch"], self.known["seq"], self.known["event"], wait_s)

    def take(self, reply: m.ReplyBody) -> dict[str, Any]:
        answer: dict[str, Any] = answer_of(m.Data, reply).data
        if answer["whole"]:
            self.jobs, self.nodes = {}, {}
        self.known = answer
        self.jobs.update({job["id"]: job for job in answer["jobs"]})
        self.nodes.update({node["name"]: node for node in answer["nodes"]})
        for gone in answer["gone"]:
            self.jobs.pop(gone, None)
            self.nodes.pop(gone, None)
        self.decisions += answer["decisions"]
        return answer

    def look(self, wait_s: float = 0.0) -> dict[str, Any]:
        """Ask until all is known."""
        while (answer := self.take(self.line.call(self.request(wait_s), wait_s + 60)))["more"]:
            pass
        return answer


def test_everything_once_and_then_what_changes(served: Serving) -> None:
    agent, user, reader = (
        served.agent("a", "n1"),
        served.role("user"),
        Reader(served.role("viewer")),
    )
    user.call(submission("first", 2))
    user.call(submission("second", 2))
    reader.look()
    assert {k: j["state"] for k, j in reader.jobs.items()} == {1: "starting", 2: "queued"}
    assert {n: row["processors"] for n, row in reader.nodes.items()} == {"n1": 2}
    assert reader.jobs[1]["places"][0]["nodes"] == {"n1": "0-1"}
    assert reader.look()["jobs"] == []
    agent.call(m.AppStarted(1, 1, 100))
    assert [job["id"] for job in reader.look()["jobs"]] == [1]
    agent.call(m.AppEnded(1, 1, 0))
    agent.call(m.Vacated(1, 1, [0, 1]))
    reader.look()
    assert {k: j["state"] for k, j in reader.jobs.items()} == {1: "done", 2: "starting"}
    assert reader.jobs[1]["places"][0]["until_s"] == reader.jobs[1]["end_s"]
    told = [(d["job"], d["what"]) for d in reader.decisions if d["job"]]
    assert told == [(1, "submit"), (1, "start"), (2, "submit"), (1, "done"), (2, "start")]
    assert next(d for d in reader.decisions if d["what"] == "start")["figures"]["size"] == 2


def test_a_job_that_waited_for_another_changes_with_it(served: Serving) -> None:
    """No event and no action names it."""
    agent, user, reader = (
        served.agent("a", "n1"),
        served.role("user"),
        Reader(served.role("viewer")),
    )
    user.call(submission("first", 2))
    user.call(submission("long", 2))
    user.call(submission("then", 2, after=[1]))
    reader.look()
    assert reader.jobs[3]["state"] == "waiting"
    agent.call(m.AppStarted(1, 1, 100))
    agent.call(m.AppEnded(1, 1, 0))
    reader.look()
    assert reader.jobs[3]["state"] == "queued"


def test_an_answer_waits_until_something_changes(served: Serving) -> None:
    user, reader = served.role("user"), Reader(served.role("viewer"))
    reader.look()
    sent = reader.line.send(reader.request(30.0))
    assert reader.line.receive(0.5) is None
    served.agent("a", "n1")
    user.call(submission("late"))
    reply = reader.line.receive(10.0)
    assert isinstance(reply, m.Reply) and reply.id == sent
    reader.take(reply.body)
    reader.look(0.2)
    assert set(reader.nodes) == {"n1"}
    assert set(reader.jobs) == {1}


def test_an_answer_comes_when_the_time_is_up(served: Serving) -> None:
    """Also if the client has sent the request again meanwhile, as it does each second."""
    reader = Reader(served.role("viewer"))
    reader.look()
    answer = reader.look(1.5)
    assert (answer["jobs"], answer["nodes"], answer["decisions"]) == ([], [], [])
    served.role("user").call(m.StatusQuery())
    assert reader.line.receive(0.3) is None  # no second answer


def test_only_so_many_may_wait(served: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "WAITING_MAX", 2)
    readers = [Reader(served.role("viewer")) for _ in range(3)]
    for reader in readers:
        reader.look()
    for reader in readers[:2]:
        reader.line.send(reader.request(30.0))
        reader.line.call(m.StatusQuery())
    refused = readers[2].line.ask(readers[2].request(30.0))
    assert isinstance(refused, m.Error) and "2 clients wait" in refused.text
    readers[2].look()  # who does not wait is answered


def test_decisions_are_the_same_from_memory_and_from_the_journal(served: Serving) -> None:
    agent, user = served.agent("a", "n1"), served.role("user")
    reader, later = Reader(served.role("viewer")), Reader(served.role("viewer"))
    for k in range(100):
        user.call(submission(f"job {k}", 1))
    agent.call(m.AppStarted(1, 1, 100))
    user.call(m.Kill(50))
    reader.look()
    own = served.front.server.feed
    own._events.clear()
    own._complete_after = own.last_event
    later.look()
    assert len(reader.decisions) > feed.EVENTS_TOLD
    assert later.decisions == reader.decisions


def test_who_follows_one_job_hears_of_no_other(
    served: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "BUDGET_S", 60.0)
    agent, user, line = served.agent("a", "n1"), served.role("user"), served.role("viewer")
    for k in range(3):
        user.call(submission(f"job {k}", 2))
    place = FeedCursor(job=1)
    first = place.look(line)
    assert [job["id"] for job in first["jobs"]] == [1]
    assert (first["nodes"], first["decisions"], first["more"]) == ([], [], False)
    sent = line.send(m.Since(first["epoch"], first["seq"], None, 30.0, job=1))
    user.call(m.Hold(3))
    assert line.receive(3 * feed.EVERY_S) is None
    agent.call(m.AppStarted(1, 1, 100))
    reply = line.receive(10.0)
    assert isinstance(reply, m.Reply) and reply.id == sent
    assert [job["state"] for job in answer_of(m.Data, reply.body).data["jobs"]] == ["running"]
    assert FeedCursor(job=9).look(line)["jobs"] == []


def test_a_story_is_told_from_a_time_on(served: Serving) -> None:
    agent, user, line = served.agent("a", "n1"), served.role("user"), served.role("viewer")
    user.call(submission("first", 2))
    agent.call(m.AppStarted(1, 1, 100))
    place = FeedCursor()
    (job,) = place.look(line, stories_s=0.0)["jobs"]
    whole, why = (answer_of(m.Data, line.call(ask)).data for ask in (m.JobQuery(1), m.WhyQuery(1)))
    codes = [{reason["code"] for reason in told["now"]} for told in (job, why)]
    assert codes[0] == codes[1] and job["story"] == why["story"]
    assert {k: v for k, v in job.items() if k not in ("now", "story")} == whole
    started_s = job["story"][-1]["time_s"]
    user.call(m.Kill(1))
    (later,) = place.look(line, stories_s=started_s)["jobs"]
    assert [told["what"] for told in job["story"] + later["story"]] == ["start", "kill"]
    assert "story" not in FeedCursor().look(line)["jobs"][0]


def test_those_who_wait_for_one_job_are_counted_apart(
    served: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "WAITING_MAX", 1)
    monkeypatch.setattr(feed, "WAITING_FOR_ONE_MAX", 2)
    served.agent("a", "n1")
    served.role("user").call(submission("first"))
    lines = [served.role("viewer") for _ in range(5)]
    asked = []
    for k, line in enumerate(lines):
        told = FeedCursor(job=int(k != 0)).look(line)
        asked.append(m.Since(told["epoch"], told["seq"], told["event"], 30.0, job=int(k != 0)))
    for line, body in zip(lines[:3], asked, strict=False):
        line.send(body)
        line.call(m.StatusQuery())
    refused = lines[3].ask(asked[3])
    assert isinstance(refused, m.Error) and "2 clients wait for a job" in refused.text
    seen = looks(lines[4], 1)  # who is refused asks again and again
    assert [next(seen)["state"] for _ in range(3)] == ["starting"] * 3


def test_what_the_scheduler_forgets_is_gone(served: Serving) -> None:
    served.agent("a", "n1")
    user, reader = served.role("user"), Reader(served.role("viewer"))
    for k in range(4):
        user.call(submission(f"job {k}", 2))
    reader.look()
    assert len(reader.jobs) == 4
    del served.state.jobs[2], served.state.queue[2]
    user.call(m.Hold(4))
    reader.look()
    assert set(reader.jobs) == {1, 3, 4}


def test_a_state_made_anew_is_told_as_a_whole(served: Serving) -> None:
    """As after a turn that could not be saved."""
    served.agent("a", "n1")
    user, reader = served.role("user"), Reader(served.role("viewer"))
    for k in range(3):
        user.call(submission(f"job {k}", 2))
    reader.look()
    reader.jobs[99] = {}
    served.front.server.feed.restart(served.front.server.feed.last_event)
    reader.look()
    assert set(reader.jobs) == {1, 2, 3}
    assert set(reader.nodes) == {"n1"}


def test_many_jobs_come_in_pieces(served: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "ROWS_MAX", 7)
    monkeypatch.setattr(feed, "BUDGET_S", 60.0)
    served.agent("a", "n1")
    user, reader = served.role("user"), Reader(served.role("viewer"))
    for k in range(30):
        user.call(submission(f"job {k}", 2))
    first = reader.take(reader.line.call(reader.request()))
    assert first["more"] and len(first["jobs"]) + len(first["nodes"]) == 7
    user.call(m.Hold(30))
    reader.look()
    assert set(reader.jobs) == set(range(1, 31))
    assert reader.jobs[30]["state"] == "held"


def test_a_look_that_takes_long_is_gone_on_with_by_the_next_answer(
    served: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is up at once, each time: an answer has one row, and a part of the look."""
    monkeypatch.setattr(feed, "BUDGET_S", -1.0)
    agent, user = served.agent("a", "n1", "n2"), served.role("user")
    count = change_scan.JOBS_AT_ONCE + 40
    user.call(submission("first", 4))
    for k in range(count - 2):
        user.call(submission(f"job {k}", 4))
    user.call(submission("then", 4, after=[1]))
    reader = Reader(served.role("viewer"))
    first = reader.take(reader.line.call(reader.request()))
    assert first["more"] and len(first["jobs"]) + len(first["nodes"]) == 1
    reader.look()
    assert set(reader.jobs) == set(range(1, count + 1))
    assert set(reader.nodes) == {"n1", "n2"}
    assert reader.jobs[count]["state"] == "waiting"
    whats = [d["what"] for d in reader.decisions if d["job"]]
    assert (whats.count("submit"), whats.count("start")) == (count, 1)
    # No event names the job that waited; it is far behind in the look.
    agent.call(m.AppStarted(1, 1, 100))
    agent.call(m.AppEnded(1, 1, 0))
    agent.call(m.Vacated(1, 1, [0, 1, 2, 3]))
    reader.look()
    assert reader.jobs[count]["state"] == "queued"


def test_who_waits_hears_of_all_though_the_look_takes_long(
    served: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "BUDGET_S", -1.0)
    monkeypatch.setattr(change_scan, "JOBS_AT_ONCE", 1)
    served.front.server.feed._look = change_scan.ChangeScan(
        served.front.server.feed._touch, served.front.server.feed._lose
    )
    agent, user = served.agent("a", "n1"), served.role("user")
    readers = [Reader(served.role("viewer")) for _ in range(3)]
    user.call(submission("first", 2))
    user.call(submission("long", 2))
    for k in range(5):
        user.call(submission(f"then {k}", 2, after=[1]))
    for reader in readers:
        reader.look()
        reader.line.send(reader.request(30.0))
    agent.call(m.AppStarted(1, 1, 100))
    agent.call(m.AppEnded(1, 1, 0))
    for reader in readers:
        reply = reader.line.receive(10.0)
        assert isinstance(reply, m.Reply)
        reader.take(reply.body)
        while reader.jobs[7]["state"] != "queued":
            reader.look(0.3)
        assert all(reader.jobs[k]["state"] == "queued" for k in range(3, 8))


def test_who_follows_a_busy_server_is_answered_ten_times_a_second(served: Serving) -> None:
    served.agent("a", "n1")
    user, reader = served.role("user"), Reader(served.role("viewer"))
    reader.look()
    began_s, answers, k = time.monotonic(), 0, 0
    reader.line.send(reader.request(30.0))
    while k < 150:
        user.call(submission(f"job {k}", 2))
        k += 1
        reply = reader.line.receive(0)
        if isinstance(reply, m.Reply):
            answers += 1
            reader.take(reply.body)
            reader.line.send(reader.request(30.0))
    took_s = time.monotonic() - began_s
    assert answers <= 2 + 2 * took_s / feed.EVERY_S, f"{answers} answers in {took_s:.2f} s"
