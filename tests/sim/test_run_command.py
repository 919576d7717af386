"""`dq sim run`: the contract, determinism, and what it says to senseless input."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dq_server.core.policies.registry import SETS
from dq_server.sim import progress as progress_module
from dq_server.sim.cli import sim
from dq_server.sim.output import Run, as_table
from dq_server.sim.swf import FIELDS, write_swf
from harness.commands import ROOT
from harness.generators.kit import kit_like
from tests.sim.logs import WriteLog
from tests.sim.test_swf import line

FIGURES = {
    *("policy", "jobs", "makespan_s", "mean_wait_s", "mean_turnaround_s", "utilization"),
    *("mean_bounded_slowdown", "backfilled", "expands", "shrinks"),
}


def run(*args: Any) -> Any:
    result = CliRunner().invoke(sim, ["run", *map(str, args)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def small(log: WriteLog) -> Any:
    """Six nodes busy until 100, a head of 8, one that fills the gap, one that is too large."""
    return log(
        line(11, submit=0, run=100, asked=6, estimate=100),
        line(12, submit=1, run=50, asked=8, estimate=50),
        line(13, submit=2, run=98, asked=4, estimate=98),
        line(14, submit=3, run=5, asked=11, estimate=5),
    )


def test_jobs_of_a_queue_and_a_partition(log: WriteLog) -> None:
    path = log(
        "; MaxProcs: 9\n; Queue: 1 short\n; Partition: 2 gpu",
        line(1, run=10, queue=1, partition=2),
        line(2, run=20, queue=2, partition=2),
        line(3, run=30, queue=1, partition=3),
    )
    code, out, err = run(path, "--policy", "easy", "--queue", "short", "--partition", 2, "--json")
    assert code == 0 and json.loads(out)["runs"][0]["makespan_s"] == 10
    assert "1 jobs: left out: of another queue (field 15)" in err
    assert "1 jobs: left out: of another partition (field 16)" in err
    code, out, _ = run(path, "--policy", "easy", "--queue", 1, "--queue", 2, "--json")
    assert code == 0 and json.loads(out)["runs"][0]["jobs"] == 3
    code, out, err = run(path, "--policy", "easy", "--queue", "shirt")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "no job of queue 'shirt' (field 15); there are 1 (short), 2" in err


def test_the_contract(small: Any, tmp_path: Path) -> None:
    table = tmp_path / "jobs.csv"
    code, out, err = run(small, "--nodes", 10, "--policy", "easy", "--json", "--csv", table)
    assert code == 0
    body = json.loads(out)
    assert body["schema"] == 1
    (figures,) = body["runs"]
    assert figures.keys() >= FIGURES
    assert (figures["policy"], figures["jobs"], figures["backfilled"]) == ("easy", 3, 1)
    assert figures["makespan_s"] == 150
    assert figures["mean_wait_s"] == pytest.approx((0 + 99 + 0) / 3)
    assert figures["mean_turnaround_s"] == pytest.approx((100 + 149 + 98) / 3)
    assert figures["mean_bounded_slowdown"] == pytest.approx((1 + 149 / 50 + 1) / 3)
    assert figures["utilization"] == pytest.approx((600 + 400 + 392) / 1500)
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    named = ("job_id", "submit_s", "start_s", "end_s", "processors")
    assert [tuple(row[name] for name in named) for row in rows] == [
        ("11", "0", "0", "100", "6"),
        ("12", "1", "100", "150", "8"),
        ("13", "2", "2", "100", "4"),
    ]  # fmt: skip
    assert "1 jobs: left out: larger than 10 nodes" in err


@pytest.mark.parametrize("policy", SETS)
def test_every_policy_runs_rigid_and_malleable(small: Any, policy: str) -> None:
    code, out, _ = run(small, "--nodes", 12, "--policy", policy, "--json")
    assert (code, json.loads(out)["runs"][0]["jobs"]) == (0, 4)
    code, out, _ = run(small, "--nodes", 12, "--policy", policy, "--malleable", 1, "--json")
    assert (code, json.loads(out)["runs"][0]["jobs"]) == (0, 4)


def test_how_jobs_become_malleable_is_chosen_and_written_into_the_output(small: Any) -> None:
    words = ("--transform", "model=amdahl", "--transform", "serial=[0.1, 0.2]", "--transform",
             "chain=powers", "--overhead", 3)  # fmt: skip
    args = (small, "--nodes", 12, "--policy", "mebf-spare", "--malleable", 1, "--seed", 4, "--json")
    code, out, _ = run(*args, *words)
    made = json.loads(out)["transformation"]
    assert code == 0
    assert made.startswith('100 % of the jobs, seed 4: speed-up by the model "amdahl" (serial from')
    assert "the powers of two" in made
    assert "takes 3 s x" in made
    assert "transformation" not in json.loads(run(*args[:5], "--json")[1])


@pytest.fixture
def busy(tmp_path: Path) -> Any:
    jobs = kit_like(300, gaps=0.75, seed=5)
    rows = []
    for k in range(len(jobs)):
        fields = dict.fromkeys(FIELDS, -1.0)
        fields |= {"job": k + 1, "submit_s": jobs.submit_s[k], "run_s": jobs.run_s[k],
                   "requested_processors": jobs.processors[k]}  # fmt: skip
        rows.append(fields.values())
    write_swf(tmp_path / "busy.swf", rows)
    return tmp_path / "busy.swf"


@pytest.mark.parametrize(
    "policy",
    [
        "easy", "conservative", "mebf-spare", "mebf-expand+",
        pytest.param("reshape", marks=pytest.mark.full),
    ],
)  # fmt: skip
def test_same_seed_same_bytes(busy: Any, tmp_path: Path, policy: str) -> None:
    files = [tmp_path / f"{n}.csv" for n in range(3)]
    for path, seed in zip(files, (1, 1, 2), strict=True):
        args = ("--nodes", 500, "--policy", policy, "--malleable", 0.5, "--seed", seed)
        assert run(busy, *args, "--csv", path)[0] == 0
    one, same, other = (path.read_bytes() for path in files)
    assert one == same
    assert (one == other) == (policy in ("easy", "conservative"))


def test_estimates_can_be_enforced(log: WriteLog) -> None:
    path = log(line(1, run=100, estimate=40), line(2, submit=1, run=10, estimate=10))
    args = (path, "--nodes", 4, "--policy", "easy", "--json")
    assert json.loads(run(*args)[1])["runs"][0]["makespan_s"] == 110
    code, out, _ = run(*args, "--enforce-estimates")
    figures = json.loads(out)["runs"][0]
    assert (code, figures["makespan_s"], figures["failed"]) == (0, 50, 1)


@pytest.mark.full
def test_a_picture(small: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "p.png"
    args = ("--nodes", 10, "--policy", "easy", "--policy", "mebf-spare", "--malleable", 1)
    assert run(small, *args, "--plot", picture)[0] == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--policy", "nosuch"], "unknown policy 'nosuch'; known: fcfs, easy"),
        (["--policy", "easy", "--policy", "easy"], "a policy is named twice"),
        (["--policy", "easy", "--scalability", "low"], "give --malleable with it"),
        (["--policy", "easy", "--overhead", "3"], "give --malleable with it"),
        (["--policy", "easy", "--malleable", "1.5"], "1.5 is not in the range"),
        (["--policy", "easy", "--plot", "x.txt"], "must end in .png, .svg, .pdf"),
        (["--policy", "easy", "--plot", "nowhere/x.png"], "not a file in a directory that exists"),
        (["--policy", "easy", "--csv", "nowhere/x.csv"], "not a file in a directory that exists"),
        (["--policy", "easy", "--csv", "x.png", "--plot", "x.png"], "name the same file"),
        (["--policy", "easy", "--malleable", "nan"], "--malleable nan: a finite number is needed"),
        (["--policy", "easy", "--malleable", "1", "--overhead", "inf"], "--overhead inf: a finite"),
        (["--policy", "easy", "--csv", "/proc/x.csv"], "--csv /proc/x.csv: cannot be written"),
        (["--policy", "easy", "--plot", "/proc/x.png"], "--plot /proc/x.png: cannot be written"),
        ([], "Missing option '--policy'"),
        (["--policy", "easy", "--transform", "chain=any"], "give --malleable with it"),
        (["--policy", "easy", "--malleable", "1", "--transform", "chain"], "write KEY=VALUE"),
        (["--policy", "easy", "--malleable", "1", "--transform", "x=1"], "unknown key 'x'"),
        (
            [
                "--policy",
                "easy",
                "--malleable",
                "1",
                "--overhead",
                "1",
                "--transform",
                "overhead_s=1",
            ],
            "--transform overhead_s and its own option",
        ),
    ],
)
def test_senseless_options_are_one_line_and_exit_code_2(
    small: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    args: list[Any] | list[str],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    code, out, err = run(small, "--nodes", 10, *args)
    assert (code, out) == (2, "")
    assert says in err
    assert len(err.splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == before


def test_the_workload_is_never_written_over(small: Any) -> None:
    before = small.read_bytes()
    code, out, err = run(small, "--nodes", 10, "--policy", "easy", "--csv", small)
    assert (code, out) == (2, "")
    assert "this is the workload: name another file" in err
    assert small.read_bytes() == before


def test_a_csv_can_go_down_a_pipe_which_stays_a_pipe(small: Any, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert run(small, "--nodes", 10, "--policy", "easy", "--csv", pipe)[0] == 0
        assert pipe.is_fifo()
        assert os.read(reader, 1 << 16).startswith(b"job_id,submit_s")
    finally:
        os.close(reader)


def test_results_go_through_links_to_their_target(small: Any, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for name, target in (("new", "there/new.csv"), ("old", "there/old.csv"), ("null", "/dev/null")):
        link = tmp_path / name
        link.symlink_to(target)
        if name == "old":
            link.write_text("before")
        assert run(small, "--nodes", 10, "--policy", "easy", "--csv", link)[0] == 0
        assert link.is_symlink()
    assert (tmp_path / "there/new.csv").read_text().startswith("job_id,")
    assert (tmp_path / "there/old.csv").read_text().startswith("job_id,")
    assert sorted(path.name for path in (tmp_path / "there").iterdir()) == ["new.csv", "old.csv"]
    assert Path("/dev/null").is_char_device()


def test_standard_output_is_a_place_for_a_csv(small: Any, tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as out:
        words = ["run", str(small), "--nodes", "10", "--policy", "easy", "--csv", "/dev/stdout"]
        program = [sys.executable, "-c", "from dq_server.sim.cli import sim; sim()", *words]
        subprocess.run(program, stdout=out, check=True, cwd=ROOT)
    assert "job_id," in (tmp_path / "out").read_text()
    assert Path("/dev/stdout").is_symlink()


def test_the_size_of_the_machine_comes_from_the_header(small: Any, tmp_path: Path) -> None:
    path = tmp_path / "with.swf"
    body = "".join(k for k in small.read_text().splitlines(True) if not k.startswith(";"))
    path.write_text("; MaxProcs: 10\n" + body)
    said = json.loads(run(path, "--policy", "easy", "--json")[1])
    assert said == {**json.loads(run(path, "--policy", "easy", "--json", "--nodes", 10)[1])}
    assert said["nodes"] == 10
    path.write_text(body)
    code, _, err = run(path, "--policy", "easy")
    assert (code, err.count("\n")) == (2, 1)
    assert "neither MaxProcs nor MaxNodes: give --nodes" in err


def test_a_table_is_turned_round_where_it_is_too_wide(small: Any) -> None:
    wide = run(small, "--nodes", 10, "--policy", "easy", "--policy", "fcfs")[1]
    rows = [row.split() for row in wide.splitlines()]
    runs = [Run(row[0], None, {k: float(v) for k, v in zip(rows[0][1:], row[1:], strict=True)})  # type: ignore[arg-type]
            for row in rows[1:]]  # fmt: skip
    assert as_table(runs, 400) == as_table(runs)
    turned = as_table(runs, 80).splitlines()
    assert max(map(len, turned)) <= 80
    assert [row.split()[0] for row in turned] == rows[0]


def test_long_simulations_show_how_far_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    shown.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr(progress_module, "AFTER_S", 0.01)
    monkeypatch.setattr(progress_module, "EVERY_S", 0.01)
    seen = threading.Event()

    def done() -> int:
        seen.set()
        return 7

    with progress_module.progress("easy", 90, done):
        assert seen.wait(60)
    assert "easy" in shown.getvalue()
    shown.isatty = lambda: False  # type: ignore[method-assign]
    before = shown.getvalue()
    with progress_module.progress("easy", 90, done):
        pass
    assert shown.getvalue() == before


@pytest.mark.parametrize("policy", SETS)
def test_jobs_of_no_length_are_simulated_whatever_they_are(
    log: WriteLog,
    tmp_path: Path,
    policy: str,
) -> None:
    zero = log(line(1, run=0, asked=2, estimate=5), line(2, submit=3, run=9, asked=1, estimate=9))
    args = ("--nodes", 4, "--policy", policy, "--json")
    figures = json.loads(run(zero, *args, "--malleable", 1)[1])["runs"][0]
    assert (figures["jobs"], figures["failed"]) == (2, 0)
    path = tmp_path / "w.toml"
    path.write_text(
        "[[job]]\nkind = 'malleable'\nprocessors = 1\nsizes = [1, 2]\niterations = 9\n"
        "times_s = { 1 = 1, 2 = 0 }\n"
        "[[job]]\nkind = 'evolving'\nrun_s = 10\nmore = 1\nask_at_s = [10, 12]\n"
        "[[job]]\nkind = 'evolving'\nrun_s = 10\ngranted_s = 0\nmore = 1\nask_at_s = [4]\n"
    )
    code, out, err = run(path, *args)
    assert code == 0, err
    assert json.loads(out)["runs"][0]["jobs"] == 3


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("torn.swf", "1 2 3\n", "torn.swf:1: 3 fields, a job has 18"),
        ("w.toml", "[[job]\n", "w.toml:1: not TOML"),
        ("w.toml", "x = 1\n", "there is no [[job]]"),
        ("w.toml", "[[job]]\nrun_s = 5\n\n[[job]]\nprocs = 3\n", "w.toml:4: job 2: unknown key"),
        ("w.toml", "[[job]]\nrun_s = -5\n", "w.toml:1: job 1: run_s = -5"),
        ("w.toml", "[[job]]\nprocessors = 2\n", "how long does it run?"),
        ("w.toml", "[[job]]\nrun_s = 5\nsizes = [2, 4]\n", "a rigid job has one size"),
        ("w.toml", "[[job]]\nrun_s = 5\nkind = 'elastic'\n", "'elastic' is not a valid JobKind"),
        ("w.txt", "", "a workload is a .swf, .swf.gz or .toml file"),
    ],
)
def test_bad_workloads_are_one_line_and_exit_code_2(
    tmp_path: Path, name: str, text: str, says: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    table = tmp_path / "out.csv"
    code, out, err = run(path, "--nodes", 10, "--policy", "easy", "--csv", table)
    assert (code, out) == (2, "")
    assert says in err
    assert len(err.splitlines()) == 1
    assert not table.exists()


def test_a_missing_file(tmp_path: Path) -> None:
    code, _, err = run(tmp_path / "none.swf", "--nodes", 10, "--policy", "easy")
    assert code == 2
    assert "none.swf: No such file or directory" in err


def test_a_workload_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "w.toml"
    path.write_text(
        "[[job]]\nkind = 'malleable'\nprocessors = 2\nsizes = [2, 4]\niterations = 10\n"
        "times_s = { 2 = 10, 4 = 6 }\nredistribution_s = 1\n"
    )
    code, out, _ = run(path, "--nodes", 4, "--policy", "easy", "--policy", "reshape", "--json")
    static, dynamic = json.loads(out)["runs"]
    assert code == 0
    assert static["makespan_s"] == 100
    # four iterations are measured on 2 (one of them not counted), then 1 s and six on 4
    assert dynamic["makespan_s"] == pytest.approx(40 + 1 + 36)
    assert dynamic["expands"] == 1
    assert dynamic["utilization"] == pytest.approx((40 * 2 + 37 * 4) / (77 * 4))


def test_contradictory_options_for_a_workload_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "w.toml"
    path.write_text("[[job]]\nrun_s = 5\n")
    code, _, err = run(path, "--nodes", 4, "--policy", "easy", "--malleable", 0.5)
    assert code == 2
    assert "--malleable is for logs" in err
