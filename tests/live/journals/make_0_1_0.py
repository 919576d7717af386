"""Writes 0.1.0-states.zip: journals of DQ 0.1.0 with jobs in every state, by its own code.

    git archive 03c7ed1 | tar x -C OLD
    PYTHONPATH=OLD:OLD/tests/dst python make_0_1_0.py 0.1.0-states.zip

03c7ed1 is the last commit of 0.1.0. Of each journal there are the files that a killed server leaves
(`NAME.sqlite`, `-wal`) or, with `closed`, those of one that was stopped, and `NAME.json`: the jobs'
states and processors, as that version's own state had them.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

# By name: what is imported is another version of these modules than type checkers know.
ev = import_module("dq_server.core.events")
jobs = import_module("dq_server.core.jobs")
config = import_module("dq_server.core.config")
sizes = import_module("dq_server.core.sizes")
protection = import_module("dq_server.core.protection")
scheduler = import_module("dq_server.core.scheduler")
live = import_module("dq_server.live.journal")
snapshot = import_module("dq_server.live.snapshot")
world = import_module("world")

SEEDS = range(1, 13)  # lives in the simulation of the whole, cut off at some moment


class Old:
    """A scheduler of 0.1.0 and its journal: two nodes of two processors."""

    def __init__(self, path: Path) -> None:
        self.journal = live.Journal(path)
        self.scheduler = scheduler.Scheduler()
        self.now = 1000.0
        self.seq = 0
        self.happen(ev.Configured(config.SchedulerConfig(samples=1, discard=0)))
        for node in ("n1", "n2"):
            self.happen(ev.NodeJoined(node, 2))

    def happen(self, event: Any) -> None:
        self.now += 1.0
        actions = self.scheduler.handle(event, self.now)
        self.journal.append(self.now, event, live.event_as_json(event), actions)
        self.journal.commit()
        self.seq += 1

    def submit(self, kind: str = "malleable", start: int = 1, **other: Any) -> Any:
        legal = tuple(map(sizes.configuration, (1, 2, 4)))
        spec = jobs.JobSpec(
            "job", jobs.JobKind(kind), sizes.configuration(start), legal, ("true",), "/", **other
        )
        self.happen(ev.JobSubmitted(spec))
        return self.scheduler.state.jobs[self.scheduler.state.next_job - 1]

    def running(self, **other: Any) -> Any:
        job = self.submit(**other)
        self.happen(ev.JobStarted(job.id, job.instance))
        return job

    def turn(self, job: Any, time_s: float = 1.0) -> None:
        seq = (job.answer.seq if job.answer else 0) + 1
        size = job.resize.target.size if job.resize else job.size
        done = job.resize.resize_id if job.resize else 0
        self.happen(ev.RemapPoint(job.id, job.instance, seq, size, done, time_s / size))


def held(old: Old) -> None:
    old.submit(hold=True)


def waiting(old: Old) -> None:
    first = old.submit(hold=True)
    old.submit(after=(first.id,))


def queued(old: Old) -> None:
    old.running(start=4)
    old.submit(start=2)
    old.submit(priority=7)


def starting(old: Old) -> None:
    old.submit(start=2)


def running(old: Old) -> None:
    old.turn(old.running())


def expanding(old: Old) -> None:
    job = old.running()
    old.turn(job)
    assert job.resize is not None and job.resize.expand


def expanded(old: Old) -> None:
    job = old.running()
    for _ in range(6):
        old.turn(job)
    assert job.size == 4


def shrinking(old: Old) -> None:
    job = old.running(start=2)
    old.happen(ev.ResizeRequested(job.id, 1))
    old.turn(job)
    assert job.resize is not None and not job.resize.expand


def vacating(old: Old) -> None:
    shrinking(old)
    old.turn(old.scheduler.state.jobs[1])
    assert old.scheduler.state.processors.vacating


def killing(old: Old) -> None:
    old.happen(ev.KillRequested(old.running(start=2).id))


def losing(old: Old) -> None:
    old.running(start=4, protection=protection.Protection("disk"))
    old.happen(ev.CopyMade(1, 1, 3, 0.1, 1000))
    old.happen(ev.NodeLost("n2", "no heartbeat"))


def restarting(old: Old) -> None:
    losing(old)
    old.happen(ev.JobEnded(1, 1, -9))


def ended(old: Old) -> None:
    done, failed, killed = old.running(), old.running(), old.submit(hold=True)
    old.happen(ev.WorkDone(done.id, done.instance))
    old.happen(ev.JobEnded(done.id, done.instance, 0))
    old.happen(ev.JobEnded(failed.id, failed.instance, 3))
    old.happen(ev.KillRequested(killed.id, "ada"))


def paused(old: Old) -> None:
    old.running(start=2)
    old.happen(ev.GrantsPaused(True, "the server is going down"))
    old.submit(start=2)


def walltime(old: Old) -> None:
    old.running(start=2, walltime_s=50.0)
    old.now += 60.0
    old.happen(ev.Tick())


STATES: tuple[Callable[[Old], None], ...] = (
    held, waiting, queued, starting, running, expanding, expanded, shrinking, vacating, killing,
    losing, restarting, ended, paused, walltime,
)  # fmt: skip


def story(state: Any) -> dict[str, Any]:
    return {
        str(job.id): {"state": str(job.state), "processors": sorted(job.allocation)}
        for job in state.jobs.values()
    }


def pack(into: zipfile.ZipFile, path: Path, name: str, state: Any) -> None:
    for end in ("", "-wal"):
        if Path(f"{path}{end}").exists():
            into.write(f"{path}{end}", f"{name}.sqlite{end}")
    into.writestr(f"{name}.json", json.dumps(story(state)))


def over(run: Any, at_s: float) -> bool:
    return run.server is not None and run.now >= at_s


def main(target: str) -> None:
    folder = Path(tempfile.mkdtemp())
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as into:
        for make in STATES:
            for how in ("killed", "closed"):
                old = Old(folder / f"{make.__name__}-{how}.sqlite")
                make(old)
                if how == "closed":
                    old.journal.save_snapshot(old.seq, snapshot.encode(old.scheduler, old.now))
                    old.journal.close()
                pack(into, old.journal.path, f"{make.__name__}-{how}", old.scheduler.state)
                if how == "killed":
                    old.journal.close()
        for seed in SEEDS:
            run = world.World(seed)
            run.start_server()
            for node in world.NODES:
                run.start_agent(node)
            run.user.arrive()
            run.later(1.0, run.misfortune)
            run.until(partial(over, run, 4.0 + seed / 2), 30.0)
            run.server.let_out()
            journal = live.Journal(folder / f"life-{seed}.sqlite")
            for entry in run.store.safe:
                row = entry.time, type(entry.event).__name__, live.event_as_json(entry.event)
                journal._db.execute(
                    "INSERT INTO events (time, type, body, actions) VALUES (?, ?, ?, ?)",
                    (*row, entry.actions),
                )
            journal.close()
            again = scheduler.Scheduler()
            for entry in run.store.safe:
                again.handle(entry.event, entry.time)
            pack(into, journal.path, f"life-{seed}", again.state)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main(sys.argv[1])
