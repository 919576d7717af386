"""The one way in which resize_lib waits, on a clock of its own."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest
from mpi4py import MPI

from resize_lib import waiting


class Clock:
    """Time that passes by sleeping, yielding (5 µs) and testing (1 µs)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s, self.yields = 0.0, 0
        self.sleeps: list[float] = []
        monkeypatch.setattr(time, "perf_counter", lambda: self.now_s)
        monkeypatch.setattr(time, "sleep", self.sleep)
        monkeypatch.setattr(os, "sched_yield", self.give_way)

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now_s += seconds

    def give_way(self) -> None:
        self.yields += 1
        self.now_s += 5e-6

    def until(self, end_s: float) -> bool:
        """A test that is true from then on."""
        self.now_s += 1e-6
        return self.now_s >= end_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_what_is_there_already_costs_no_pause(clock: Clock) -> None:
    assert waiting.wait_until(lambda: "found") == "found"
    assert not clock.sleeps
    assert not clock.yields


def test_a_short_wait_never_sleeps(clock: Clock) -> None:
    waiting.wait_until(lambda: clock.until(50e-6))
    assert clock.yields
    assert not clock.sleeps


@pytest.mark.parametrize("wait_s", [1e-3, 20e-3, 1.0, 30.0])
def test_sleeps_grow_and_no_wait_ends_late_by_more_than_a_fraction(
    clock: Clock, wait_s: float
) -> None:
    waiting.wait_until(lambda: clock.until(wait_s))
    assert clock.sleeps == sorted(clock.sleeps)
    assert_not_late(clock, wait_s, waiting.USUAL)


def assert_not_late(clock: Clock, wait_s: float, pace: waiting.Pace) -> None:
    """A wait of ``wait_s`` has slept as ``pace`` says, and has ended in time."""
    assert min(clock.sleeps) == pace.sleep_s_min
    assert max(clock.sleeps) <= waiting.SLEEP_S_MAX
    assert clock.now_s - wait_s <= max(wait_s * pace.fraction, pace.sleep_s_min) + 1e-5


def test_with_a_core_for_each_rank_a_wait_of_a_millisecond_never_sleeps(clock: Clock) -> None:
    waiting.wait_until(lambda: clock.until(1e-3), waiting.ROOMY)
    assert not clock.sleeps


def test_a_long_wait_tests_seldom(clock: Clock) -> None:
    waiting.wait_until(lambda: clock.until(10.0))
    assert len(clock.sleeps) < 10.0 / waiting.SLEEP_S_MAX + 1000


class Looks:
    """A keeper that says at a given time that a rank was lost."""

    def __init__(self, clock: Clock, lost_s: float) -> None:
        self.clock, self.lost_s = clock, lost_s
        self.times: list[float] = []

    def __call__(self) -> None:
        self.times.append(self.clock.now_s)
        if self.clock.now_s >= self.lost_s:
            raise waiting.RankLost(7)


def test_a_watched_wait_ends_when_a_rank_was_lost(clock: Clock) -> None:
    look = Looks(clock, 1.0)
    with pytest.raises(waiting.RankLost) as lost, waiting.watched(look):
        try:
            waiting.wait_until(lambda: clock.until(30.0))
        except Exception:  # an application's or this library's own: it is not for them
            pytest.fail("taken for an error")
    assert lost.value.number == 7
    assert clock.now_s < 1.0 + 2 * waiting.LOOK_EVERY_S


def test_looks_are_seldom_and_never_in_a_short_wait(clock: Clock) -> None:
    look = Looks(clock, 1e9)
    with waiting.watched(look):
        waiting.wait_until(lambda: clock.until(waiting.LOOK_EVERY_S / 2))
        assert not look.times
        waiting.wait_until(lambda: clock.until(2.0))
    assert 0.5 < len(look.times) * waiting.LOOK_EVERY_S / 2.0 <= 1.0


def test_only_waits_that_are_watched_look(clock: Clock) -> None:
    look = Looks(clock, 0.0)
    with waiting.watched(look), waiting.watched(None):
        waiting.wait_until(lambda: clock.until(1.0))
        waiting.look_for_losses()
    waiting.wait_until(lambda: clock.until(2.0))
    waiting.look_for_losses()
    assert not look.times
    with waiting.watched(look), pytest.raises(waiting.RankLost):
        waiting.look_for_losses()


class OneAtATime:
    """An MPI that takes in one message in a call, as MPICH does."""

    REQUEST_NULL = MPI.REQUEST_NULL

    class Request:
        @staticmethod
        def Testsome(requests: list[MPI.Request]) -> list[int] | None:  # noqa: N802 - MPI's
            left = [k for k, r in enumerate(requests) if r != MPI.REQUEST_NULL]
            if not left:
                return None
            requests[left[0]].Wait()
            return left[:1]


def test_a_look_takes_in_all_messages_that_have_come(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MPI", OneAtATime)
    comm = MPI.COMM_SELF
    values = np.arange(20)
    received = [comm.Irecv(values[k : k + 1], 0, k) for k in range(10)]
    sent = [comm.Isend(values[10 + k : 11 + k], 0, k) for k in reversed(range(10))]
    waiting.wait_all([MPI.REQUEST_NULL, *received, *sent])
    assert values[:10].tolist() == list(range(10, 20))
    assert not clock.sleeps
    assert not clock.yields
    waiting.wait_all([])
    waiting.wait_all([*received, *sent])  # done already
