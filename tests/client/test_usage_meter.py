"""CPU time and memory of jobs as an agent measures them: by rank, and no second of it lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dq_client.base import messages as m
from dq_client.node.agent.usage import EVERY_S, Process, Rank, UsageMeter, below, process, processes

KEEPER, OTHER = 10, 50


class Machine:
    """Processes of the test: pid -> Process, and the ranks that say so."""

    def __init__(self, tmp_path: Path) -> None:
        self.table: dict[int, Process] = {1: Process(0, 1, 5.0, 7.0, 1000)}
        self.ranks: dict[int, Rank] = {}
        self.asked: list[int] = []
        self.folder = tmp_path
        self.trees: dict[str, Any] = {}
        self.meter = UsageMeter("n1", lambda: self.table, self.table.get, self.rank)
        self.now = 100.0

    def rank(self, pid: int) -> Rank | None:
        self.asked.append(pid)
        return self.ranks.get(pid)

    def tree(self, keeper: int, job: int, run: str = "") -> None:
        record = SimpleNamespace(job=job, instance=1, pid=keeper, ranks=not run)
        folder = self.folder / f"{job}.1{run}"
        self.trees[folder.name] = SimpleNamespace(record=record, folder=folder)
        self.runs(keeper, 1, cpu_s=3.0)

    def runs(
        self, pid: int, parent: int, cpu_s: float = 0.0, waited_s: float = 0.0, memory: int = 0
    ) -> None:
        self.table[pid] = Process(parent, 7, cpu_s, waited_s, memory)

    def look(self) -> dict[int, m.JobUsage]:
        self.now += EVERY_S
        return {row.job: row for row in self.meter.look(self.now, self.trees)}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_rank_has_what_it_started_and_a_job_all_of_it(machine: Machine) -> None:
    machine.tree(KEEPER, 3)
    machine.ranks = {11: ("n1", 0, 0), 12: ("", 0, 1)}
    machine.runs(11, KEEPER, 1.0, memory=100)
    machine.runs(12, KEEPER, 2.0, memory=200)
    machine.runs(13, 12, 4.0, waited_s=0.5, memory=30)  # says nothing of itself
    row = machine.look()[3]
    assert sorted(row.ranks, key=lambda r: r.rank) == [
        m.RankSample("n1", 0, 0, 1.0, 100),
        m.RankSample("n1", 0, 1, 6.5, 230),
    ]
    assert (row.cpu_s, row.memory, row.at_s) == (7.5, 330, machine.now)


def test_what_has_ended_still_counts(machine: Machine) -> None:
    """The kernel adds it to whoever waited: a rank for its children, the keeper for its ranks."""
    machine.tree(KEEPER, 3)
    machine.ranks = {11: ("n1", 0, 0)}
    machine.runs(11, KEEPER, 1.0)
    assert machine.look()[3].cpu_s == 1.0
    del machine.table[11]
    machine.runs(KEEPER, 1, 3.0, waited_s=1.25)
    row = machine.look()[3]
    assert (row.cpu_s, row.memory, row.ranks) == (1.25, 0, [])
    assert machine.meter.ended(machine.trees["3.1"]) == 1.25
    del machine.table[KEEPER]
    assert machine.meter.ended(machine.trees["3.1"]) == 1.25, "its keeper has gone since"


def test_a_job_that_was_never_measured_has_what_its_keeper_waited_for(machine: Machine) -> None:
    machine.tree(KEEPER, 3)
    machine.runs(KEEPER, 1, waited_s=0.75)
    assert machine.meter.ended(machine.trees["3.1"]) == 0.75


def test_a_proxy_that_ends_before_its_job_still_counts(machine: Machine) -> None:
    machine.tree(KEEPER, 3)
    machine.tree(OTHER, 3, ".run")
    machine.runs(51, OTHER, 2.0)
    machine.runs(11, KEEPER, 1.0)
    assert machine.look()[3].cpu_s == 3.0
    del machine.trees["3.1.run"], machine.table[OTHER], machine.table[51]
    assert machine.look()[3].cpu_s == 3.0
    del machine.trees["3.1"], machine.table[11]
    machine.tree(KEEPER, 4)
    machine.look()
    machine.tree(OTHER, 3)
    assert machine.look()[3].cpu_s == 0.0, "nothing is kept of a job that has gone"


def test_nothing_is_measured_too_often_or_without_jobs(machine: Machine) -> None:
    assert machine.look() == {}
    machine.tree(KEEPER, 3)
    machine.ranks = {11: ("n1", 0, 0)}
    machine.runs(11, KEEPER)
    assert list(machine.look()) == [3]
    assert machine.meter.look(machine.now + EVERY_S / 2, machine.trees) == []
    machine.look()
    assert machine.asked == [11], "an environment is read once"


def test_a_heartbeat_does_not_grow_without_bound(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.tree(KEEPER, 3)
    for n in range(m.USAGE_RANKS_MAX + 5):
        machine.ranks[100 + n] = ("n1", 0, n)
        machine.runs(100 + n, KEEPER, 1.0)
    row = machine.look()[3]
    assert (len(row.ranks), row.cpu_s) == (m.USAGE_RANKS_MAX, m.USAGE_RANKS_MAX + 5)


def test_parents_come_first_and_a_circle_ends(machine: Machine) -> None:
    table = {1: Process(2, 1, 0, 0, 0), 2: Process(1, 1, 0, 0, 0), 3: Process(2, 1, 0, 0, 0)}
    found = list(below(table, [1, 1, 99]))
    assert [pid for pid, _ in found][:2] == [1, 2]
    assert sorted(pid for pid, _ in found if pid == 3) == [3]


def test_the_kernels_figures_are_read() -> None:
    spin = "import time\nheld = bytearray(50 << 20)\nwhile time.process_time() < 0.3: pass\n"
    child = subprocess.Popen([sys.executable, "-c", spin + "input()"], stdin=subprocess.PIPE)
    try:
        while (found := process(child.pid)) is None or found.cpu_s < 0.25:
            pass
        assert found.parent == os.getpid() and found.memory > 50 << 20
        assert child.pid in processes()
    finally:
        child.communicate(b"\n")
    assert process(2**22 + 1) is None
    mine = process(os.getpid())
    assert mine is not None and mine.waited_s >= 0.25
