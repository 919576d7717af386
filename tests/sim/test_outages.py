"""Outages in simulations: processors fail without notice, and jobs on them start again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from dq_server.core.policies.registry import SETS
from dq_server.core.settings import named_config
from dq_server.sim.cli import sim
from dq_server.sim.engine import Simulation
from dq_server.sim.errors import WorkloadError
from dq_server.sim.malleable import Malleability, MalleableWorkload
from dq_server.sim.study.file import read_study
from dq_server.sim.swf import write_swf
from dq_server.sim.workload import Outage, RigidWorkload
from harness.examples import examples

NODES = 8


def test_a_job_on_failed_processors_starts_again_and_others_go_on() -> None:
    # job 0 has processors 0 to 3, job 1 has 4 to 7; 0 to 3 fail from 50 s to 70 s
    jobs = RigidWorkload("log", [0, 0, 55], [100, 100, 10], [4, 4, 8], [100, 100, 10])
    outage = Outage(4, 50.0, 70.0)
    records = Simulation(jobs, NODES, named_config("easy"), outages=[outage]).run()
    assert list(records.start_s) == [70.0, 0.0, 170.0]
    assert list(records.end_s) == [170.0, 100.0, 180.0]
    assert records.notes["starts again, after its processors had failed"] == 1
    assert records.metrics()["failed"] == 0


@pytest.mark.parametrize("policy", ["easy", "conservative", "mebf-spare", "min-pool",
                                    "shortest-first", "easy+reshape"])  # fmt: skip
@given(
    drawn=st.lists(
        st.tuples(st.integers(0, 60), st.integers(1, 40), st.integers(1, NODES)),
        min_size=1, max_size=15,
    ),
    times=st.lists(st.integers(1, 100), min_size=4, max_size=4, unique=True),
    sizes=st.tuples(st.integers(1, NODES), st.integers(1, NODES)),
)  # fmt: skip
@settings(max_examples=examples(15), deadline=None)
def test_every_job_ends_and_none_runs_on_failed_processors(
    policy: str, drawn: Any, times: Any, sizes: Any
) -> None:
    assert policy in SETS or "+" in policy
    submit, run, size = zip(*sorted(drawn), strict=True)
    rigid = RigidWorkload("log", submit, run, size, run)
    jobs = MalleableWorkload(rigid, NODES, Malleability(0.5, iterations=5), seed=0)
    a, b, c, d = sorted(times)
    outages = [Outage(sizes[0], a, b), Outage(sizes[1], c, d)]
    simulation = Simulation(jobs, NODES, named_config(policy), outages=outages)
    records = simulation.run()
    simulation.scheduler.state.check()
    assert records.metrics()["jobs"] == len(rigid) and records.metrics()["failed"] == 0
    assert not simulation.scheduler.state.active and not simulation.scheduler.state.queue
    if all(outage.processors == NODES for outage in outages):
        for start_s, end_s in zip(records.start_s, records.end_s, strict=True):
            assert not any(start_s < o.end_s and o.start_s < end_s for o in outages)


STUDY = 'logs = ["a.swf"]\nnodes = 8\npolicies = ["easy"]\nshares = [0]\nseeds = 1\n'
OUTAGE = "[[outage]]\nprocessors = 4\nstart_s = 50\nduration_s = 20\n"


def study(folder: Path, text: str) -> Any:
    """The simulation of a study of one job of 100 s, submitted at 1,000 s on all processors."""
    write_swf(folder / "a.swf", [[1, 1000, -1, 100, 8, -1, -1, 8, 100, -1, 1, 1, *[-1] * 6]])
    (folder / "study.toml").write_text(text)
    (source,) = read_study(folder / "study.toml").sources
    return source.simulation(source.read()[0], named_config("easy"))


def test_outages_of_a_study_begin_so_long_after_the_first_submission(tmp_path: Path) -> None:
    records = study(tmp_path, STUDY + OUTAGE).run()
    assert (records.start_s[0], records.end_s[0]) == (1070.0, 1170.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (OUTAGE + OUTAGE.replace("50", "60"), "from 60 s on begins before the one from 50 s on"),
        (OUTAGE.replace("4", "9"), "processors = 9: the machine has 1 to 8"),
        (OUTAGE.replace("start_s = 50\n", ""), "start_s is missing"),
        (OUTAGE.replace("processors", "nodes"), "unknown key 'nodes'"),
        ("[outage]\nprocessors = 4\n", "write [[outage]], once for each"),
        ("dependencies = true\n" + OUTAGE, "not with [[outage]]"),
    ],
)
def test_an_outage_that_makes_no_sense(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        study(tmp_path, STUDY + text)
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_dq_sim_run_has_the_outages_of_a_study(tmp_path: Path) -> None:
    records = study(tmp_path, STUDY + OUTAGE).run()
    words = ["run", str(tmp_path / "a.swf"), "--nodes", "8", "--policy", "easy", "--json"]
    done = CliRunner().invoke(sim, [*words, "--outage", "4:50:20"])
    (run,) = json.loads(done.stdout)["runs"]
    assert run["mean_turnaround_s"] == records.metrics()["mean_turnaround_s"] == 170
    assert "1 jobs: starts again, after its processors had failed" in done.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--outage", "4:50"], "--outage 4:50: write COUNT:START:LENGTH"),
        (["--outage", "9:50:20"], "processors = 9: the machine has 1 to 8"),
        (["--outage", "4:50:20", "--outage", "4:60:20"], "from 60 s on begins before the one"),
        (["--outage", "4:50:20", "--dependencies"], "without --dependencies and without a pool"),
        (["--outage", "4:50:20", "--pool", "max=8"], "without --dependencies and without a pool"),
    ],
)
def test_an_outage_option_that_makes_no_sense(
    tmp_path: Path, options: list[str], says: str
) -> None:
    study(tmp_path, STUDY)
    words = ["run", str(tmp_path / "a.swf"), "--nodes", "8", "--policy", "easy", *options]
    done = CliRunner().invoke(sim, words)
    assert done.exit_code == 2 and not done.stdout
    assert says in done.stderr
