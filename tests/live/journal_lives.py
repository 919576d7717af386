"""Journals with a history, for tests of what becomes of their files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from dq_server.core.model import events as ev
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import JobKind, JobSpec, JobState
from dq_server.core.model.sizes import configuration, grids
from dq_server.core.scheduler import Scheduler
from dq_server.live.store import snapshot
from dq_server.live.store.journal import Journal, event_as_json
from dq_server.live.store.recovery import replay, restored

ENDS = ("", "-wal", "-last")  # of the names of a journal's files


class History:
    """A scheduler whose events are kept, a batch for each, without a server."""

    def __init__(self, path: Path, config: SchedulerConfig | None = None) -> None:
        self.journal, self.scheduler = Journal(path), Scheduler()
        self.now = 1000.0
        self.happen(ev.Configured(config or SchedulerConfig()))

    def happen(self, event: ev.Event) -> None:
        """An event, and what follows from it, committed."""
        self.now += 1.0
        actions = self.scheduler.handle(event, self.now)
        self.journal.append(self.now, event, event_as_json(event), actions)
        self.journal.commit()

    def live(self, rounds: int) -> None:
        """Jobs come, iterate, are resized and killed, and end."""
        for n in range(1, 4):
            self.happen(ev.NodeJoined(f"n{n}", 4))
        sizes, others = grids(configuration(size) for size in (1, 2, "2x1", 4))
        state = self.scheduler.state
        for n in range(rounds):
            spec = JobSpec(f"job {n}", JobKind.MALLEABLE, sizes[0], sizes, other_grids=others)
            self.happen(ev.JobSubmitted(spec))
            if n % 3 == 0:
                self.happen(ev.KillRequested(state.next_job - 1))
            self._iterate()
            for running in list(state.active.values())[: n % 3]:
                self.happen(ev.JobEnded(running.id, running.instance, 0))
                self.journal.archive(running.id, f"what was of job {running.id}".encode())
            for p, owner in list(state.processors.vacating.items()):
                self.happen(ev.ProcessorsVacated(owner, (p,)))

    def _iterate(self) -> None:
        for job in list(self.scheduler.state.active.values()):
            if job.state not in (JobState.STARTING, JobState.RUNNING):
                continue
            seq = (job.answer.seq if job.answer else 0) + 1
            done = job.resize.resize_id if job.resize else 0
            size = job.resize.target.size if job.resize else job.size
            self.happen(ev.RemapPoint(job.id, job.instance, seq, size, done, 1.0 / size))

    def keep(self) -> None:
        """A snapshot."""
        seq = self.journal._saved.seq
        self.journal.save_snapshot(seq, snapshot.encode(self.scheduler, self.now))


def led_to(path: Path) -> tuple[bytes, list[bytes | None]]:
    """The state that a journal leads to, and what it has of ended jobs."""
    journal = Journal(path)
    try:
        scheduler, last_s, after = restored(journal)
        for entry in journal.entries(after):
            replay(scheduler, entry)
            last_s = entry.time
        scheduler.state.check()
        jobs = range(1, scheduler.state.next_job)
        return snapshot.encode(scheduler, last_s), [journal.archived(job) for job in jobs]
    finally:
        journal.close()


def copied(path: Path, folder: Path) -> Path:
    """A copy of a journal's files, whoever has them open."""
    folder.mkdir(exist_ok=True)
    for end in ENDS:
        target = folder / f"{path.name}{end}"
        target.unlink(missing_ok=True)
        if (file := Path(f"{path}{end}")).exists():
            shutil.copy(file, target)
    return folder / path.name


def just_written(folder: Path) -> Path:
    """A server that was killed early: all is in the write-ahead log."""
    history = History(folder / "early.sqlite")
    history.live(12)
    image = copied(history.journal.path, folder / "early")
    history.journal.close()
    return image


def with_snapshots(folder: Path) -> Path:
    """One that was killed later: two snapshots, most of it in the main file, the rest is not."""
    history = History(folder / "later.sqlite")
    history.live(12)
    history.keep()
    history.live(6)
    history.keep()
    history.journal._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    history.live(3)
    image = copied(history.journal.path, folder / "later")
    history.journal.close()
    return image


def closed(folder: Path) -> Path:
    """One that was stopped: all is in the main file."""
    history = History(folder / "closed.sqlite")
    history.live(12)
    history.keep()
    history.journal.close()
    return copied(history.journal.path, folder / "closed")


IMAGES: tuple[Callable[[Path], Path], ...] = (just_written, with_snapshots, closed)
