"""How long rank 0 sleeps for ranks that are to join, what wakes it up; and what those say."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from resize_lib.processes import SpawnError
from resize_lib.processes.link import RankLink
from resize_lib.processes.own import SOON_TOUCHED_S, Awaited, OwnBackend

WORLD = 7
LONG_S, SHORT_S = 60.0, 0.05
Awaiting = tuple[OwnBackend, socket.socket]


@pytest.fixture
def awaiting() -> Iterator[Awaiting]:
    """A backend that awaits two ranks, and its keeper's end of the link."""
    keeper, rank = socket.socketpair()
    backend = OwnBackend.__new__(OwnBackend)  # what a whole one does is for a process of its own
    backend._link = RankLink(rank)
    backend._awaited = Awaited(WORLD, 2, time.monotonic() + LONG_S)
    with keeper, rank:
        yield backend, keeper


def test_ranks_that_come_wake_it_up(awaiting: Awaiting) -> None:
    backend, keeper = awaiting
    news = b'{"ready": %d, "port": "p"}\n' % WORLD
    later = threading.Timer(SHORT_S, keeper.sendall, [news])
    later.start()
    began_s = time.monotonic()
    assert backend.expand_ready(LONG_S)
    assert time.monotonic() - began_s < LONG_S / 2, "it has not slept to the end"
    later.join()


def test_it_goes_on_without_those_that_are_late(awaiting: Awaiting) -> None:
    backend, keeper = awaiting
    began_s = time.monotonic()
    assert not backend.expand_ready(SHORT_S)
    assert time.monotonic() - began_s >= SHORT_S
    assert not backend.expand_ready()
    keeper.sendall(b'{"ready": %d, "port": "p"}\n' % WORLD)
    assert backend.expand_ready(), "they may come later"


def test_ranks_that_fail_wake_it_up_too(awaiting: Awaiting) -> None:
    backend, keeper = awaiting
    keeper.sendall(b'{"failed": %d, "why": "no such program"}\n' % WORLD)
    with pytest.raises(SpawnError, match="no such program"):
        backend.expand_ready(LONG_S)
    assert not backend.expand_ready(LONG_S), "nothing is awaited any more"


@pytest.mark.parametrize(
    ("left_s", "told_after"),
    [([1.0, 0.5, SOON_TOUCHED_S / 2, SOON_TOUCHED_S / 4, 0.0], 3), ([1.0, 0.5], 2), ([], 0)],
    ids=["while the last pieces are touched", "there is not enough memory", "nothing to touch"],
)
def test_a_rank_says_once_that_it_has_its_memory(
    awaiting: Awaiting, left_s: list[float], told_after: int
) -> None:
    backend, keeper = awaiting
    keeper.setblocking(False)
    said, heard_after = b"", []

    def hear(done: int) -> None:
        nonlocal said
        with suppress(BlockingIOError):
            said += keeper.recv(4096)
            heard_after.append(done)

    def rest() -> Iterator[float]:
        for done, seconds in enumerate(left_s):
            hear(done)
            yield seconds

    backend._touch("port", rest())
    hear(len(left_s))
    assert said.count(b"\n") == 1
    assert json.loads(said) == {"arrived": "port", "touched": True}
    assert heard_after == [told_after]
