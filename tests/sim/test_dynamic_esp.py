"""The dynamic ESP benchmark: the generator against Table I, the experiment against Table II."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import JobKind
from dq_server.core.model.requests import DfsConfig
from dq_server.core.settings import named_config
from dq_server.sim.engine import Simulation
from dq_server.sim.evolving import Evolving
from dq_server.sim.workload import ListedJob, ListedWorkload
from experiments import dynamic_esp as experiment
from harness.generators.dynamic_esp import CORES, MORE, TABLE_I, EspOptions, dynamic_esp


def test_table_i_its_sizes_explain_its_dynamic_execution_times() -> None:
    for kind in TABLE_I:
        if kind.det_s is not None:
            assert kind.set_s * kind.size / (kind.size + MORE) == pytest.approx(kind.det_s, abs=1)


def test_the_workload_is_the_papers() -> None:
    jobs = dynamic_esp(0).jobs
    assert len(jobs) == 230
    assert Counter(j.spec.kind for j in jobs) == {JobKind.RIGID: 161, JobKind.EVOLVING: 69}
    assert Counter(j.spec.name for j in jobs) == {t.name: t.count for t in TABLE_I}
    assert [j.submit_s for j in jobs[48:52]] == [0, 0, 30, 60]
    assert jobs[227].submit_s == 178 * 30
    assert [(j.spec.name, j.submit_s) for j in jobs[228:]] == [("Z", 178 * 30 + 1800)] * 2
    assert {j.spec.initial.size for j in jobs if j.spec.name == "Z"} == {CORES}


def test_a_seed_is_an_order_and_the_same_one_each_time() -> None:
    def names(seed: int) -> Any:
        return [job.spec.name for job in dynamic_esp(seed).jobs]

    assert names(3) == names(3) != names(4)


def test_nothing_starts_while_a_z_job_waits() -> None:
    workload = dynamic_esp(1)
    config = experiment.config_of("Dyn-HP", experiment.Choices())
    records = Simulation(workload, CORES, config).run()
    z = [k for k, job in enumerate(workload.jobs) if job.spec.name == "Z"]
    submitted, last = workload.submit_s[z[0]], max(records.start_s[k] for k in z)
    between = [k for k in range(230) if submitted <= records.start_s[k] <= last]
    assert sorted(between) == z


@pytest.mark.full
def test_on_the_mean_the_papers_findings_hold_and_the_figures_are_all_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    experiment.main(["--seeds", "12", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert len(found["claims"]) == 10
    for claim in found["claims"]:
        assert claim["verdict"] != "contradicts", claim
    assert [row["configuration"] for row in found["rows"]] == list(experiment.CONFIGURATIONS)
    for row in found["rows"]:
        for which in experiment.COLUMNS:
            assert row[which]["min"] <= row[which]["mean"] <= row[which]["max"]
    assert found["rows"][0]["satisfied"]["max"] == 0


@pytest.mark.parametrize("option", ["--rest-only", "--one-node", "--no-start-now"])
def test_each_choice_makes_a_run_of_its_own(
    capsys: pytest.CaptureFixture[str], option: str
) -> None:
    outputs = []
    for choice in ([], [option]):
        experiment.main(["--seeds", "1", "--json", *choice])
        found = json.loads(capsys.readouterr().out)
        assert all(row["jobs_per_min"]["mean"] > 0 for row in found["rows"])
        outputs.append(found["choices"])
    assert outputs[0] != outputs[1]


def one_job(application: Evolving, busy_s: float) -> ListedWorkload:
    """An evolving job on one of two processors; the other is busy for a while."""
    base = dynamic_esp(0).jobs
    rigid = next(job for job in base if job.spec.kind is JobKind.RIGID)
    evolving = next(job for job in base if job.spec.kind is JobKind.EVOLVING)
    size = evolving.spec.initial.size
    assert rigid.spec.initial.size == MORE
    other = Evolving(busy_s, busy_s, (), 1)
    return ListedWorkload(
        f"one of {size}",
        [
            ListedJob(0.0, evolving.spec, lambda: application, 1),
            ListedJob(0.0, rigid.spec, lambda: other, 2),
        ],
    )


@pytest.mark.parametrize(
    ("timeout_s", "rest_only", "end_s"),
    [(0.0, False, 1000.0), (300.0, False, 1000.0), (400.0, False, 500.0), (400.0, True, 725.0)],
)
def test_an_application_that_waits_long_enough_is_granted(
    timeout_s: float, rest_only: bool, end_s: float
) -> None:
    asks = Evolving(1000.0, 500.0, (100.0,), MORE, timeout_s=timeout_s, rest_only=rest_only)
    workload = one_job(asks, busy_s=450.0)
    nodes = workload.jobs[0].spec.initial.size + MORE
    config = SchedulerConfig(start="reservations", resize="none")
    records = Simulation(workload, nodes, config).run()
    assert records.end_s[0] == end_s
    assert records.metrics()["expands"] == (end_s < 1000)


def test_options_change_what_they_say() -> None:
    slack = dynamic_esp(0, EspOptions(walltime_factor=2.0, z_gap_s=60.0))
    plain = dynamic_esp(0)
    usual_s = plain.jobs[5].spec.estimate_s
    assert usual_s is not None and slack.jobs[5].spec.estimate_s == 2 * usual_s
    assert slack.submit_s[-1] == plain.submit_s[-1] + 60


def test_the_policy_set_dfs_is_dyn_500() -> None:
    config = named_config("dfs")
    assert (config.grant, config.start) == ("dfs", "reservations")
    assert config.of(DfsConfig).user["*"].target_delay_s == 500
