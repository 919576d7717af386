"""Quotas in the simulator: the same limits, by the same scheduler, for the users of a workload."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dq_server.core.model.quotas import Limits, QuotaOptions
from dq_server.core.settings import configured, named_config
from dq_server.sim.engine import Simulation
from dq_server.sim.malleable import Malleability, MalleableWorkload
from dq_server.sim.workload import RigidWorkload
from tests.sim.logs import WriteLog
from tests.sim.test_run_command import run
from tests.sim.test_swf import line

MACHINE = 64

JOBS = """
[[job]]
name = "first"
processors = 2
run_s = 100
user = "ada"
[[job]]
name = "second"
processors = 2
run_s = 100
user = "ada"
[[job]]
name = "other"
processors = 4
run_s = 100
user = "bob"
"""


def starts(tmp_path: Path, quotas: str, *words: Any) -> list[str]:
    """When each job starts under that configuration."""
    jobs, config, table = (tmp_path / name for name in ("jobs.toml", "c.toml", "table.csv"))
    jobs.write_text(JOBS)
    config.write_text(quotas)
    code, _, err = run(jobs, "--nodes", 8, "--config", config, "--csv", table, *words)
    assert code == 0, err
    return [row["start_s"] for row in csv.DictReader(table.open())]


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative", "easy+reshape"])
def test_a_servers_file_is_kept_in_a_simulation(tmp_path: Path, policy: str) -> None:
    words = ("--policy", policy)
    assert starts(tmp_path, "", *words) == ["0", "0", "0"]
    quotas = "[quotas.user.ada]\nprocessors = 3\n"
    assert starts(tmp_path, quotas, *words) == ["0", "100", "0"]
    quotas = '[quotas.group.all]\nmembers = ["ada", "bob"]\njobs = 1\n'
    assert starts(tmp_path, quotas, *words) == ["0", "100", "200"]


def test_time_passes_until_the_window_has_moved_on(tmp_path: Path) -> None:
    """200 processor-seconds within 1000 s; the second job waits with nothing else to happen."""
    quotas = "[quotas.user.ada]\nhours = 0.05\njobs = 1\nwindow = 1000\n"
    _, second, other = starts(tmp_path, quotas, "--policy", "easy")
    assert float(second) == pytest.approx(1015, abs=10)
    assert other == "0"


def test_logs_of_rigid_jobs_take_no_short_cut(log: WriteLog, tmp_path: Path) -> None:
    """Counting processors alone knows no users."""
    jobs = log(*(line(k, submit=0, run=10, asked=1, estimate=10) for k in range(1, 4)))
    config, table = tmp_path / "c.toml", tmp_path / "table.csv"
    config.write_text('[quotas.user."*"]\njobs = 1\n')
    run(jobs, "--nodes", 4, "--policy", "easy", "--config", config, "--csv", table)
    assert [row["start_s"] for row in csv.DictReader(table.open())] == ["0", "10", "20"]


def test_what_a_quota_refuses_is_left_out_and_counted(tmp_path: Path) -> None:
    assert starts(tmp_path, "[quotas.user.bob]\nprocessors = 3\n", "--policy", "easy") == [
        "0", "0",
    ]  # fmt: skip
    quotas = "[quotas.user.ada]\nqueued = 1\n"
    assert starts(tmp_path, quotas, "--policy", "easy") == ["0", "0"]


@pytest.mark.parametrize("policy", ["mebf-intensive", "easy+reshape"])
def test_malleable_jobs_stay_within_the_limit(policy: str) -> None:
    random = np.random.default_rng(5)
    run_s = random.integers(50, 900, 200).tolist()
    rigid = RigidWorkload(
        "of three users",
        np.cumsum(random.integers(0, 60, 200)).tolist(),
        run_s,
        random.integers(1, 30, 200).tolist(),
        [2 * time_s for time_s in run_s],
        users=random.integers(0, 3, 200).tolist(),
    )
    workload = MalleableWorkload(rigid, MACHINE, Malleability(0.5), 1)
    quotas = QuotaOptions(user={"*": Limits(processors=MACHINE // 4)})
    simulation = Simulation(workload, MACHINE, configured(named_config(policy), quotas=quotas))
    state, held = simulation.scheduler.state, Counter[str]()

    def checked(handle: Callable[..., Any]) -> Callable[..., Any]:
        def then(*given: Any) -> Any:
            actions = handle(*given)
            now = Counter[str]()
            for job in state.active.values():
                now[job.spec.user] += len(job.holds())
            held.update({user: max(0, count - held[user]) for user, count in now.items()})
            return actions

        return then

    scheduler: Any = simulation.scheduler
    scheduler.handle = checked(scheduler.handle)
    scheduler.handle_together = checked(scheduler.handle_together)
    records = simulation.run()
    assert 0 < max(held.values()) <= MACHINE // 4
    refused = records.notes["left out: refused by a quota"]
    assert refused > 0 and len(records.ran) + refused == 200
