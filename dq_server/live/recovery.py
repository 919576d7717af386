"""Recovery: the state that a journal leads to, from the newest snapshot and the events after it."""

from __future__ import annotations

import logging

from dq_server.core.model.errors import SchedulerError
from dq_server.core.scheduler import Scheduler
from dq_server.live import snapshot
from dq_server.live.journal import ANY, Entry, JournalError, Store, actions_as_json

log = logging.getLogger("dq.server")


def restored(journal: Store) -> tuple[Scheduler, float, int]:
    """The scheduler in the newest snapshot, the snapshot's time and its last event's number.

    A new scheduler, 0.0 and 0 if there is no usable snapshot.
    """
    before = ANY
    while (found := journal.load_snapshot(before)) is not None:
        before, body = found
        try:
            return *snapshot.decode(body), before
        except snapshot.DamagedSnapshot as e:
            log.warning("the snapshot of event %d cannot be used: %s", before, e)
    return Scheduler(), 0.0, 0


def replay(scheduler: Scheduler, entry: Entry) -> None:
    """Handle an event of the journal again; JournalError if it does not lead where it did.

    The actions are compared as text: the agents and clients have acted on the recorded ones, so a
    state that explains other actions would be a lie about what runs.
    """
    try:
        actions = scheduler.handle(entry.event, entry.time)
    except SchedulerError as e:
        raise JournalError(f"the journal is damaged: event {entry.seq} is not legal: {e}") from e
    if actions_as_json(actions) != entry.actions:
        raise JournalError(
            f"the journal is damaged, or was written by another version of DQ: event {entry.seq}"
            f" ({type(entry.event).__name__}) does not lead to the recorded actions any more;"
            " move it away"
        )
