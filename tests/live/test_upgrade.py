"""A journal of an older version opens, goes on, and no job of it is lost, whatever the rules are.

0.1.0-states.zip has journals that 0.1.0 wrote with jobs in every state (journals/make_0_1_0.py).
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dq_client import __version__
from dq_client.base import keys
from dq_client.base.home import Home
from dq_server.core.model import events as ev
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.decisions import Start, Verdict
from dq_server.core.model.errors import InvalidTransition
from dq_server.core.model.jobs import ENDED, Job, JobKind, JobSpec, JobState
from dq_server.core.model.reasons import Reason, because
from dq_server.core.model.sizes import configuration
from dq_server.core.model.state import State
from dq_server.core.policies.resize_reshape import ReshapeResize
from dq_server.core.policies.start_backfill import FcfsStart
from dq_server.core.scheduler import HANDLERS, Scheduler
from dq_server.core.turn import Turn
from dq_server.live.access import Access
from dq_server.live.server import Server
from dq_server.live.store import checksums, journal_file
from dq_server.live.store.journal import Journal, event_as_json
from dq_server.live.store.recovery import OtherRules, recovered, replay
from tests.live.journal_lives import History

STATES = zipfile.ZipFile(Path(__file__).parent / "journals" / "0.1.0-states.zip")
NAMES = sorted(name.removesuffix(".json") for name in STATES.namelist() if name.endswith(".json"))
EVERY = {"held", "waiting", "queued", "starting", "running", "killing", "restarting", "done",
         "failed", "killed"}  # fmt: skip


class Home010:
    """A home with one of those journals, and servers on it without sockets."""

    def __init__(self, root: Path, name: str) -> None:
        self.home = Home(root / "home")
        self.home.create()
        keys.ensure(self.home.keys)
        self.before: dict[str, Any] = json.loads(STATES.read(f"{name}.json"))
        for end in ("", "-wal"):
            if f"{name}.sqlite{end}" in STATES.namelist():
                Path(f"{self.home.journal}{end}").write_bytes(STATES.read(f"{name}.sqlite{end}"))
        self.time = 5000.0
        self.server: Server | None = None

    def start(self) -> Server:
        self.stop()
        self.server = Server(
            Journal(self.home.journal),
            Access(self.home.keys),
            lambda *_: None,
            SchedulerConfig(),
            clock=lambda: self.time,
            monotonic=lambda: self.time,
        )
        return self.server

    def stop(self) -> None:
        if self.server is not None:
            self.server.finish_turn()
            self.server.journal.close()
            self.server = None


@pytest.fixture
def home(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Home010]:
    made = Home010(tmp_path, request.param)
    yield made
    made.stop()


def story(jobs: Iterable[Job]) -> dict[str, Any]:
    return {
        str(job.id): {"state": str(job.state), "processors": sorted(job.allocation)} for job in jobs
    }


def go_on(server: Server) -> None:
    """Nodes are there again, and every job runs to its end."""
    for node in ("n1", "n2", "n01", "n02", "n03"):
        server.apply(ev.NodeJoined(node, 4))
    server.apply(ev.GrantsPaused(False))
    for _ in range(100):
        state = server.scheduler.state
        for p, owner in list(state.processors.vacating.items()):
            server.apply(ev.ProcessorsVacated(owner, (p,)))
        for job in [job for job in state.jobs.values() if job.state not in ENDED]:
            step(server, job)
        server.apply(ev.Tick())
        server.finish_turn()
        if all(job.state in ENDED for job in server.scheduler.state.jobs.values()):
            return
    raise AssertionError(f"not ended: {story(server.scheduler.state.jobs.values())}")


def step(server: Server, job: Job) -> None:
    if job.state is JobState.STARTING:
        server.apply(ev.JobStarted(job.id, job.instance))
    elif job.state is JobState.RUNNING:
        server.apply(ev.WorkDone(job.id, job.instance))
        server.apply(ev.JobEnded(job.id, job.instance, 0))
    elif job.state is JobState.KILLING:
        server.apply(ev.JobEnded(job.id, job.instance, -9))
    elif job.state is JobState.HELD:
        server.apply(ev.ReleaseRequested(job.id))


def test_there_is_a_journal_with_every_state() -> None:
    found = {
        job["state"] for name in NAMES for job in json.loads(STATES.read(f"{name}.json")).values()
    }
    assert found == EVERY
    assert len(NAMES) >= 40


@pytest.mark.parametrize("home", NAMES, indirect=True)
def test_it_opens_as_it_was_and_goes_on(home: Home010) -> None:
    found = recovered(journal := Journal(home.home.journal))
    assert story(found.scheduler.state.jobs.values()) == home.before
    assert found.changes == ()
    journal.close()
    server = home.start()
    assert story(server.scheduler.state.jobs.values()) == home.before
    go_on(server)
    again = home.start()  # what the new version wrote, behind what the old one wrote
    assert {str(job) for job in again.scheduler.state.jobs} == home.before.keys()


@pytest.mark.parametrize("home", ["running-killed"], indirect=True)
def test_it_has_checksums_afterwards_and_says_which_version_wrote_what(home: Home010) -> None:
    home.start()
    home.stop()
    journal = Journal(home.home.journal)
    assert journal.meta("schema") == str(journal_file.SCHEMA)
    assert [version for _, version in journal.rules()] == ["0.1", __version__]
    assert [e.seq for e in journal.entries()] == list(range(1, journal._saved.seq + 1))
    assert checksums.note_of(journal.path).exists()
    journal.close()


# --- other rules ------------------------------------------------------------------------------


def last_first(
    self: FcfsStart, state: State, queue: Iterable[Job], config: SchedulerConfig, now: float
) -> list[Start]:
    """Another rule: who came last goes first, and nobody starts on more than one node."""
    found, idle = [], state.idle
    for job in reversed(list(queue)):
        if job.spec.initial.size <= min(idle, 1):
            idle -= job.spec.initial.size
            found.append(Start(job, job.spec.initial, because("started", size=1, idle=state.idle)))
    return found


def never(
    self: ReshapeResize, state: State, job: Job, config: SchedulerConfig, now: float
) -> Verdict:
    return Verdict(None, because("settling", left=1))


@pytest.fixture
def other_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FcfsStart, "choose", last_first)
    monkeypatch.setattr(ReshapeResize, "decide", never)


@pytest.mark.usefixtures("other_policies")
@pytest.mark.parametrize("home", NAMES, indirect=True)
def test_a_policy_that_decides_otherwise_now_loses_nothing(home: Home010) -> None:
    """Running jobs run where they ran; only what comes now is decided by the new rule."""
    found = recovered(journal := Journal(home.home.journal))
    assert story(found.scheduler.state.jobs.values()) == home.before
    assert found.changes == ()
    journal.close()
    server = home.start()
    for name, now in story(server.scheduler.state.jobs.values()).items():
        if home.before[name]["state"] != "queued":  # those the new rule may start
            assert now == home.before[name]
    assert server.journal.load_snapshot() is not None, "that is not done again"


@pytest.mark.parametrize("home", ["queued-killed", "expanding-killed"], indirect=True)
def test_those_rules_do_decide_otherwise(home: Home010, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above would be vacuous otherwise."""
    monkeypatch.setattr(FcfsStart, "choose", last_first)
    monkeypatch.setattr(ReshapeResize, "decide", never)
    journal = Journal(home.home.journal)
    scheduler = Scheduler()
    with pytest.raises(OtherRules, match=r"no longer leads to|is no longer legal"):
        for entry in journal.entries():
            replay(scheduler, entry)
    journal.close()


