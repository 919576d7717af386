"""Snapshots that are made in a copy of the server, while it serves."""

from __future__ import annotations

import fcntl
import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from dq_server.core.model import events as ev
from dq_server.core.scheduler import Scheduler
from dq_server.live.store import snapshot, snapshot_policy
from dq_server.live.store.journal import Journal
from dq_server.live.store.recovery import restored
from dq_server.live.store.snapshot_policy import ForkedSnapshot, ForkedSnapshotError, SnapshotPolicy

Kept = tuple[Journal, Scheduler, SnapshotPolicy]


def made(forked: ForkedSnapshot) -> bytes:
    while (body := forked.poll()) is None:
        time.sleep(0.01)
    return body


def long_work() -> bytes:
    time.sleep(600)
    return b""


OTHERS: set[int] = set()  # children that other tests have left to this process


@pytest.fixture(autouse=True)
def others() -> None:
    OTHERS.clear()
    OTHERS.update(child.pid for child in psutil.Process().children())


def no_child_left() -> bool:
    """No copy of this process. Others may be there: multiprocessing keeps one for its resources."""
    me = psutil.Process()
    new = [child for child in me.children() if child.pid not in OTHERS]
    return not [c for c in new if c.status() == psutil.STATUS_ZOMBIE or c.cmdline() == me.cmdline()]


def test_the_copy_sees_the_state_as_it_was(tmp_path: Path) -> None:
    state = ["then"] * 200_000
    forked = ForkedSnapshot(lambda: "".join(state).encode())
    state[:] = ["now"]
    assert made(forked) == b"then" * 200_000
    assert no_child_left()


def test_work_that_fails_is_heard_of() -> None:
    with pytest.raises(ForkedSnapshotError):
        made(ForkedSnapshot(lambda: b"x"[1:2] + bytes(int("no number"))))
    assert no_child_left()


def test_work_that_is_not_wanted_any_more_ends() -> None:
    ForkedSnapshot(long_work).kill()
    assert no_child_left()


def test_a_lock_of_the_server_does_not_outlive_it_in_the_copy(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    held = os.open(path, os.O_CREAT | os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    forked = ForkedSnapshot(long_work)
    os.close(held)
    again = os.open(path, os.O_RDWR)
    while True:  # until the copy has come so far; the test's limit ends it otherwise
        try:
            fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            time.sleep(0.01)
    forked.kill()
    os.close(again)


def seq_of(journal: Journal) -> int:
    """Of its snapshot, which there must be."""
    found = journal.load_snapshot()
    assert found is not None
    return found[0]


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    """A journal, a scheduler with a node, and a clock by which everything takes long."""
    journal = Journal(tmp_path / "journal")
    scheduler = Scheduler()
    scheduler.handle(ev.NodeJoined("n1", 4), 1.0)
    clock = itertools.count(0.0, 1000.0)
    yield journal, scheduler, SnapshotPolicy(journal, lambda: next(clock))
    journal.close()


def test_a_snapshot_that_takes_long_is_forked(kept: Kept) -> None:
    journal, scheduler, policy = kept
    policy.take(1, scheduler, 1.0)
    assert (policy.kept, seq_of(journal)) == (1, 1)
    seq = 1 + snapshot_policy.EVENTS_MAX
    policy.take_if_due(seq, scheduler, 1.0)
    expected = snapshot.encode(scheduler, 1.0)
    scheduler.handle(ev.NodeJoined("n2", 4), 2.0)  # too late for this one
    while policy.kept == 1:
        policy.take_if_due(seq + 1, scheduler, 2.0)
        time.sleep(0.01)
    assert journal.load_snapshot() == (seq, expected)
    again, time_s, after = restored(journal)
    assert (list(again.state.processors.nodes), time_s, after) == (["n1"], 1.0, seq)
    assert no_child_left()


def test_the_last_snapshot_is_made_at_once_whatever_is_forked(kept: Kept) -> None:
    journal, scheduler, policy = kept
    policy.take(1, scheduler, 1.0)
    policy.take_if_due(1 + snapshot_policy.EVENTS_MAX, scheduler, 1.0)
    policy.take(2 + snapshot_policy.EVENTS_MAX, scheduler, 2.0)
    assert no_child_left()
    assert seq_of(journal) == policy.kept == 2 + snapshot_policy.EVENTS_MAX


def test_a_copy_that_takes_too_long_is_replaced_by_a_snapshot_made_at_once(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine without a processor for it, events since the last snapshot would pile up."""
    journal, scheduler, policy = kept
    policy.take(1, scheduler, 1.0)
    begun = 1 + snapshot_policy.EVENTS_MAX
    with monkeypatch.context() as patched:
        patched.setattr(snapshot, "encode", lambda *_: long_work())
        policy.take_if_due(begun, scheduler, 1.0)
    policy.take_if_due(begun + snapshot_policy.EVENTS_MAX - 1, scheduler, 1.0)
    assert policy.kept == 1, "it is waited for"
    policy.take_if_due(begun + snapshot_policy.EVENTS_MAX, scheduler, 1.0)
    assert seq_of(journal) == policy.kept == begun + snapshot_policy.EVENTS_MAX
    assert no_child_left()
