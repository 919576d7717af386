"""Writes 0.2.0-lives.zip: journals of drawn lives with a snapshot half way, by that version's code.

    git archive 7ca60aa | tar x -C OLD
    PYTHONPATH=OLD python make_0_2_0.py 0.2.0-lives.zip

Taken are lives whose snapshot has a record of a feature that those before had not: together they
have every record that such lives bring about, under the names of that time. Of each there is
`NAME.sqlite`, its note `-last`, and `NAME.json`: the jobs' states and processors.
"""

from __future__ import annotations

import json
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from dq_server.core.model.errors import SchedulerError
from dq_server.core.model.events import Configured, Event
from dq_server.core.model.state import State
from dq_server.core.scheduler import Scheduler
from dq_server.live.store import snapshot
from dq_server.live.store.journal import Journal, event_as_json
from tests.core.drawn_life import Life
from tests.core.recording import Recorder

LIVES, EVENTS = 240, 160


def drawn(seed: int) -> list[tuple[float, Event]]:
    """The events of a life, its configuration first."""
    recorder = Recorder()
    with recorder.listening():
        life = Life(seed)
        while len(recorder.story) < EVENTS:
            life.happens()
    config = Configured(life.scheduler.config)
    return [(0.0, config), *((now, event) for now, event, _ in recorder.story)]


def records(state: State) -> set[str]:
    """Names of the records that say something now."""
    return set(state.records.said()).union(*(job.records.said() for job in state.jobs.values()))


def written(seed: int, path: Path, known: set[str]) -> dict[str, Any]:
    """A journal of that life; its jobs. Empty: its snapshot has no record that is not `known`."""
    journal, scheduler, half, count = Journal(path), Scheduler(), 0, 0
    for now, event in drawn(seed):
        try:
            actions = scheduler.handle(event, now)
        except SchedulerError:
            continue  # a pool asks at once if it is configured by an event
        journal.append(now, event, event_as_json(event), actions)
        count += 1
        if count == EVENTS // 2:
            half, body, names = count, snapshot.encode(scheduler, now), records(scheduler.state)
    journal.commit()
    journal.save_snapshot(half, body)
    journal.close()
    if names <= known:
        return {}
    known |= names
    return {
        str(job.id): {"state": str(job.state), "processors": sorted(job.holds())}
        for job in scheduler.state.jobs.values()
    }


def main(target: str) -> None:
    folder, known = Path(tempfile.mkdtemp()), set[str]()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as into:
        for seed in range(LIVES):
            path = folder / f"life-{seed}.sqlite"
            jobs = written(seed, path, known)
            if jobs:
                for end in ("", "-last"):
                    into.write(f"{path}{end}", f"{path.name}{end}")
                into.writestr(f"life-{seed}.json", json.dumps(jobs))
    print(len(known), "records:", ", ".join(sorted(known)))


if __name__ == "__main__":
    main(sys.argv[1])
