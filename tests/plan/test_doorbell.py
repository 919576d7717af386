"""Processes that sleep until another one rings."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from resize_lib import doorbell as module
from resize_lib.doorbell import NO_NAME, SOON_S, Doorbell, doorbell

LONG_S = 20.0


def in_child(story: Callable[[], bool]) -> int:
    """Start a process that ends with 0 if ``story`` is true; returns its pid."""
    child = os.fork()
    if child:
        return child
    try:
        os._exit(0 if story() else 1)
    finally:
        os._exit(2)


def ended_well(child: int) -> bool:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_who_sleeps_is_woken_up_by_name(pipe: tuple[int, int]) -> None:
    def sleeps() -> bool:
        bell = doorbell()
        os.write(pipe[1], bell.name)
        bell.sleeper()(LONG_S)
        return bell.heard

    child = in_child(sleeps)
    name = os.read(pipe[0], 100)
    assert name not in (NO_NAME, doorbell().name)
    doorbell().ring([NO_NAME, name])
    assert ended_well(child)


def test_a_ring_that_comes_before_the_sleep_is_heard() -> None:
    one, other = Doorbell(), Doorbell()
    other.ring([one.name])
    one.sleeper()(LONG_S)
    assert one.heard


def test_without_a_ring_it_sleeps_its_time_and_knows_that_nobody_rang() -> None:
    bell, begun_s = Doorbell(), time.monotonic()
    heard = [bell.heard]  # at first nothing speaks against it
    bell.sleeper()(0.05)
    assert time.monotonic() - begun_s >= 0.05
    heard.append(bell.heard)
    Doorbell().ring([bell.name])
    bell.sleeper()(LONG_S)
    assert [*heard, bell.heard] == [True, False, True]


def test_after_a_ring_a_wait_looks_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    bell = Doorbell()
    Doorbell().ring([bell.name])
    sleep = bell.sleeper()
    sleep(LONG_S)
    sleep(LONG_S)
    sleep(SOON_S / 2)
    assert slept == [SOON_S, SOON_S / 2]
    assert bell.heard


def test_who_rings_never_waits() -> None:
    bell = Doorbell()
    Doorbell().ring([bell.name] * 1000 + [os.urandom(16)] * 10)
    bell.sleeper()(LONG_S)
    assert bell.heard


def test_one_that_is_gone_cannot_be_rung() -> None:
    gone = Doorbell().name
    Doorbell().ring([gone])


def test_a_forked_child_has_its_own(pipe: tuple[int, int]) -> None:
    mine = doorbell()

    def child() -> bool:
        own = doorbell()
        own.ring([mine.name])
        return own.name not in (mine.name, NO_NAME)

    assert ended_well(in_child(child))
    mine.sleeper()(LONG_S)
    assert mine.heard


def no_sockets(*_: object) -> None:
    raise PermissionError("not here")


class Far(socket.socket):
    """A socket in a program with a thousand open files."""

    def fileno(self) -> int:
        return module.FD_MAX + 1


@pytest.mark.parametrize("made", [no_sockets, Far])
def test_where_there_can_be_none_it_sleeps_its_time(
    monkeypatch: pytest.MonkeyPatch, made: Callable[..., object]
) -> None:
    monkeypatch.setattr(socket, "socket", made)
    monkeypatch.setattr(select, "select", None)
    bell = Doorbell()
    monkeypatch.undo()
    assert bell.name == NO_NAME
    assert not bell.heard
    begun_s = time.monotonic()
    bell.sleeper()(0.02)
    assert time.monotonic() - begun_s >= 0.02
    bell.ring([doorbell().name])  # cannot
    assert not bell.heard


def test_programs_that_it_starts_do_not_hear_for_it() -> None:
    bell = Doorbell()
    assert bell._socket is not None
    assert not os.get_inheritable(bell._socket.fileno())
