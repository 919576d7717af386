"""A pool in the simulator: what it costs, how long jobs wait, and what users may write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dq_server.core.settings import named_config
from dq_server.sim.engine import Simulation
from dq_server.sim.errors import WorkloadError
from dq_server.sim.malleable import Malleability, MalleableWorkload
from dq_server.sim.pool import read_pool
from dq_server.sim.workload import RigidWorkload
from harness.generators.kit import kit_like
from tests.sim.logs import WriteLog
from tests.sim.test_run_command import run
from tests.sim.test_swf import line

POLICIES = ("fcfs", "easy", "conservative", "mebf-intensive")


@pytest.fixture
def two(log: WriteLog) -> Any:
    """Four nodes for 1000 s, and much later two for 100 s."""
    return log(
        line(1, submit=0, run=1000, asked=4, estimate=1000),
        line(2, submit=7200, run=100, asked=2, estimate=100),
    )


def test_the_figures_of_a_workload_that_can_be_counted_by_hand(two: Any) -> None:
    words = "min=0,idle=5m,start=2m,price=3"
    code, out, _ = run(two, "--nodes", 4, "--policy", "easy", "--pool", words, "--json")
    assert code == 0
    on, pooled = json.loads(out)["runs"]
    assert (on["policy"], pooled["policy"]) == ("easy", "easy + pool")
    assert on["mean_wait_s"] == 0 and pooled["mean_wait_s"] == 120
    hours = (4 * (120 + 1000 + 300) + 2 * (120 + 100 + 300)) / 3600
    assert pooled["node_hours"] == pytest.approx(hours)
    assert pooled["cost"] == pytest.approx(3 * hours)
    assert on["node_hours"] == pytest.approx(4 * 7300 / 3600)
    assert pooled["saved_pct"] == pytest.approx(100 * (1 - hours / on["node_hours"]))
    assert (pooled["nodes_asked"], pooled["nodes_most"]) == (6, 4)
    assert pooled["utilization"] == pytest.approx(4200 / (3600 * hours))


def test_nodes_of_several_processors_are_paid_for_whole(two: Any) -> None:
    words = "idle=0s,start=0s,processors=3"
    _, out, _ = run(two, "--nodes", 6, "--policy", "easy", "--pool", words, "--json")
    _, pooled = json.loads(out)["runs"]
    assert pooled["node_hours"] == pytest.approx((2 * 1000 + 100) / 3600)
    assert pooled["mean_wait_s"] == 0


def test_nodes_that_stay_are_paid_for_until_the_end(two: Any) -> None:
    words = "min=1,idle=5m,start=2m"  # nodes 2 to 4 come for the first job, node 5 for the second
    _, out, _ = run(two, "--nodes", 4, "--policy", "easy", "--pool", words, "--json")
    _, pooled = json.loads(out)["runs"]
    paid_s = 3 * (120 + 1000 + 300) + (7200 + 120 + 100 + 300) + (120 + 100 + 300)
    assert pooled["node_hours"] == pytest.approx(paid_s / 3600)


def test_the_table_of_a_configuration_file_does_the_same(two: Any, tmp_path: Path) -> None:
    config = tmp_path / "server.toml"
    config.write_text('[scheduler]\npolicy = "easy"\n[pool]\nmax = 4\nidle_s = 300\n')
    _, by_file, _ = run(two, "--nodes", 4, "--config", config, "--json")
    _, by_words, _ = run(two, "--nodes", 4, "--policy", "easy", "--pool", "idle=5m", "--json")
    figures = [[r["node_hours"] for r in json.loads(out)["runs"]] for out in (by_file, by_words)]
    assert figures[0] == figures[1]
    _, both, _ = run(two, "--nodes", 4, "--config", config, "--pool", "idle=10m", "--json")
    assert json.loads(both)["runs"][1]["node_hours"] > figures[0][1]


def test_jobs_that_only_one_of_both_can_hold_are_told(two: Any) -> None:
    words = "max=3"
    code, _, err = run(two, "--nodes", 4, "--policy", "easy", "--pool", words)
    assert code == 0 and "1 jobs: left out: larger than 3 nodes" in err


def test_a_plot_and_a_csv(two: Any, tmp_path: Path) -> None:
    picture, rows = tmp_path / "out.png", tmp_path / "out.csv"
    args = ("--pool", "start=2m", "--plot", picture, "--csv", rows)
    assert run(two, "--nodes", 4, "--policy", "easy", *args)[0] == 0
    assert picture.stat().st_size > 20_000
    assert sum(text.endswith("easy + pool") for text in rows.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("most=3", "unknown word 'most'; known: min, max"),
        ("max=3,max=4", "max is given twice"),
        ("idle=soon", "idle=soon: not understood"),
        ("max=2.5", "max=2.5: not understood"),
        ("idle=", "idle=: not understood"),
        ("min=5,max=3", "min = 5: from 0 to max = 3"),
        ("start=-5m", "start_s = -300.0"),
        ("start=nan", "start_s = nan"),
        ("price=-1", "price=-1: 0 or more"),
        ("price=nan", "price=nan"),
        ("spread=2", "spread=2: a share"),
        ("processors=0", "shape: 0 processors"),
        ("grow=perhaps", "grow=perhaps: not understood"),
    ],
)
def test_what_is_not_understood_is_refused_in_one_line(two: Any, words: str, what: str) -> None:
    code, out, err = run(two, "--nodes", 4, "--policy", "easy", "--pool", words)
    assert (code, out) == (2, "")
    assert what in err and len(err.splitlines()) == 1


def test_max_is_what_the_machine_has_unless_it_is_said() -> None:
    pool = read_pool("processors=16", {}, 100)
    assert (pool.options.max, pool.processors) == (6, 96)
    assert read_pool("idle=90,start=1h", {"max": 7}, 100).options.max == 7
    with pytest.raises(WorkloadError, match="idle_s"):
        read_pool("", {"idle_s": "5m"}, 4)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("processors", [1, 4])
def test_every_job_ends_and_the_bounds_are_kept(policy: str, processors: int) -> None:
    jobs = MalleableWorkload(kit_like(150, seed=3), 64, Malleability(0.5), 3)
    words = f"min=2,max={64 // processors},idle=10m,start=5m,spread=0.5,processors={processors}"
    pool = read_pool(words, {}, 64)
    simulation = Simulation(jobs, 64, named_config(policy), pool=pool, seed=1)
    records = simulation.run()
    simulation.scheduler.state.check()
    fit = sum(jobs.size(k) <= 64 for k in range(len(jobs)))
    assert len(records.ran) == fit
    history = records.pool
    assert history is not None
    at, paid = history.paid_over_time()
    assert paid.max() <= pool.options.max
    assert paid[at < records.last_end_s].min() >= 2
    lived = np.frombuffer(history.end_s) - np.frombuffer(history.up_s)
    assert lived.min() >= 600 - 1e-6, "a node that came up was given back at once"
    at_up, up = history.up_over_time()
    busy_at, busy = records.held_over_time()
    for at_s, held in zip(busy_at.tolist(), busy.tolist(), strict=True):
        there = up[np.searchsorted(at_up, at_s, side="right") - 1]
        assert held <= there * processors, "a job ran where there was no node"


def test_start_up_times_are_drawn_by_the_seed(two: Any) -> None:
    def hours(seed: int) -> float:
        words = "start=10m,spread=0.5"
        args = ("--pool", words, "--json", "--seed", seed)
        _, out, _ = run(two, "--nodes", 4, "--policy", "easy", *args)
        return float(json.loads(out)["runs"][1]["node_hours"])

    assert hours(1) == hours(1) != hours(2)


def test_a_pool_that_starts_at_once_and_keeps_nodes_schedules_as_the_machine_does() -> None:
    jobs = kit_like(200, seed=5)
    pool = read_pool("start=0s,idle=365d,min=32", {}, 32)
    pooled = Simulation(jobs, 32, named_config("easy"), pool=pool).run()
    always_on = Simulation(jobs, 32, named_config("easy")).run()
    assert pooled.turnaround.tolist() == always_on.turnaround.tolist()


def test_jobs_that_come_long_before_their_nodes_share_one_instant() -> None:
    jobs = RigidWorkload("many", [0.0] * 5, [10.0] * 5, [1] * 5)
    pool = read_pool("max=5,start=1m", {}, 5)
    records = Simulation(jobs, 5, named_config("easy"), pool=pool).run()
    assert records.wait.tolist() == [60.0] * 5
