"""Jobs after others in a simulation: fields 17 and 18 of a log, `after` in a TOML workload."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dq_server.sim.cli import sim
from dq_server.sim.swf import FIELDS
from tests.sim.logs import WriteLog


def job(
    number: int, submit: int, run: int, asked: int, preceding: int = -1, think: int = -1
) -> str:
    fields = dict.fromkeys(FIELDS, -1) | {
        "job": number, "submit_s": submit, "run_s": run, "requested_processors": asked,
        "preceding_job": preceding, "think_s": think,
    }  # fmt: skip
    return " ".join(map(str, fields.values()))


def times(
    workload: Path, tmp_path: Path, *options: Any, nodes: int = 4, policy: str = "easy"
) -> Any:
    """Job -> (submission, start, end), and what was noted."""
    table = tmp_path / "jobs.csv"
    words = ["run", workload, "--nodes", nodes, "--json", "--csv", table]
    chosen = () if "--config" in options else ("--policy", policy)
    result = CliRunner().invoke(sim, [*map(str, words), *chosen, *options])
    assert result.exit_code == 0, result.output
    rows = csv.DictReader(table.open())
    found = {
        int(r["job_id"]): tuple(float(r[c]) for c in ("submit_s", "start_s", "end_s")) for r in rows
    }
    return found, json.loads(result.stdout)["runs"][0]["notes"]


@pytest.fixture
def chain(log: WriteLog) -> Path:
    return log(
        job(1, submit=0, run=100, asked=1),
        job(2, submit=10, run=50, asked=1, preceding=1, think=30),
        job(3, submit=20, run=10, asked=1, preceding=1),
        job(4, submit=25, run=5, asked=1, preceding=2),
        job(5, submit=26, run=5, asked=9),
        job(6, submit=27, run=5, asked=1, preceding=5, think=3),
        job(7, submit=28, run=5, asked=1, preceding=99),
    )


def test_by_default_a_log_is_taken_as_it_is(chain: Path, tmp_path: Path) -> None:
    found, _ = times(chain, tmp_path)
    assert {k: start for k, (_, start, _) in found.items()} == {
        1: 0, 2: 10, 3: 20, 4: 25, 6: 30, 7: 30
    }  # fmt: skip


def test_think_time_and_preceding_job(chain: Path, tmp_path: Path) -> None:
    found, notes = times(chain, tmp_path, "--dependencies")
    assert found[2] == (130, 130, 180)  # submitted 30 s after the end of job 1
    assert found[3] == (20, 100, 110)  # submitted as logged, waits for job 1
    assert found[4] == (180, 180, 185)  # when it was submitted, job 2 was not there yet
    assert found[6] == (27, 27, 32)  # job 5 is larger than the machine
    assert found[7] == (28, 28, 33)
    assert notes["the preceding job (field 17) is not in the log before it"] == 1


def test_after_in_a_toml_workload(tmp_path: Path) -> None:
    path = tmp_path / "w.toml"
    path.write_text(
        """
        [[job]]
        run_s = 100
        [[job]]
        submit_s = 5
        run_s = 10
        after = [1]
        [[job]]
        run_s = 20
        walltime_s = 10
        [[job]]
        submit_s = 10           # of this very instant is the end of job 3
        run_s = 10
        after = [3]
        [[job]]
        submit_s = 6
        run_s = 10
        after = [3]
        [[job]]
        submit_s = 6
        run_s = 10
        after_any = [3]
        """
    )
    found, notes = times(path, tmp_path)
    assert found[2] == (5, 100, 110)
    assert found[6] == (6, 10, 20)
    assert set(found) == {1, 2, 3, 6}
    assert notes["cancelled: a job that it comes after failed"] == 1
    assert notes["left out: comes after a job that failed or was left out"] == 1


def test_nobody_waits_for_a_job_that_a_quota_refuses(tmp_path: Path) -> None:
    path, config = tmp_path / "w.toml", tmp_path / "config.toml"
    path.write_text(
        """
        [[job]]
        processors = 3
        run_s = 10
        user = "ada"
        [[job]]
        run_s = 10
        after_any = [1]
        [[job]]
        run_s = 10
        after = [2]
        [[job]]
        run_s = 10
        after = [1]
        [[job]]
        run_s = 10
        after_any = [4]
        """
    )
    config.write_text('[scheduler]\npolicy = "easy"\n[quotas.user.ada]\nprocessors = 2\n')
    found, notes = times(path, tmp_path, "--config", str(config))
    assert found == {2: (0, 0, 10), 3: (0, 10, 20), 5: (0, 0, 10)}
    assert notes == {
        "left out: refused by a quota": 1,
        "left out: comes after a job that failed or was left out": 1,
    }


@pytest.mark.parametrize(
    ("after", "text"),
    [("[2]", "job 1 comes after job 2"), ("[9]", "comes after job 9"), ("[0]", "from 1 on")],
)
def test_a_job_cannot_come_after_one_that_is_not_before_it(
    tmp_path: Path, after: str, text: str
) -> None:
    path = tmp_path / "w.toml"
    path.write_text(f"[[job]]\nrun_s = 1\nafter = {after}\n[[job]]\nrun_s = 1\n")
    words = ["run", str(path), "--nodes", "4", "--policy", "easy"]
    result = CliRunner().invoke(sim, words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert text in result.stderr