@pytest.mark.parametrize("home", NAMES, indirect=True)
def test_a_feature_that_refuses_what_it_took_then_loses_no_job(
    home: Home010, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No replay can follow that: jobs that ran are queued again, none is lost or runs twice."""

    def refuses(*_: object) -> None:
        raise InvalidTransition("that is not legal any more")

    with monkeypatch.context() as patched:
        patched.setitem(HANDLERS, ev.JobStarted, refuses)
        patched.setitem(HANDLERS, ev.RemapPoint, refuses)
        patched.setattr(Turn, "admit", refuses)
        found = recovered(journal := Journal(home.home.journal))
        journal.close()
        jobs = found.scheduler.state.jobs
        assert {str(job) for job in jobs} == home.before.keys()
        for name, was in home.before.items():
            job = jobs[int(name)]
            if was["state"] in ("done", "failed", "killed"):
                assert str(job.state) == was["state"]
            else:
                assert job.state not in ENDED
        home.start()
    assert home.server is not None
    go_on(home.server)


def test_a_job_that_cannot_be_followed_is_queued_again_as_another_start(tmp_path: Path) -> None:
    """It ran on processors that the state gives to nobody: they are vacating until it is gone."""
    path = tmp_path / "journal.sqlite"
    history = History(path)
    history.happen(ev.NodeJoined("n1", 4))
    two = configuration(2)
    history.happen(ev.JobSubmitted(JobSpec("job", JobKind.RIGID, two, (two,))))
    history.happen(ev.JobStarted(1, 1))
    job = history.scheduler.state.jobs[1]
    assert job.state is JobState.RUNNING
    history.journal.close()
    event = ev.RemapPoint(1, 1, 1, 3, 0, 1.0)  # on more processors than it has
    journal = Journal(path)
    journal.append(history.now + 1, event, event_as_json(event), [])
    journal.commit()
    found = recovered(journal)
    journal.close()
    again = found.scheduler.state.jobs[job.id]
    assert again.state is JobState.QUEUED
    assert again.instance == job.instance
    vacating = found.scheduler.state.processors.vacating
    assert set(job.allocation) <= {p for p, owner in vacating.items() if owner == job.id}
    assert found.changes == (f"job {job.id} is queued again, its start {job.instance} is ended",)


def test_a_reason_of_another_version_is_told_as_it_is() -> None:
    assert Reason("of_old", {"size": 4}).text == "of_old (size 4)"
    assert Reason("started", {"other": 4}).text == "started (other 4)"
