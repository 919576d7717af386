"""Jobs of workers in the simulation: they fill what is idle, and change nobody's start."""

from __future__ import annotations

from pathlib import Path

import pytest

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.settings import configured
from dq_server.sim.engine import Simulation
from dq_server.sim.errors import WorkloadError
from dq_server.sim.records import SimulatedJobs
from dq_server.sim.toml_workload import read_toml

OTHERS = """
[[job]]
processors = 6
run_s = 10
submit_s = 5
[[job]]
processors = 4
run_s = 20
submit_s = 8
"""
CREW = """
[[job]]
kind = "workers"
max = 8
work_s = 100
"""


def simulated(tmp_path: Path, text: str, **config: object) -> SimulatedJobs:
    file = tmp_path / "jobs.toml"
    file.write_text(text)
    return Simulation(read_toml(file), 8, configured(SchedulerConfig(), **config)).run()


def test_the_work_is_done_with_what_is_left_over(tmp_path: Path) -> None:
    """8 workers for 5 s, 2 for 10 s, then 4: 40 + 20 of 100 by 15 s, the rest by 25 s."""
    records = simulated(tmp_path, CREW + OTHERS)
    assert records.end_s.tolist() == [25.0, 15.0, 35.0]
    assert records.start_s.tolist() == [0.0, 5.0, 15.0]
    sizes = [(r.time_s, r.before, r.size) for r in records.resizes[0]]
    assert sizes == [(0.0, 0, 8), (5.0, 8, 2), (15.0, 2, 4)]


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
def test_the_others_run_as_if_there_were_no_workers(tmp_path: Path, policy: str) -> None:
    alone = simulated(tmp_path, OTHERS, start=policy)
    beside = simulated(tmp_path, OTHERS + CREW.replace("100", "10000"), start=policy)
    at = [k for k, end_s in enumerate(beside.end_s) if end_s < 1000]
    assert [beside.start_s[k] for k in at] == alone.start_s.tolist()


def test_one_that_is_killed_without_a_worker_is_over_at_once(tmp_path: Path) -> None:
    full = "[[job]]\nprocessors = 8\nrun_s = 50\n"
    records = simulated(tmp_path, full + CREW + "walltime_s = 20\n")
    assert records.end_s.tolist() == [50.0, 20.0]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("max = 8", "max = 0"), "at least 1 as the larger"),
        (("work_s = 100", ""), "has max, and work_s"),
        (("max = 8", "max = 8\nrun_s = 3"), "run_s: not for a job of workers"),
        (('kind = "workers"', 'kind = "rigid"'), "work_s: for jobs of kind"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, change: tuple[str, str], why: str) -> None:
    with pytest.raises(WorkloadError, match=why):
        simulated(tmp_path, CREW.replace(*change))
