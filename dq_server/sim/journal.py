"""The journal of a live server, read without one: its events as the core knows them.

The server writes SQLite: events(seq, time, type, body, actions), bodies and actions as JSON
(dq_server/live/store/journal.py). Here JSON becomes events again by the type hints of the core's
dataclasses, and actions become JSON values to compare with the recorded ones.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dq_server.core.model.actions import Action
from dq_server.core.model.errors import SchedulerError
from dq_server.core.model.events import EVENTS, Configured, Event
from dq_server.core.model.options import decoded, plain
from dq_server.core.scheduler import Scheduler
from dq_server.core.settings import from_recorded
from dq_server.sim.errors import WorkloadError


@dataclass(frozen=True, slots=True)
class JournalLine:
    """A line of a journal; `actions` as parsed JSON."""

    seq: int
    time: float
    event: Event
    actions: list[Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first event that does not lead to what was recorded."""

    seq: int
    event: str
    recorded: list[Any]
    ours: list[Any] | str  # an error's text if the event was refused


def read_journal(path: Path) -> Iterator[JournalLine]:
    """The entries of a journal in order; WorkloadError names the file and the event at fault."""
    if path.is_dir():
        raise WorkloadError(f"{path} is a folder: name the journal, {path / 'journal.sqlite'}")
    if not path.is_file():
        raise WorkloadError(f"{path}: no such journal")
    try:
        db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error as error:
        raise WorkloadError(f"{path}: {error}") from error
    try:
        rows = db.execute("SELECT seq, time, type, body, actions FROM events ORDER BY seq")
        last = 0
        for seq, time, kind, body, actions in rows:
            if last == 0 and seq > 1:
                raise WorkloadError(
                    f"{path}: begins with event {seq}, what was before is not kept (docs/years.md):"
                    " replay a backup of an earlier time"
                )
            last = seq
            try:
                event = event_of(kind, json.loads(body))
                yield JournalLine(seq, time, event, json.loads(actions))
            except (KeyError, TypeError, ValueError) as error:
                raise WorkloadError(f"{path}: event {seq} ({kind}) is damaged: {error}") from error
    except sqlite3.Error as error:
        raise WorkloadError(f"{path}: not a journal ({error})") from error
    finally:
        db.close()


def event_of(kind: str, body: Any) -> Event:
    """An event by the name of its type, from its recorded JSON."""
    if kind == Configured.__name__:
        return Configured(from_recorded(body["config"]))
    event: Event = decoded(body, EVENTS[kind])
    return event


def replay(entries: Iterator[JournalLine]) -> tuple[int, Difference | None]:
    """Handle the events again: how many led to the recorded actions, and the first that did not."""
    scheduler = Scheduler()
    count = 0
    for entry in entries:
        name = type(entry.event).__name__
        try:
            ours = plain_actions(scheduler.handle(entry.event, entry.time))
        except SchedulerError as error:
            return count, Difference(entry.seq, name, entry.actions, str(error))
        if ours != entry.actions:
            return count, Difference(entry.seq, name, entry.actions, ours)
        count += 1
    return count, None


def plain_actions(actions: list[Action]) -> list[Any]:
    """Actions as the journal has them: [[type, fields], ...]."""
    return [[type(action).__name__, plain(action)] for action in actions]
