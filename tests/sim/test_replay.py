"""A journal as the server writes it, replayed: the same actions, or the first that differs."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dq_server.core.features.reservations import reservation_of
from dq_server.core.model import events as ev
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.events import AdvanceReservation
from dq_server.core.model.jobs import JobKind, JobSpec
from dq_server.core.model.sizes import configurations
from dq_server.core.model.spec import Protection
from dq_server.core.scheduler import Scheduler
from dq_server.core.settings import configured
from dq_server.live.store.journal import Journal, event_as_json
from dq_server.sim.cli import sim
from dq_server.sim.journal import plain_actions, read_journal

CHAIN = configurations([1, 2, 4])


class Recorder:
    """A scheduler that keeps a journal, like the server."""

    def __init__(self, path: Path) -> None:
        self.journal, self.scheduler, self.now = Journal(path), Scheduler(), 0.0
        self.path = path

    def do(self, event: Any) -> Any:
        actions = self.scheduler.handle(event, self.now)
        self.journal.append(self.now, event, event_as_json(event), actions)
        self.journal.commit()
        return actions


@pytest.fixture
def journal(tmp_path: Path) -> Any:
    """Two jobs; one grows from 1 to 4 and both end."""
    path = tmp_path / "journal.db"
    r = Recorder(path)
    r.do(ev.Configured(SchedulerConfig(samples=1, discard=0, threshold=0.0, settle=0)))
    r.do(ev.NodeJoined("n1", 4))
    r.do(ev.JobSubmitted(JobSpec("grows", JobKind.MALLEABLE, CHAIN[0], CHAIN, env={"A": "b"})))
    r.do(ev.JobStarted(1, 1))
    size, done = 1, 0
    for seq, seconds in enumerate([8.0, 4.0, 2.0, 2.0], 1):
        r.now += seconds
        answer = r.do(ev.RemapPoint(1, 1, seq, size, done, seconds))[-1].answer
        if answer.what == "expand":
            size, done = answer.configuration.size, answer.resize_id
            r.do(ev.ResizeCommitted(1, 1, done, 0.5))
    assert size == 4
    one = configurations([1])
    r.do(ev.JobSubmitted(JobSpec("short", JobKind.RIGID, one[0], one, walltime_s=9.5)))
    r.do(ev.JobEnded(1, 1, 0))
    r.do(ev.ProcessorsVacated(1))
    r.do(ev.JobStarted(2, 1))
    r.now += 5
    r.do(ev.JobEnded(2, 1, 0))
    r.journal.close()
    return path


def replay(*args: Any) -> Any:
    result = CliRunner().invoke(sim, ["replay", *map(str, args)])
    return result.exit_code, result.stdout, result.stderr


def test_the_same_events_lead_to_the_same_actions(journal: Any) -> None:
    code, out, _ = replay(journal, "--json")
    assert (code, json.loads(out)) == (0, {"schema": 1, "events": 15, "same": True})
    assert "15 events replayed, all with the same actions" in replay(journal)[1]


def test_events_and_actions_survive_the_journal(journal: Any) -> None:
    scheduler, given = Scheduler(), list[dict[str, str]]()
    for entry in read_journal(journal):
        assert plain_actions(scheduler.handle(entry.event, entry.time)) == entry.actions
        if isinstance(entry.event, ev.JobSubmitted):
            given.append(entry.event.spec.env)
    assert given == [{"A": "b"}, {}]
    assert scheduler.state.job(1).spec.env == {}, "it has ended"
    assert scheduler.state.job(1).spec.configurations == CHAIN


def edit(journal: Any, statement: Any) -> None:
    with sqlite3.connect(journal) as db:
        db.execute(statement)


def test_the_first_difference_is_shown(journal: Any) -> None:
    edit(journal, "UPDATE events SET actions = replace(actions, '\"size\":1', '\"size\":3')"
                  " WHERE seq = 3")  # fmt: skip
    code, out, _ = replay(journal)
    assert code == 1
    assert out.startswith("event 3 (JobSubmitted) differs after 2 with the same actions\n")


def test_an_event_that_is_not_legal_any_more_is_a_difference(journal: Any) -> None:
    edit(journal, "DELETE FROM events WHERE type = 'NodeJoined'")
    code, out, _ = replay(journal, "--json")
    assert code == 1
    assert "the cluster has 0" in json.loads(out)["difference"]["now"]


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        (
            "UPDATE events SET body = '{\"node\": 3' WHERE seq = 2",
            "event 2 (NodeJoined) is damaged",
        ),
        ("UPDATE events SET body = '{\"node\": 3}' WHERE seq = 2", "event 2 (NodeJoined) is dam"),
        ("UPDATE events SET type = 'Gone' WHERE seq = 5", "event 5 (Gone) is damaged"),
        ("DROP TABLE events", "not a journal"),
    ],
)
def test_a_damaged_journal_is_one_line_and_exit_code_2(
    journal: Any, statement: str, says: str
) -> None:
    edit(journal, statement)
    code, out, err = replay(journal)
    assert (code, out) == (2, "")
    assert says in err
    assert len(err.splitlines()) == 1


def test_no_journal(tmp_path: Path) -> None:
    assert replay(tmp_path / "none.db")[0] == 2
    (tmp_path / "text.db").write_text("not a database at all, but long enough to be looked at")
    assert replay(tmp_path / "text.db")[0] == 2


def test_the_journals_jobs_under_another_policy(journal: Any) -> None:
    code, out, _ = replay(journal, "--policy", "easy", "--json")
    assert code == 0
    run = json.loads(out)["runs"][0]
    assert run["jobs"] == 2
    # four iterations of 8 s on one processor, and five seconds beside them
    assert run["makespan_s"] == pytest.approx(32.0)
    assert replay(journal, "--policy", "nonsense")[0] == 2


def test_nodes_that_were_never_there_at_one_time_are_not_added_up(tmp_path: Path) -> None:
    r = Recorder(tmp_path / "journal.db")
    r.do(ev.NodeJoined("old", 4))
    r.do(ev.NodeLost("old", "taken down"))
    r.do(ev.NodeJoined("new1", 2))
    r.do(ev.NodeJoined("new2", 3))
    one = configurations([1])
    r.do(ev.JobSubmitted(JobSpec("short", JobKind.RIGID, one[0], one)))
    r.do(ev.JobStarted(1, 1))
    r.do(ev.JobEnded(1, 1, 0))
    r.journal.close()
    assert json.loads(replay(r.path, "--policy", "easy", "--json")[1])["nodes"] == 5


def test_dependencies_reservations_and_history_are_replayed(tmp_path: Path) -> None:
    r = Recorder(tmp_path / "journal.db")
    rule: dict[str, Any] = {
        "samples": 1,
        "discard": 0,
        "threshold": 0.0,
        "settle": 0,
        "confirm_vacated": False,
    }
    r.do(ev.Configured(configured(**rule)))
    r.do(ev.NodeJoined("n1", 4))
    booked = AdvanceReservation("r", 4, 100.0, 200.0)
    r.do(ev.ReservationMade(booked))
    named = JobSpec("a", JobKind.MALLEABLE, CHAIN[0], CHAIN, walltime_s=50.0, application="lu")
    r.do(ev.JobSubmitted(named))
    r.do(ev.JobSubmitted(replace(named, after=(1,))))
    r.do(ev.JobSubmitted(replace(named, application="", walltime_s=10.0, reservation="r")))
    sizes = []
    for job in (1, 2):
        r.do(ev.JobStarted(job, 1))
        size, done = 1, 0
        for seq, seconds in enumerate([8.0, 4.0, 4.0, 4.0], 1):
            r.now += 1
            answer = r.do(ev.RemapPoint(job, 1, seq, size, done, seconds))[-1].answer
            sizes.append(answer.configuration.size)
            if answer.what != "continue":
                size, done = answer.configuration.size, answer.resize_id
                r.do(ev.ResizeCommitted(job, 1, done, 0.5))
        r.do(ev.JobEnded(job, 1, 0))
    assert sizes == [2, 4, 2, 2, 2, 2, 2, 2], "the second run probes nothing"
    r.now = 100.0
    r.do(ev.Tick())
    assert reservation_of(r.scheduler.state.job(3)) == "r"
    r.do(ev.ReservationCancelled("r"))
    r.journal.close()
    result = CliRunner().invoke(sim, ["replay", str(tmp_path / "journal.db")])
    assert (result.exit_code, "all with the same actions" in result.stdout) == (0, True)


def test_a_folder_is_told_from_the_journal_in_it(journal: Any) -> None:
    code, _, err = replay(journal.parent)
    assert code == 2
    assert f"{journal.parent} is a folder: name the journal, " in err


def test_a_job_that_attached_itself_is_simulated_as_if_it_had_been_submitted(
    tmp_path: Path,
) -> None:
    r = Recorder(tmp_path / "journal.db")
    r.do(ev.NodeJoined("n1", 4))
    chain = configurations([1, 2, 4])
    spec = JobSpec("beside", JobKind.MALLEABLE, chain[1], chain)
    r.do(ev.JobAttached(spec, (("n1",),), (0, 0), (7, 8)))
    r.do(ev.JobStarted(1, 1))
    for seq in range(1, 4):
        r.now += 10.0
        r.do(ev.RemapPoint(1, 1, seq, 2, 0, 10.0))
    r.do(ev.JobEnded(1, 1, 0))
    r.journal.close()
    assert replay(tmp_path / "journal.db")[0] == 0
    code, out, _ = replay(tmp_path / "journal.db", "--policy", "easy", "--json")
    assert code == 0
    run = json.loads(out)["runs"][0]
    assert run["jobs"] == 1
    assert run["makespan_s"] == pytest.approx(30.0)


def test_arrays_protected_jobs_and_those_in_reservations_are_simulated_too(tmp_path: Path) -> None:
    r = Recorder(tmp_path / "journal.db")
    r.do(ev.Configured(SchedulerConfig()))
    r.do(ev.NodeJoined("n1", 4))
    r.do(ev.ReservationMade(AdvanceReservation("lecture", 2, 0.0, 100.0)))
    one = configurations([1])
    plain = JobSpec("plain", JobKind.RIGID, one[0], one)
    r.do(ev.ArraySubmitted(plain, (0, 1)))
    protection = Protection("partner", every_points=1)
    grows = JobSpec("grows", JobKind.MALLEABLE, CHAIN[0], CHAIN, protection=protection, retry=1)
    r.do(ev.JobSubmitted(grows))
    r.do(ev.JobSubmitted(replace(plain, reservation="lecture", walltime_s=50.0)))
    jobs = sorted(r.scheduler.state.jobs)
    for job in jobs:
        r.do(ev.JobStarted(job, 1))
    r.now = 4.0
    r.do(ev.RemapPoint(3, 1, 1, 1, 0, 4.0))
    r.now = 8.0
    for job in jobs:
        r.do(ev.JobEnded(job, 1, 0))
    r.journal.close()
    code, out, err = replay(r.path, "--policy", "reshape", "--policy", "easy", "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)["runs"]
    assert [(run["policy"], run["jobs"]) for run in told] == [("reshape", 4), ("easy", 4)]
