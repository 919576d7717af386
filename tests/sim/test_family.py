"""The page of results: Argonne's table as a log, and the comparison of a study's strategies."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from dq_server.sim.cli import sim
from dq_server.sim.study.file import read_study
from dq_server.sim.swf import read_swf
from experiments import family
from harness.commands import ROOT

HEAD = ("JOB_NAME,COBALT_JOBID,QUEUED_TIMESTAMP,USERNAME_GENID,WALLTIME_SECONDS,RUNTIME_SECONDS,"
        "NODES_USED")  # fmt: skip
ROWS = [
    "early,1,2023-01-11 23:59:59,7,600.0,60.0,128.0",
    "second,3,2023-01-12 00:10:00,7,600.0,60.0,256.0",
    "first,2,2023-01-12 00:00:00,8,3600.0,3700.5,4392.0",
    "never ran,4,2023-01-12 00:20:00,8,600.0,0.0,0.0",
    "late,5,2023-01-26 00:00:00,8,600.0,60.0,128.0",
]


def test_theta_as_a_log(tmp_path: Path) -> None:
    table, path = tmp_path / "jobs.csv", tmp_path / "theta.swf.gz"
    table.write_text("\ufeff" + "\n".join([HEAD, *ROWS]))
    family.main(["--theta", str(table), str(path)])
    log = read_swf(path)
    names = ("job", "submit_s", "run_s", "estimate_s", "user")
    assert {name: log.column(name).tolist() for name in names} == {
        "job": [2, 3], "submit_s": [0, 600], "run_s": [3700, 60], "estimate_s": [3700, 600],
        "user": [1, 0],
    }  # fmt: skip
    assert log.processors().tolist() == [4392, 256]
    shutil.copy(ROOT / "experiments/theta.toml", tmp_path)
    (source,) = read_study(tmp_path / "theta.toml").sources
    assert source.nodes == 4392 and len(source.read()[0]) == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b\n1,2\n", "jobs.csv:2: no job of Argonne's table: 'QUEUED_TIMESTAMP'"),
        (HEAD + "\n" + ROWS[0].replace("128.0", ""), "jobs.csv:2: no job of Argonne's table"),
    ],
)
def test_another_table_is_refused_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    (tmp_path / "jobs.csv").write_text(text)
    with pytest.raises(SystemExit):
        family.main(["--theta", str(tmp_path / "jobs.csv"), str(tmp_path / "theta.swf")])
    assert says in capsys.readouterr().err
    assert not (tmp_path / "theta.swf").exists()


def test_the_comparison_is_that_of_the_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    family.main(["--lublin", str(tmp_path / "l.swf"), "--jobs", "60", "--nodes", "32"])
    (tmp_path / "study.toml").write_text(
        'logs = ["l.swf"]\npolicies = ["easy", "min-pool", "shortest-first"]\n'
        "shares = [0.5, 1.0]\nseeds = 2\n"
    )
    out = tmp_path / "out"
    words = ["study", str(tmp_path / "study.toml"), "-o", str(out), "--processes", "1",
             "--no-figures"]  # fmt: skip
    assert CliRunner().invoke(sim, words).exit_code == 0
    capsys.readouterr()
    family.main([str(out), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert len(found["changes"]) == 2 * 2 and len(found["verdicts"]) == 2 * 3
    runs = family.read_runs(out)
    for row in found["published"]:
        by_policy = runs["l.swf", "1"]
        base, best = by_policy["easy"], by_policy["min-pool"]
        metric = row["metric"]
        changes = [100 * (best[seed][metric] / base[seed][metric] - 1) for seed in base]
        assert row["best"] == "min-pool"
        assert row["best_change"] == pytest.approx(sum(changes) / len(changes))
    for row in found["fairness"]:
        assert row["q1"] <= row["q50"] <= row["q100"] and 0 <= row["later_pct"] <= 100
    family.main([str(out)])
    assert "-67 to -37" in capsys.readouterr().out
