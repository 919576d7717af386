"""A journal of many ended jobs, for benchmarks.years."""

from __future__ import annotations

import time
import zlib
from pathlib import Path

import msgspec

from dq_server.core.model import events as ev
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import JobKind, JobSpec
from dq_server.core.model.sizes import configuration
from dq_server.core.scheduler import Scheduler
from dq_server.live.agents.usage import Usages
from dq_server.live.store import checksums
from dq_server.live.store.journal import Journal, event_as_json
from dq_server.live.store.snapshot_policy import SnapshotPolicy
from dq_server.live.views import tables

LIVED = 25_000  # jobs that the scheduler really has: over 100,000 events, which is what is kept
BATCH = 10


class Years:
    """A journal in which `jobs` jobs have ended: the last ones through scheduler and snapshots.

    Of those before only what a server keeps is written: their record, with an id of its own each.
    """

    def __init__(self, path: Path, jobs: int) -> None:
        self.journal, self.scheduler = Journal(path), Scheduler()
        self.snapshots = SnapshotPolicy(self.journal, time.monotonic)
        self.now = 1000.0
        self._happen(ev.Configured(SchedulerConfig()))
        self._happen(ev.NodeJoined("n1", 4))
        self.scheduler.state.next_job = first = max(1, jobs - LIVED + 1)
        for n in range(first, jobs + 1):
            self._live(n)
            if n % BATCH == 0:
                self.journal.commit()
                self.snapshots.take_if_due(self._seq, self.scheduler, self.now)
        self.journal.commit()
        self._older(first)

    @property
    def _seq(self) -> int:
        return self.journal._last.seq

    def _happen(self, event: ev.Event) -> None:
        actions = self.scheduler.handle(event, self.now)
        self.journal.append(self.now, event, event_as_json(event), actions)

    def _live(self, job: int) -> None:
        self.now += 1.0
        one = configuration(1)
        env = {f"VARIABLE_{n}": f"/some/value/of/{n}" for n in range(10)}
        spec = JobSpec("a job", JobKind.RIGID, one, (one,), ("python", "app.py"), "/home/me", env)
        self._happen(ev.JobSubmitted(spec))
        self._happen(ev.JobStarted(job, 1))
        self._happen(ev.WorkDone(job, 1))
        self._happen(ev.JobEnded(job, 1, 0))
        ended, state = self.scheduler.state.jobs[job], self.scheduler.state
        told = {
            "job": tables.job_view(ended, state, Usages()),
            "why": tables.why_view(self.scheduler, ended, self.now),
        }
        self.journal.archive(job, msgspec.json.encode(told))
        for p, owner in list(state.processors.vacating.items()):
            self._happen(ev.ProcessorsVacated(owner, (p,)))

    def _older(self, first: int) -> None:
        db = self.journal._db
        body = self.journal.archived(first)
        assert body is not None
        db.execute("BEGIN")
        for job in range(1, first):
            packed = zlib.compress(body.replace(str(first).encode(), str(job).encode()))
            row = job, packed, checksums.of_ended(job, packed)
            db.execute("INSERT INTO ended VALUES (?, ?, ?)", row)
        db.execute("COMMIT")

    def kill(self) -> None:
        """The server is gone, without a last snapshot."""
        self.snapshots.forget()
        self.journal.close()
