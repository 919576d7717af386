"""How long rank 0 sleeps for ranks that are to join, and what wakes it up."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from resize_lib.processes import SpawnError
from resize_lib.processes.link import RankLink
from resize_lib.processes.own import Awaited, OwnBackend

WORLD = 7
LONG_S, SHORT_S = 60.0, 0.05
Awaiting = tuple[OwnBackend, socket.socket]


@pytest.fixture
def awaiting() -> Iterator[Awaiting]:
    """A backend that awaits two ranks, and its keeper's end of the link."""
    keeper, rank = socket.socketpair()
    backend = OwnBackend.__new__(OwnBackend)  # what a whole one does is for a process of its own
    backend._link = RankLink(rank)
    backend._awaited = Awaited(WORLD, 2, time.monotonic() + LONG_S, same_program=False)
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
