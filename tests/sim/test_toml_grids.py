"""Hand-written workloads with several grids per size: `dq sim run FILE.toml --policy reshape`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dq_server.core.model.sizes import Configuration
from dq_server.core.settings import configured, named_config
from dq_server.sim.applications import Application, Iterating
from dq_server.sim.engine import Simulation
from dq_server.sim.errors import WorkloadError
from dq_server.sim.records import SimulatedJobs
from dq_server.sim.toml_workload import read_toml

JOB = """
[[job]]
kind = "malleable"
iterations = 60
sizes = [2, "2x2", "1x4", "2x4", "1x8"]
times_s = { 2 = 10, 4 = 6, 2x4 = 5.9, 1x8 = 3 }
redistribution_s = 1
"""


def run(path: Path, text: str, **config: Any) -> tuple[list[str], SimulatedJobs]:
    """The grids that the job computed on, and the records."""
    path.write_text(text)
    workload = read_toml(path)
    listed, visited = workload.jobs[0], list[str]()

    def watched() -> Application:
        application = listed.make()
        assert isinstance(application, Iterating)
        time_s = application.iteration_s

        def noted(at: Configuration) -> float:
            visited.append(str(at))
            return time_s(at)

        application.iteration_s = noted
        return application

    workload.jobs[0] = replace(listed, make=watched)
    records = Simulation(workload, 8, configured(named_config("reshape"), **config)).run()
    return visited, records


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    return tmp_path / "jobs.toml"


def test_1x8_beats_2x4_and_is_found(toml: Path) -> None:
    visited, records = run(toml, JOB)
    assert visited == ["1x2", "2x2", "1x4", "2x2", "2x4", "1x8"]
    found = records.metrics()
    assert (found["expands"], found["shrinks"], found["regrids"]) == (2, 0, 3)
    assert records.end_s[0] < run(toml, JOB, grids="never")[1].end_s[0]


def test_a_chain_of_first_grids_ends_before_it(toml: Path) -> None:
    visited, _ = run(toml, JOB, grids="never")
    assert visited == ["1x2", "2x2", "2x4", "2x2"]


def test_the_time_of_a_size_is_that_of_all_its_grids(toml: Path) -> None:
    visited, _ = run(toml, JOB.replace("2x4 = 5.9, 1x8 = 3", "8 = 5, 1x8 = 7"))
    assert visited[-3:] == ["2x4", "1x8", "2x4"]


def test_a_job_with_a_run_time_alone_takes_grids_too(toml: Path) -> None:
    text = '[[job]]\nkind = "malleable"\nrun_s = 600\nsizes = ["1x4", "2x2", 8]\n'
    visited, _ = run(toml, text)
    assert visited == ["1x4", "2x2", "1x4", "2x4"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"2x2"', '"2x"', "'2x' is no size"),
        ('"2x2"', '"0x4"', "at least one row"),
        ('"2x2"', "2.5", "a list of whole numbers from 1, or grids"),
        ("1x8 = 3", "8x1 = 3", "8x1 is not among the grids"),
        (", 1x8 = 3", "", "no time for .'1x8'."),
        ('"malleable"', '"moldable"', "1x4 is a second grid of its size: only a malleable job"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    toml: Path, old: str, new: str, words: str
) -> None:
    toml.write_text(JOB.replace(old, new))
    with pytest.raises(WorkloadError, match=words) as refused:
        read_toml(toml)
    assert "\n" not in str(refused.value)
