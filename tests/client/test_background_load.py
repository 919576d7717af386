"""What an agent says of processes outside DQ: measured twice before it counts, its own left out."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dq_client.base.home import Home, created_s, machine, write_private
from dq_client.node.agent.background import BackgroundMeter, Used, busy_s, own_s, processes_of

SPIN = "import time\nwhile time.process_time() < {}: pass"


class Measured:
    """A load whose measurements are given: (by others, by DQ's own processes), each for 2 s."""

    def __init__(self, tmp_path: Path) -> None:
        self.now = self.busy_s = self.own_s = 0.0
        self.load = BackgroundMeter(Home(tmp_path), measure=lambda _: self.used())
        self.load.look(0.0, [])

    def used(self) -> Used:
        return Used(self.now, self.busy_s, self.own_s)

    def after(self, others: float, own: float = 0.0) -> float:
        self.now += 2.0
        self.busy_s += 2.0 * (others + own)
        self.own_s += 2.0 * own
        return self.load.look(self.now, [])


@pytest.fixture
def measured(tmp_path: Path) -> Measured:
    return Measured(tmp_path)


def test_a_step_counts_when_it_was_measured_twice(measured: Measured) -> None:
    assert [measured.after(2.0) for _ in range(3)] == [0.0, 2.0, 2.0]
    assert [measured.after(0.1) for _ in range(3)] == [2.0, 0.1, 0.1]


def test_what_comes_and_goes_is_nothing(measured: Measured) -> None:
    assert [measured.after(load) for load in (3.0, 0.0, 3.0, 0.2, 4.0, 0.4)] == [0.0] * 6


def test_of_two_steps_the_smaller_one_is_certain(measured: Measured) -> None:
    assert [measured.after(load) for load in (4.0, 1.0, 1.0)] == [0.0, 1.0, 1.0]
    assert [measured.after(load) for load in (3.0, 8.0, 5.0, 5.0)] == [1.0, 1.0, 5.0, 5.0]


def test_what_was_seen_in_part_first_is_told_whole_and_so_is_its_end(measured: Measured) -> None:
    """Told as 0.5, it would never have been told to be gone: to 0.1 is too small a step."""
    assert [measured.after(load) for load in (0.52, 1.0, 1.0)] == [0.0, 0.0, 1.0]
    assert [measured.after(load) for load in (0.45, 0.1, 0.1)] == [1.0, 1.0, 0.1]


def test_small_steps_are_not_told(measured: Measured) -> None:
    assert [measured.after(load) for load in (0.4, 0.3, 0.45, 0.49)] == [0.0] * 4


def test_the_own_processes_are_left_out(measured: Measured) -> None:
    assert [measured.after(0.0, own=8.0) for _ in range(3)] == [0.0] * 3
    assert [measured.after(1.0, own=8.0) for _ in range(2)] == [0.0, 1.0]


def test_processes_that_took_with_them_what_they_had_used_are_no_load(measured: Measured) -> None:
    measured.after(0.0, own=4.0)
    measured.own_s -= 5.0  # nobody has asked for their end
    measured.after(0.0, own=4.0)
    assert [measured.after(0.0, own=4.0) for _ in range(3)] == [0.0] * 3


def test_between_jobs_nothing_is_measured(measured: Measured) -> None:
    measured.after(2.0)
    measured.load.forget()
    measured.now, measured.busy_s = measured.now + 100.0, measured.busy_s + 400.0
    assert measured.load.look(measured.now, []) == 0.0
    assert [measured.after(2.0) for _ in range(2)] == [0.0, 2.0]


def test_it_is_measured_every_two_seconds_at_most(tmp_path: Path) -> None:
    looks = list[float]()

    def measure(roots: object) -> Used:
        looks.append(1.0)
        return Used(0.0, 0.0, 0.0)

    load = BackgroundMeter(Home(tmp_path), measure=measure)
    for tenth in range(100):
        load.look(tenth / 10, [])
    assert len(looks) == 5


def test_a_measurement_that_takes_long_is_made_seldom(tmp_path: Path) -> None:
    looks = list[float]()

    def measure(roots: object) -> Used:
        looks.append(1.0)
        time.sleep(0.05)
        return Used(0.0, 0.0, 0.0)

    load = BackgroundMeter(Home(tmp_path), measure=measure)
    for second in range(24):
        load.look(second, [])
    assert len(looks) == 1, "0.05 s are a share of more than 24"


@pytest.fixture
def parent() -> Iterator[int]:
    """A process with a child that computes for 0.3 s, and one that it has waited for."""
    program = (
        "import subprocess, sys, time\n"
        f"spin = [sys.executable, '-c', {SPIN.format(0.3)!r} + '\\nimport time; time.sleep(600)']\n"
        f"done = [sys.executable, '-c', {SPIN.format(0.3)!r}]\n"
        "subprocess.run(done); child = subprocess.Popen(spin); print('go', flush=True)\n"
        "time.sleep(600)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None and process.stdout.readline() == b"go\n"
    yield process.pid
    os.killpg(process.pid, 9)
    process.wait()
    process.stdout.close()


def test_descendants_count_and_what_was_waited_for(parent: int) -> None:
    until_s = time.monotonic() + 60.0
    while own_s([parent]) < 0.5 and time.monotonic() < until_s:
        time.sleep(0.05)
    assert own_s([parent]) >= 0.5
    assert own_s([2**22 + 1]) == 0.0, "there is no such process"


def test_cores_are_busy_while_something_computes() -> None:
    cores = os.sched_getaffinity(0)
    before_s = busy_s(cores)
    subprocess.run([sys.executable, "-c", SPIN.format(0.5)], check=True)
    assert busy_s(cores) >= before_s + 0.4
    assert busy_s([100_000]) == 0.0


def test_agents_of_the_same_home_are_no_strangers(tmp_path: Path) -> None:
    home, me = Home(tmp_path), os.getpid()
    assert processes_of(home) == set()
    info = f'{{"pid": {me}, "create_time": {created_s(me)}, "machine": "{machine()}"}}'
    write_private(home.agent("n1") / "agent.json", info)
    write_private(home.agent("n2") / "agent.json", info.replace(machine(), "another"))
    assert processes_of(home) == {me}
