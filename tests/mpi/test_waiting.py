"""The one way in which resize_lib waits, on a clock of its own."""

from __future__ import annotations

import os
import time

import pytest

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
    assert min(clock.sleeps) == waiting.SLEEP_S_MIN
    assert max(clock.sleeps) <= waiting.SLEEP_S_MAX
    late_s = clock.now_s - wait_s
    assert late_s <= max(wait_s * waiting.SLEEP_FRACTION, waiting.SLEEP_S_MIN) + 1e-5


def test_a_long_wait_tests_seldom(clock: Clock) -> None:
    waiting.wait_until(lambda: clock.until(10.0))
    assert len(clock.sleeps) < 10.0 / waiting.SLEEP_S_MAX + 1000
