"""When a batch of the journal must reach the disk before anybody is told."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dq_server.core.model import events as ev
from dq_server.core.model.actions import Action, AnswerRemap, JobAccepted
from dq_server.core.model.jobs import Answer, Remap
from dq_server.core.model.reasons import because
from dq_server.core.model.sizes import configuration
from dq_server.live.store.journal import Journal, event_as_json

STAY = Answer(1, Remap.CONTINUE, 0, (), configuration(1), because("not_malleable", kind="rigid"))
CONTINUES: list[Action] = [AnswerRemap(1, 1, STAY)]
ACCEPTED: list[Action] = [JobAccepted(1)]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "journal.sqlite")
    yield made
    made.close()


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Descriptors that were flushed."""
    found: list[int] = []
    monkeypatch.setattr(os, "fdatasync", found.append)
    return found


def add(journal: Journal, actions: list[Action], event: ev.Event = ev.Tick()) -> None:  # noqa: B008
    journal.append(1.0, event, event_as_json(event), actions)


@pytest.mark.parametrize(
    ("batch", "times"),
    [
        ([CONTINUES], 0),  # nobody acts on it: another look gets the same answer
        ([[]], 0),
        ([ACCEPTED], 1),
        ([CONTINUES, ACCEPTED], 1),
        ([ACCEPTED, CONTINUES], 1),
        ([[*ACCEPTED, *CONTINUES]], 1),
    ],
)
def test_a_batch_is_flushed_if_somebody_acts_on_any_of_its_events(
    journal: Journal, flushed: list[int], batch: list[list[Action]], times: int
) -> None:
    for actions in batch:
        add(journal, actions)
    journal.commit()
    assert len(flushed) == times
    add(journal, CONTINUES)
    journal.commit()
    assert len(flushed) == times, "the next batch is judged anew"


def test_a_batch_that_is_forgotten_leaves_nothing_to_flush(
    journal: Journal, flushed: list[int]
) -> None:
    add(journal, ACCEPTED)
    journal.rollback()
    add(journal, CONTINUES)
    journal.commit()
    assert flushed == []


@pytest.mark.parametrize(
    ("event", "times"),
    [
        (ev.RestartReady(1, 1, 1), 1),  # its ranks end when they hear that it is known
        (ev.WorkDone(1, 1), 1),
        (ev.ResizeRequested(1, 2), 1),  # a user was told that it will be done
        (ev.ResizeCommitted(1, 1, 1), 0),  # the next remap point says so, too, or the farewell
        (ev.ProcessorsVacated(1, (0,)), 0),
    ],
)
def test_a_word_that_nobody_says_again_is_flushed(
    journal: Journal, flushed: list[int], event: ev.Event, times: int
) -> None:
    add(journal, [], event)
    journal.commit()
    assert len(flushed) == times
