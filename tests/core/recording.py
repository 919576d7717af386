"""What the scheduler did in each test, as digests: a change of any decision is seen by its test.

A test says what matters to it. Beside that all its actions, the codes and figures of all reasons
and the times at which the scheduler wants to be woken are compared with those of the last
recording, by a digest for each test. So a change that was meant for one case shows where else it
changes something. Words are no part of it: tests/words has them. After a change on purpose, and for
a new test:

    pytest tests/core --record        # writes recorded.json; its diff names the tests

Tests whose events are drawn (hypothesis) have none.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dq_server.core.explain import explain
from dq_server.core.model.actions import Action
from dq_server.core.model.errors import SchedulerError
from dq_server.core.model.events import Event
from dq_server.core.model.reasons import Reason
from dq_server.core.scheduler import Scheduler

RECORDED = Path(__file__).with_name("recorded.json")
# Machines differ in the last digits of a fit, and it does not matter.
FIGURE = re.compile(rb"-?\d+\.\d+(?:e[-+]?\d+)?")
# Fields that events and views have got since, where they say nothing: they change no digest.
ADDED = re.compile(
    rb',(?:"(?:mistake":false|carried":""|shrink":"resize"|workers":null|recipe":""|silent":0|passed":\[\])|\{"output_lost_bytes":0\})'
)


def plain(thing: Any) -> bytes:
    """As JSON: sets sorted, figures with six digits."""
    text = msgspec.json.encode(thing, order="deterministic", enc_hook=str)
    return FIGURE.sub(lambda found: b"%.6g" % float(found[0]), ADDED.sub(b"", text))


class Recorder:
    """The digest of one test."""

    def __init__(self) -> None:
        self.sum = hashlib.sha256()
        self.events = 0
        self.story: list[tuple[float, Event, list[Action]]] = []
        self.seen: list[tuple[Scheduler, float]] = []

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Everything that any scheduler handles meanwhile counts."""
        handle = Scheduler.handle

        def recorded(scheduler: Scheduler, event: Event, now: float) -> list[Action]:
            try:
                actions = handle(scheduler, event, now)
            except SchedulerError as e:
                self.add(event, now, type(e).__name__)
                raise
            self.story.append((now, event, actions))
            self.add(event, now, actions, scheduler.next_wakeup(now))
            if all(scheduler is not other for other, _ in self.seen):
                self.seen.append((scheduler, now))
            self.seen = [(s, now if s is scheduler else t) for s, t in self.seen]
            return actions

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Scheduler, "handle", recorded)
            yield

    def add(self, *things: Any) -> None:
        self.events += 1
        for thing in things:
            self.sum.update(plain(thing))

    def digest(self) -> str:
        """With the reasons that people are given for each job: codes and figures, not words."""
        for scheduler, now in self.seen:
            for job in scheduler.state.jobs.values():
                told = [(d.time_s, d.what, _said(d.reason)) for d in job.decisions]
                why = [_said(reason) for reason in explain(scheduler, job, now)]
                self.add(job.id, str(job.state), job.holds(), told, why)
        return self.sum.hexdigest()[:12]


def _said(reason: Reason) -> tuple[str, dict[str, Any]]:
    return reason.code, dict(reason.figures)


def known() -> dict[str, str]:
    """Test -> digest."""
    found: dict[str, str] = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    return found


def write(digests: dict[str, str]) -> None:
    """Keep them."""
    RECORDED.write_text(json.dumps(digests, indent=0, sort_keys=True) + "\n")
