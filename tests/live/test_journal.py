"""The journal and its snapshots: what was committed comes back, what cannot be saved is refused."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from dq_client.base import codec, keys
from dq_client.base import messages as m
from dq_client.base.connection import Connection
from dq_client.base.errors import Refused, UsageError
from dq_client.base.home import Home
from dq_server.core.model import events as ev
from dq_server.core.model.actions import StartJob
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.errors import SchedulerError
from dq_server.core.model.jobs import JobKind, JobSpec
from dq_server.core.model.sizes import configuration, grids
from dq_server.live.access import Access, Principal
from dq_server.live.context import Desk
from dq_server.live.orders.startup import WAITS_FOR_AGENTS, resume
from dq_server.live.requests import TABLE, answer
from dq_server.live.server import Server
from dq_server.live.store import checksums, journal_file, snapshot
from dq_server.live.store.journal import Journal, JournalError, Unrepresentable, event_as_json
from dq_server.live.store.read_only import Stalled
from dq_server.live.store.recovery import replay, restored
from harness.live import Live
from tests.live.serving import answer_of, submission


class Life:
    """Servers without sockets, one after another, on one journal."""

    def __init__(self, root: Path) -> None:
        self.home = Home(root / "home")
        self.home.create()
        keys.ensure(self.home.keys)
        self.time = 1000.0
        self.server: Server | None = None

    def start(self) -> Server:
        self.server = Server(
            Journal(self.home.journal),
            Access(self.home.keys),
            lambda *_: None,
            clock=lambda: self.time,
            monotonic=lambda: self.time,
        )
        return self.server

    def crash(self) -> None:
        """What the process held is gone, uncommitted events too."""
        assert self.server is not None
        self.server.journal.rollback()
        self.server.journal.close()

    def busy(self, server: Server, rounds: int) -> None:
        """A varied life: jobs of all kinds start, iterate, resize, end."""
        for n in range(1, 5):
            server.apply(ev.NodeJoined(f"n{n}", 4))
        resume(server.desk)
        for _ in range(rounds):
            self.time += 1.0
            sizes, others = grids(configuration(size) for size in (1, 2, "2x1", 4))
            spec = JobSpec("job", JobKind.MALLEABLE, sizes[0], sizes, other_grids=others)
            job = next(a.job for a in server.apply(ev.JobSubmitted(spec)) if hasattr(a, "job"))
            state = server.scheduler.state
            for running in list(state.active.values()):
                seq = (running.answer.seq if running.answer else 0) + 1
                done = running.resize.resize_id if running.resize else 0
                size = running.resize.target.size if running.resize else running.size
                server.apply(
                    ev.RemapPoint(running.id, running.instance, seq, size, done, 1.0 / size)
                )
            if job % 3 == 0:
                server.apply(ev.KillRequested(job))
            for running in list(state.active.values())[:2]:  # some of them are being killed
                server.apply(ev.JobEnded(running.id, running.instance, 0))
            for p, owner in list(state.processors.vacating.items()):
                server.apply(ev.ProcessorsVacated(owner, (p,)))
        server.finish_turn()


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    made = Life(tmp_path)
    yield made
    if made.server is not None:
        made.server.journal.close()


def test_snapshot_and_tail_equal_the_full_replay(life: Life) -> None:
    """The same bytes, whichever way the state was made."""
    server = life.start()
    life.busy(server, 20)
    server.take_snapshot()
    life.busy(server, 20)
    life.crash()
    journal = Journal(life.home.journal)
    states = []
    for use_snapshot in (True, False):
        if not use_snapshot:
            journal._db.execute("DELETE FROM snapshots")
        scheduler, _, after = restored(journal)
        assert (after > 0) is use_snapshot
        for entry in journal.entries(after):
            replay(scheduler, entry)
        states.append(snapshot.encode(scheduler, 0.0))
    journal.close()
    assert states[0] == states[1]


def test_snapshot_comes_back_as_it_was(life: Life) -> None:
    server = life.start()
    life.busy(server, 30)
    body = snapshot.encode(server.scheduler, 7.0)
    again, time = snapshot.decode(body)
    assert time == 7.0
    assert snapshot.encode(again, 7.0) == body
    assert again.state.jobs == server.scheduler.state.jobs
    assert all(again.state.jobs[j] is job for j, job in again.state.active.items())


@pytest.mark.parametrize("damage", ["sum", "body", "row"])
def test_damaged_snapshot_is_passed_over(life: Life, damage: str) -> None:
    """The events tell the same story, only longer."""
    server = life.start()
    life.busy(server, 5)
    server.take_snapshot()
    jobs = dict(server.scheduler.state.jobs)
    life.crash()
    change = {
        "sum": "UPDATE snapshots SET sum = x'00'",
        "body": "UPDATE snapshots SET body = substr(body, 1, 100)",
        "row": "DELETE FROM snapshots",
    }[damage]
    db = sqlite3.connect(life.home.journal)
    db.execute(change)
    db.commit()
    db.close()
    assert life.start().scheduler.state.jobs == jobs


def test_what_was_not_committed_is_gone_and_what_was_is_there(life: Life) -> None:
    server = life.start()
    server.apply(ev.NodeJoined("n1", 2))
    server.finish_turn()
    server.apply(ev.NodeJoined("n2", 2))
    life.crash()
    assert set(life.start().scheduler.state.processors.nodes) == {"n1"}


def test_an_older_journal_tells_no_rows_and_none_are_meant(life: Life) -> None:
    server = life.start()
    server.apply(ev.NodeJoined("n1", 4))
    resume(server.desk)
    spec = JobSpec("job", JobKind.MALLEABLE, configuration(1), (configuration(1), configuration(2)))
    (job,) = [a.job for a in server.apply(ev.JobSubmitted(spec)) if isinstance(a, StartJob)]
    server.apply(ev.ResizeRequested(job, 2))
    server.finish_turn()
    life.crash()
    db = sqlite3.connect(life.home.journal)
    older = "UPDATE events SET body = json_remove(body, '$.rows') WHERE type = 'ResizeRequested'"
    assert db.execute(older).rowcount == 1
    journal_file.seal(db)
    db.commit()
    mark = journal_file.last_event(db)
    checksums.ChecksumFile(
        checksums.note_of(life.home.journal), checksums.Known(mark, mark)
    ).close()
    db.close()
    assert life.start().scheduler.state.job(job).wanted == configuration(2)


def test_torn_tail(life: Life) -> None:
    """Acknowledged events whose write-ahead log was cut off: said, with the last sound one."""
    server = life.start()
    for n in range(5):
        server.apply(ev.NodeJoined(f"n{n}", 2))
        server.finish_turn()
    copy = life.home.root / "copy"
    copy.mkdir()
    for suffix in ("", "-wal", "-last"):
        shutil.copy(f"{life.home.journal}{suffix}", copy / f"journal.sqlite{suffix}")
    log = copy / "journal.sqlite-wal"
    log.write_bytes(log.read_bytes()[:-1000])
    before = log.read_bytes()
    last = server._seq
    said = rf"it ends with event {last - 1}\): all is well up to event {last - 1}, {last} were"
    with pytest.raises(JournalError, match=said):
        Journal(copy / "journal.sqlite")
    assert log.read_bytes() == before, "nothing is written over what is damaged"


DAMAGE = {
    "a body that is no event": "UPDATE events SET body = '{\"node\":1}' WHERE seq = 3",
    "a body cut short": "UPDATE events SET body = substr(body, 1, 5) WHERE seq = 3",
    "another figure": "UPDATE events SET body = replace(body, ':4', ':3') WHERE seq = 3",
    "an unknown type": "UPDATE events SET type = 'Nonsense' WHERE seq = 3",
    "a missing event": "DELETE FROM events WHERE seq = 3",
    "other actions": 'UPDATE events SET actions = \'[["JobAccepted",{"job":9}]]\' WHERE seq = 3',
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_journal_is_refused_with_one_line(life: Life, damage: str) -> None:
    server = life.start()
    life.busy(server, 3)
    life.crash()
    db = sqlite3.connect(life.home.journal)
    db.execute(damage)
    db.commit()
    db.close()
    with pytest.raises(JournalError) as refused:
        life.start()
    assert "\n" not in str(refused.value)
    life.server = None


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    path.write_bytes(b"not a database" * 1000)
    with pytest.raises(JournalError, match=r"is damaged \(file is not a database\)"):
        Journal(path)


def test_a_folder_that_cannot_be_written() -> None:
    """/proc takes no files, not even root's."""
    with pytest.raises(JournalError, match="cannot be used as the journal"):
        Journal(Path("/proc/journal.sqlite"))
    with pytest.raises(UsageError, match="choose another"):
        Home(Path("/proc/dq")).create()


