"""The pacer and the link model, on clocks of our own."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from resize_lib.emulation import link as link_module
from resize_lib.emulation import pacing
from resize_lib.emulation.link import Link
from resize_lib.emulation.pacing import LATE_S_MAX, SharePacer


class Clock:
    """Wall-clock and processor time that only `compute`, `stall` and sleeping move."""

    def __init__(self) -> None:
        self.wall_s = self.cpu_s = 100.0
        self.module = SimpleNamespace(
            perf_counter=lambda: self.wall_s,
            monotonic=lambda: self.wall_s,
            thread_time=lambda: self.cpu_s,
            sleep=self.stall,
        )

    def compute(self, seconds: float) -> None:
        self.wall_s += seconds
        self.cpu_s += seconds

    def stall(self, seconds: float) -> None:
        assert seconds >= 0
        self.wall_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(pacing, "time", clock.module)
    monkeypatch.setattr(link_module, "time", clock.module)
    return clock


def warm(share: float) -> SharePacer:
    """A pacer whose first section, which is not charged, is over."""
    pacer = SharePacer(share)
    with pacer.section():
        pass
    return pacer


def test_sections_take_cpu_over_share(clock: Clock) -> None:
    pacer = warm(0.05)
    begin = clock.wall_s
    for _ in range(10):
        with pacer.section():
            clock.compute(0.01)
    assert clock.wall_s - begin == pytest.approx(10 * 0.01 / 0.05)


def test_the_first_section_is_free(clock: Clock) -> None:
    pacer = SharePacer(0.05)
    begin = clock.wall_s
    with pacer.section():
        clock.compute(1.0)
    assert clock.wall_s - begin == pytest.approx(1.0)


def test_what_a_busy_machine_delays_is_caught_up(clock: Clock) -> None:
    pacer = warm(0.1)
    begin = clock.wall_s
    with pacer.section():
        clock.compute(0.01)
        clock.stall(0.15)  # no core was free: 0.06 s late
    for _ in range(3):
        with pacer.section():
            clock.compute(0.01)
    assert clock.wall_s - begin == pytest.approx(4 * 0.1)


def test_only_one_stall_is_caught_up(clock: Clock) -> None:
    pacer = warm(0.1)
    with pacer.section():
        clock.stall(10.0)
    begin = clock.wall_s
    with pacer.section():
        clock.compute(0.1)
    assert clock.wall_s - begin == pytest.approx(1.0 - LATE_S_MAX)


def test_tiny_sections_add_up(clock: Clock) -> None:
    pacer = warm(0.05)
    begin = clock.wall_s
    for _ in range(1000):
        with pacer.section():
            clock.compute(1e-6)
    assert clock.wall_s - begin == pytest.approx(1000 * 1e-6 / 0.05, rel=0.02)


def test_an_application_that_marks_nothing_is_paced_per_iteration(clock: Clock) -> None:
    pacer = warm(0.1)
    begin = clock.wall_s
    pacer.begin_iteration()
    clock.compute(0.02)
    clock.compute(0.005)  # within MPI
    pacer.exclude(0.005)
    clock.stall(0.5)  # waiting for messages is no computing
    pacer.end_iteration()
    assert clock.wall_s - begin == pytest.approx(0.005 + 0.5 + 0.02 / 0.1)


def test_an_application_that_marks_its_sections_is_not_paced_twice(clock: Clock) -> None:
    pacer = warm(0.1)
    pacer.begin_iteration()
    with pacer.section():
        clock.compute(0.02)
    begin = clock.wall_s
    clock.compute(0.5)
    pacer.end_iteration()
    assert clock.wall_s - begin == pytest.approx(0.5)


@pytest.mark.parametrize("share", [0.0, -1.0, 1.1])
def test_senseless_shares_are_refused(share: float) -> None:
    with pytest.raises(ValueError, match="share"):
        SharePacer(share)


MEGABYTE = 1_000_000  # 8 ms at 1000 Mbit/s


def test_messages_leave_one_after_the_other(clock: Clock) -> None:
    link = Link(1000, 50)
    leaves = [link.send(MEGABYTE) - clock.wall_s for _ in range(3)]
    assert leaves == pytest.approx([0, 0.008, 0.016])


def test_messages_arrive_one_after_the_other(clock: Clock) -> None:
    link, now_s = Link(1000, 50), clock.wall_s
    arrivals = [link.receive(now_s, MEGABYTE) - now_s for _ in range(3)]
    assert arrivals == pytest.approx([0.00805, 0.01605, 0.02405])


def test_full_duplex_sends_while_it_receives_and_half_duplex_does_not(clock: Clock) -> None:
    for duplex, expected_s in (("full", 0.00805), ("half", 0.016)):
        link, now_s = Link(1000, 50, duplex), clock.wall_s
        link.send(MEGABYTE)
        assert link.receive(now_s, MEGABYTE) - now_s == pytest.approx(expected_s, abs=1e-4)


def test_an_exchange_is_bound_by_its_busier_direction() -> None:
    assert Link(1000, 50).bulk_s(MEGABYTE, 2 * MEGABYTE, 1) == pytest.approx(0.01605)
    assert Link(1000, 50, duplex="half").bulk_s(MEGABYTE, 2 * MEGABYTE, 1) == pytest.approx(0.02405)


def test_collectives_grow_with_the_levels_of_a_tree() -> None:
    link = Link(1000, 50)
    one, two, five = (link.collective_s(MEGABYTE, size) for size in (1, 2, 20))
    assert one == 0
    assert five == pytest.approx(5 * two)


class Hub:
    """A shared medium on the clock of a test."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.free_s = clock, 0.0

    def take(self, duration_s: float) -> float:
        begin_s = max(self.clock.wall_s, self.free_s)
        self.free_s = begin_s + duration_s
        return begin_s


def test_on_a_hub_all_nodes_take_turns(clock: Clock) -> None:
    hub, now_s = Hub(clock), clock.wall_s
    links = [Link(1000, 50, "shared", medium=hub) for _ in range(3)]
    leaves = [link.send(MEGABYTE) for link in links]
    assert [s - now_s for s in leaves] == pytest.approx([0, 0.008, 0.016])
    assert links[0].receive(leaves[2], MEGABYTE) - now_s == pytest.approx(0.02405)
