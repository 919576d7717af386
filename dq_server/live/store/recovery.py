"""Recovery: the state that a journal leads to, from the newest snapshot and the events after it.

The events are handled again, and mostly lead to what they led to. Where they do not, this version
decides otherwise than the one that wrote them (damage is excluded: the journal has checksums). Then
they are handled once more with the recorded decisions in place of ours (core/recorded.py), and the
state is settled with what has happened. A snapshot follows at once, so that is done only once.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from dq_server.core.model.errors import SchedulerError
from dq_server.core.recorded import Facts, Following, settle
from dq_server.core.scheduler import Scheduler
from dq_server.live.store import snapshot
from dq_server.live.store.interface import Store
from dq_server.live.store.journal import Entry, JournalError, actions_as_json, actions_of
from dq_server.live.store.journal_file import ANY
from dq_server.live.store.verify_on_open import WHAT_TO_DO

log = logging.getLogger("dq.server")


def restored(journal: Store) -> tuple[Scheduler, float, int]:
    """The scheduler in the newest snapshot, the snapshot's time and its last event's number.

    A new scheduler, 0.0 and 0 if there is no usable snapshot.
    """
    before = ANY
    while (found := journal.load_snapshot(before)) is not None:
        before, body = found
        if before < journal.first - 1:
            break  # events between it and the first that is kept are missing
        try:
            return *snapshot.decode(body), before
        except snapshot.DamagedSnapshot as e:
            log.warning("the snapshot of event %d cannot be used: %s", before, e)
    if journal.first > 1:
        raise JournalError(
            "journal.sqlite is damaged; no snapshot can be used, and events before"
            f" {journal.first} are not kept; {WHAT_TO_DO}"
        )
    return Scheduler(), 0.0, 0


class OtherRules(JournalError):
    """An event does not lead to what it led to."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """The state after event `seq`; `kept`: the event of its snapshot, `last_s`: time of the last.

    changes  where it differs from what had been decided, a sentence each
    """

    scheduler: Scheduler
    last_s: float
    kept: int
    seq: int
    changes: tuple[str, ...] = ()


def recovered(journal: Store) -> Recovered:
    """The state that the journal leads to; JournalError if there is none."""
    scheduler, last_s, kept = restored(journal)
    seq = kept
    try:
        for entry in journal.entries(after=kept):
            replay(scheduler, entry)
            seq, last_s = entry.seq, entry.time
    except OtherRules as e:
        log.warning("%s; what was decided then stands", e)
        return _followed(journal)
    scheduler.state.check()
    return Recovered(scheduler, last_s, kept, seq)


def _followed(journal: Store) -> Recovered:
    """The state with the recorded decisions in place of ours, settled with what has happened."""
    scheduler, last_s, kept = restored(journal)
    following, facts, seq = Following(scheduler.config, scheduler.state), Facts(), kept
    facts.begin(following.state)
    for entry in journal.entries(after=kept):
        recorded = actions_of(entry.actions)
        try:
            ours = following.follow(entry.event, entry.time, recorded)
        except Exception as e:
            log.warning("event %d cannot be followed: %s", entry.seq, e)
            ours = None
        facts.take_in(entry.event, recorded, ours)
        seq, last_s = entry.seq, entry.time
    scheduler = following.plain()
    changes = settle(scheduler, facts, last_s)
    try:
        scheduler.state.check()
        lost = facts.lost(scheduler.state)
        assert not lost, f"job {lost[0]} would be lost"
    except Exception as e:
        raise JournalError(
            f"events {kept + 1} to {seq} were decided by other rules, and cannot be followed ({e}):"
            " start the version of DQ that wrote them, let its jobs end, stop it, and try again"
        ) from e
    for change in changes:
        log.warning("other rules than at event %d: %s", seq, change)
    return Recovered(scheduler, last_s, kept, seq, tuple(changes))


def replay(scheduler: Scheduler, entry: Entry) -> None:
    """Handle an event of the journal again; OtherRules if it does not lead where it did.

    The actions are compared as text: the agents and clients have acted on the recorded ones, so a
    state that explains other actions would be a lie about what runs.
    """
    try:
        actions = scheduler.handle(entry.event, entry.time)
    except SchedulerError as e:
        raise OtherRules(f"event {entry.seq} is no longer legal: {e}") from e
    if actions_as_json(actions) != entry.actions:
        raise OtherRules(
            f"event {entry.seq} ({type(entry.event).__name__}) no longer leads to the recorded"
            " actions"
        )