def test_full_disk_refuses_the_whole_batch_and_recovers(life: Life) -> None:
    """SQLite undoes a batch by itself when the disk is full: nothing may slip in after that."""
    server = life.start()
    server.apply(ev.NodeJoined("n1", 2))
    server.finish_turn()
    assert isinstance(server.journal, Journal)
    db = server.journal._db
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    db.execute(f"PRAGMA max_page_count={pages}")
    sent: list[bytes] = []
    server._outlet = lambda _, frame: sent.append(frame)
    user = server.access.who(keys.load(life.home.keys, "user").public)
    assert user is not None
    for n in range(40):
        body = submission(f"r{n}", env={"PAD": "x" * 3000})
        server.receive(b"me", user, codec.encode(m.Request(f"q{n}", body)))
    server.finish_turn()
    replies = [codec.decode_from_server(frame) for frame in sent]
    assert len(replies) == 40
    errors = [r.body for r in replies if isinstance(r.body, m.Error)]
    assert len(errors) == 40
    assert {error.code for error in errors} == {"later"}
    assert "full" in errors[0].text
    assert not server.scheduler.state.jobs
    db.execute("PRAGMA max_page_count=1000000")
    server.receive(b"me", user, codec.encode(m.Request("again", submission("r0"))))
    server.finish_turn()
    assert codec.decode_from_server(sent[-1]).body == m.Submitted(1)
    life.crash()
    assert set(life.start().scheduler.state.jobs) == {1}


@pytest.mark.parametrize(
    ("fault", "code"),
    [(Stalled("not saved: the disk is full"), "later"), (JournalError("it is damaged"), "refused")],
)
def test_a_fault_of_storage_is_none_of_the_scheduler(
    fault: Exception, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not isinstance(fault, SchedulerError)

    def failing(*_: object) -> m.ReplyBody:
        raise fault

    monkeypatch.setitem(cast(dict[Any, Any], TABLE), m.JobQuery, failing)
    asked = m.Request("1", m.JobQuery(1))
    assert answer(cast(Desk, None), b"me", Principal(m.USER), asked) == m.Error(code, str(fault))


def test_an_event_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(Unrepresentable):
        event_as_json(ev.NodeJoined("n1", 2, float("inf")))


def hold(n: int) -> ev.Event:
    """An event somebody acts on: a job that is safe once it is acknowledged."""
    spec = JobSpec(f"j{n}", JobKind.RIGID, configuration(1), (configuration(1),), hold=True)
    return ev.JobSubmitted(spec)


def goes_on(n: int) -> ev.Event:
    """One nobody acts on: a remap point at a job's only size, answered `continue`."""
    return ev.RemapPoint(1, 1, n, 1, 0, 1.0)


@pytest.mark.parametrize(
    ("batch", "flushed"),
    [
        ([goes_on], False),
        ([goes_on, goes_on], False),
        ([hold], True),
        ([goes_on, hold], True),
        ([hold, goes_on], True),
        ([hold, goes_on, goes_on], True),
        ([goes_on, hold, goes_on], True),
    ],
    ids=lambda value: "+".join(e.__name__ for e in value) if isinstance(value, list) else None,
)
def test_a_batch_reaches_the_disk_if_anything_in_it_is_relied_on(
    life: Life,
    monkeypatch: pytest.MonkeyPatch,
    batch: list[Callable[[int], ev.Event]],
    flushed: bool,
) -> None:
    """Wherever in the batch that is; and it is no reason to flush the next one."""
    flushes: list[int] = []
    server = life.start()
    server.apply(ev.NodeJoined("n1", 1))
    resume(server.desk)
    only = JobSpec("job", JobKind.MALLEABLE, configuration(1), (configuration(1),))
    server.apply(ev.JobSubmitted(only))
    server.apply(ev.JobStarted(1, 1))
    server.finish_turn()
    monkeypatch.setattr(os, "fdatasync", flushes.append)
    for n, event in enumerate(batch, 1):
        server.apply(event(n))
    server.finish_turn()
    assert bool(flushes) is flushed
    flushes.clear()
    server.apply(goes_on(len(batch) + 1))
    server.finish_turn()
    assert not flushes


def test_what_a_server_says_first_is_said_again_if_it_could_not_be_saved(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for its agents, and tells that events were lost, before anything else happens."""
    server = life.start()
    server.apply(ev.NodeJoined("n1", 1))
    server.finish_turn()
    life.crash()
    with closing(sqlite3.connect(life.home.journal, isolation_level=None)) as db:
        journal_file.mark_as_patched(db)
    commit, refused = Journal.commit, [True]

    def once(journal: Journal) -> None:
        if refused.pop() if refused else False:
            raise JournalError("the disk is full")
        commit(journal)

    monkeypatch.setattr(Journal, "commit", once)
    server = life.start()
    assert not server.scheduler.state.paused, "forgotten with the turn"
    only = JobSpec("job", JobKind.RIGID, configuration(1), (configuration(1),))
    assert not any(isinstance(a, StartJob) for a in server.apply(ev.JobSubmitted(only)))
    server.finish_turn()
    assert server.scheduler.state.paused == WAITS_FOR_AGENTS
    assert server.scheduler.state.next_instance == server.epoch
    assert server.journal.patched


@pytest.mark.live
def test_full_disk_live(live: Live) -> None:
    """The server's files may not grow: `dq submit` is refused; later it goes on as before."""
    live.up(2)
    first = live.submit("--", "true")
    live.wait_end(first)
    server = psutil.Process(live.home.server()["pid"])
    size = max(path.stat().st_size for path in live.home.root.glob("journal.sqlite*"))
    server.rlimit(psutil.RLIMIT_FSIZE, (size, -1))
    connection = Connection.to(live.home)
    with pytest.raises(Refused, match="not saved"):
        for n in range(50):
            connection.call(submission(f"full-{n}", env={"PAD": "x" * 30_000}, hold=True))
    kept = answer_of(m.Data, connection.call(m.JobsQuery())).data
    server.rlimit(psutil.RLIMIT_FSIZE, (-1, -1))
    assert answer_of(m.Data, connection.call(m.JobsQuery())).data == kept
    connection.close()
    assert live.wait_end(live.submit("--", "true"))["state"] == "done"


def test_a_job_that_the_scheduler_has_forgotten_is_told_of(tmp_path: Path) -> None:
    """With keep_ended = 1 the first of two jobs is forgotten; a new server knows it, too."""
    home = Home(tmp_path / "home")
    home.create()
    keys.ensure(home.keys)
    told: list[bytes] = []

    def start() -> Server:
        access = Access(home.keys)
        config = SchedulerConfig(keep_ended=1)
        return Server(Journal(home.journal), access, lambda _, f: told.append(f), config)

    def ask(server: Server, body: m.RequestBody) -> Any:
        server.receive(b"user", Principal("user"), codec.encode(m.Request("q", body)))
        server.finish_turn()
        return codec.decode_from_server(told.pop()).body

    server = start()
    server.apply(ev.NodeJoined("n1", 1))
    for n in (1, 2):
        assert ask(server, submission(f"r{n}")) == m.Submitted(n)
        server.apply(ev.JobEnded(n, 1, n))
        server.apply(ev.ProcessorsVacated(n, (0,)))
    assert list(server.scheduler.state.jobs) == [2]
    before = ask(server, m.JobQuery(1)), ask(server, m.WhyQuery(1))
    assert before[0].data["exit_code"] == 1
    assert before[1].data["story"][0]["what"] == "start"
    assert ask(server, m.JobQuery(3)) == m.Error("not_found", "no job 3")
    server.journal.close()
    server = start()
    assert (ask(server, m.JobQuery(1)), ask(server, m.WhyQuery(1))) == before
    server.journal.close()


def test_a_journal_that_is_closed_leaves_nothing_open(tmp_path: Path) -> None:
    def is_open() -> bool:
        found = []
        for path in Path("/proc/self/fd").iterdir():
            with suppress(OSError):  # the descriptor that lists them
                found.append(path.readlink())
        return any(path.is_relative_to(tmp_path) for path in found)

    journal = Journal(tmp_path / "journal.sqlite")
    states = [is_open()]
    for _ in range(2):
        journal.close()
        states.append(is_open())
    assert states == [True, False, False]
