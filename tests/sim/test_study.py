"""`dq sim study`: the contract, what is kept, and what it says to mistakes."""

from __future__ import annotations

import csv
import gzip
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

from dq_server.sim.cli import sim
from dq_server.sim.intervals import interval, t_95
from dq_server.sim.study import runs
from dq_server.sim.study.file import read_study
from dq_server.sim.study.results import FIGURES, Group
from dq_server.sim.swf import FIELDS, write_swf
from harness.commands import ROOT
from harness.generators.lublin import lublin
from tests.pages.owners import of

COLUMNS = ("log", "policy", "share", "seed", "mean_turnaround_s", "mean_wait_s", "makespan_s",
           "utilisation", "mean_bounded_slowdown")  # fmt: skip
STUDY = """
logs = ["a.swf"]
nodes = 32
policies = ["easy", "mebf-spare"]
shares = [0.5, 1.0]
seeds = 2
"""


def log(folder: Path, name: str = "a.swf", jobs: int = 60, seed: int = 1) -> Path:
    rigid = lublin(jobs, 32, load=1.0, seed=seed)
    rows = []
    for k in range(jobs):
        fields = dict.fromkeys(FIELDS, -1.0)
        fields |= {"job": k + 1, "submit_s": rigid.submit_s[k], "run_s": rigid.run_s[k],
                   "user": k % 3, "estimate_s": rigid.estimate_s[k],
                   "requested_processors": rigid.processors[k]}  # fmt: skip
        rows.append(fields.values())
    write_swf(folder / name, rows, "MaxProcs: 48\nComputer: Test\nAcknowledge: nobody")
    return folder / name


def write(folder: Path, text: str = STUDY) -> Path:
    (folder / "study.toml").write_text(text)
    return folder / "study.toml"


def study(path: Path, *args: Any) -> tuple[int, str, str]:
    words = [
        "study",
        str(path),
        "-o",
        str(path.parent / "out"),
        "--processes",
        "1",
        *map(str, args),
    ]
    result = CliRunner().invoke(sim, words)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def test_the_contract_and_that_runs_are_those_of_sim_run(tmp_path: Path) -> None:
    log(tmp_path)
    code, out, _ = study(write(tmp_path), "--no-figures", "--json")
    assert code == 0
    body = json.loads(out)
    assert (body["schema"], body["runs"], body["simulations"]) == (1, 8, 5)
    found = rows(tmp_path / "out" / "runs.csv")
    assert tuple(found[0])[: len(COLUMNS)] == COLUMNS
    assert [(r["policy"], float(r["share"]), int(r["seed"])) for r in found] == [
        (policy, share, seed)
        for share in (0.5, 1.0)
        for policy in ("easy", "mebf-spare")
        for seed in (0, 1)
    ]
    for row in found:
        words = ["run", str(tmp_path / "a.swf"), "--nodes", "32", "--policy", row["policy"],
                 "--malleable", row["share"], "--seed", row["seed"], "--json"]  # fmt: skip
        (figures,) = json.loads(CliRunner().invoke(sim, words).stdout)["runs"]
        named = {name: figures[name] for name in COLUMNS[4:] if name != "utilisation"}
        named["utilisation"] = figures["utilization"]
        assert {name: float(row[name]) for name in named} == pytest.approx(named, rel=1e-12)
    with gzip.open(tmp_path / "out" / "jobs.csv.gz", "rt") as file:
        jobs = list(csv.DictReader(file))
    assert len(jobs) == 5 * 60
    for row in found:
        mine = [job for job in jobs if job["run"] == row["run"]]
        wait_s = fmean(float(job["wait_s"]) for job in mine)
        assert wait_s == pytest.approx(float(row["mean_wait_s"]))
        drawn = sum(int(job["malleable"]) for job in mine)
        assert drawn == (0 if row["policy"] == "easy" else 60 * float(row["share"]))


def test_shares_in_percent_are_those_in_fractions(tmp_path: Path) -> None:
    log(tmp_path)
    found, reports = [], []
    for shares in ("[0.2, 1, 0.07]", "[20, 100, 7.0]"):
        text = STUDY.replace("[0.5, 1.0]", shares).replace("seeds = 2", "seeds = 1")
        assert study(write(tmp_path, text), "--no-figures")[0] == 0
        found.append((tmp_path / "out" / "runs.csv").read_text())
        reports.append((tmp_path / "out" / "report.md").read_text())
    assert found[0] == found[1]
    assert {row["share"] for row in csv.DictReader(found[1].splitlines())} == {"0.2", "1", "0.07"}
    assert ["shares in percent" in text for text in reports] == [False, True]
    assert all("20 % malleable" in text for text in reports)


def test_means_and_intervals_are_those_of_the_runs(tmp_path: Path) -> None:
    log(tmp_path)
    assert (
        study(write(tmp_path, STUDY.replace("seeds = 2", "seeds = [3, 1, 7]")), "--no-figures")[0]
        == 0
    )
    found = rows(tmp_path / "out" / "runs.csv")
    for row in rows(tmp_path / "out" / "summary.csv"):
        if row["metric"] != "mean_turnaround_s":
            continue

        def values(policy: str, row: dict[str, str] = row) -> list[float]:
            same = [r for r in found if float(r["share"]) == float(row["share"])]
            return [float(r["mean_turnaround_s"]) for r in same if r["policy"] == policy]

        mine = values(row["policy"])
        low, _ = stats.t.interval(0.95, 2, fmean(mine), stats.sem(mine)) if len({*mine}) > 1 else (
            mine[0], mine[0])  # fmt: skip
        assert float(row["mean"]) == pytest.approx(fmean(mine))
        assert float(row["interval_95"]) == pytest.approx(fmean(mine) - low, rel=0.01)
        changes = [100 * (a / b - 1) for a, b in zip(mine, values("easy"), strict=True)]
        assert float(row["change_pct"]) == pytest.approx(fmean(changes))


def test_students_t() -> None:
    for freedom in (*range(1, 40), 100, 1000):
        assert t_95(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=0.003)
    assert np.isnan(interval([1.0]))


def test_a_run_whose_inputs_are_the_same_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(tmp_path)
    path = write(tmp_path)

    def simulated(text: str | None = None) -> Any:
        if text is not None:
            write(tmp_path, text)
        return json.loads(study(path, "--no-figures", "--json")[1])["simulated"]

    assert simulated() == 5
    first = (tmp_path / "out" / "runs.csv").read_bytes()
    assert simulated() == 0
    assert (tmp_path / "out" / "runs.csv").read_bytes() == first
    assert simulated(STUDY.replace("seeds = 2", "seeds = 3")) == 2
    assert simulated(STUDY.replace("[0.5, 1.0]", "[1.0]")) == 0
    assert simulated(STUDY + "[malleable]\noverhead_s = 5\n") == 4  # easy resizes nobody
    assert simulated(STUDY + "[scheduler]\nsamples = 9\n") == 5
    assert simulated(STUDY) == 0
    (
        tmp_path / "out" / "cache" / f"{rows(tmp_path / 'out' / 'runs.csv')[2]['run']}.json"
    ).write_text("{")
    assert simulated() == 1  # torn
    log(tmp_path, seed=2)
    assert simulated() == 5
    monkeypatch.setattr(runs, "_code", lambda: "another version")
    assert simulated() == 5


def test_parallel_processes_give_the_same_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        log(tmp_path / name)
        assert study(write(tmp_path / name), "--no-figures", "--processes", len(name) - 1)[0] == 0
    for name in ("runs.csv", "summary.csv", "jobs.csv.gz", "report.md"):
        one, two = ((tmp_path / folder / "out" / name).read_bytes() for folder in ("one", "two"))
        assert one == two, name


def test_a_killed_study_goes_on_and_leaves_no_process(tmp_path: Path) -> None:
    log(tmp_path, jobs=400)
    path = write(tmp_path, STUDY.replace("seeds = 2", "seeds = 30"))
    program = [sys.executable, "-c", "from dq_server.sim.cli import sim; sim()", "study", str(path),
               "-o", str(tmp_path / "out"), "--processes", "2", "--no-figures"]  # fmt: skip
    process = subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    cache = tmp_path / "out" / "cache"
    while len(list(cache.glob("*.json"))) < 3:
        assert process.poll() is None
        time.sleep(0.05)
    children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    for child in map(int, children.stdout.split()):
        while Path(f"/proc/{child}").exists():
            if Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                break
            time.sleep(0.05)
    assert not (tmp_path / "out" / "runs.csv").exists()
    kept = len(list(cache.glob("*.json")))
    body = json.loads(study(path, "--no-figures", "--json")[1])
    assert body["simulated"] <= 61 - kept
    assert len(rows(tmp_path / "out" / "runs.csv")) == 120


def test_variants_windows_and_several_logs(tmp_path: Path) -> None:
    log(tmp_path)
    log(tmp_path, "b.swf", seed=2)
    last_s = np.loadtxt(tmp_path / "a.swf", comments=";")[:, 1]
    half = (last_s[30] - last_s[0]) / 86_400
    path = write(
        tmp_path,
        f"""
logs = ["a.swf", "b.swf"]
policies = ["easy", "mebf-spare"]
shares = [1.0]
seeds = [4]
days = {half}
[malleable]
chain = "powers"
[[variant]]
name = "Amdahl"
model = "amdahl"
serial = [0.01, 0.2]
[[variant]]
name = "costly"
overhead_s = 100
scheduler = {{ mebf_theta = 0.9 }}
""",
    )
    code, out, err = study(path, "--no-figures")
    assert code == 0, err
    found = rows(tmp_path / "out" / "runs.csv")
    assert [(r["log"], r["variant"], r["policy"]) for r in found] == [
        (name, variant, policy)
        for name in ("a.swf", "b.swf")
        for variant in ("Amdahl", "costly")
        for policy in ("easy", "mebf-spare")
    ]
    assert {r["nodes"] for r in found} == {"48"}  # of the header
    assert {int(r["jobs"]) for r in found if r["log"] == "a.swf"} == {30}
    assert "a.swf, costly, 100 % malleable" in out
    report = (tmp_path / "out" / "report.md").read_text()
    for words in ("serial from 0.01 to 0.2", "powers of two", "100 s x", "'theta': 0.9", "seed 4;",
                  "acknowledge: nobody", "range over 2 variants", "on 48 processors"):  # fmt: skip
        assert words in report, words


def test_logs_of_one_name_are_told_apart_by_their_paths(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    log(tmp_path)
    log(tmp_path / "other", seed=2)
    log(tmp_path / "other", "b.swf", seed=3)
    text = STUDY.replace('"a.swf"', '"a.swf", "other/a.swf", "other/b.swf"')
    assert study(write(tmp_path, text), "--no-figures")[0] == 0
    found = {row["log"]: row["makespan_s"] for row in rows(tmp_path / "out" / "runs.csv")}
    assert list(found) == ["a.swf", "other/a.swf", "b.swf"] and len(set(found.values())) == 3


def test_queues_and_partitions(tmp_path: Path) -> None:
    places = [(1, 1), (2, 1), (2, 2), (1, 1)]
    fields = [dict.fromkeys(FIELDS, -1) | {
        "job": k, "submit_s": 100 * k, "run_s": 10, "requested_processors": 4,
        "queue": queue, "partition": partition} for k, (queue, partition) in enumerate(places, 1)
    ]  # fmt: skip
    header = "MaxProcs: 4\nQueue: 1 short\nQueue: 2 long"
    write_swf(tmp_path / "a.swf", [row.values() for row in fields], header)
    text = "logs = ['a.swf']\npolicies = ['easy', 'fcfs']\nshares = [0]\nseeds = [0]\n"
    assert study(write(tmp_path, f"{text}queues = ['short']"), "--no-figures")[0] == 0
    assert {row["jobs"] for row in rows(tmp_path / "out" / "runs.csv")} == {"2"}
    path = write(tmp_path, f"{text}queues = ['long']\npartitions = [1]")
    assert study(path, "--no-figures")[0] == 0
    assert {row["jobs"] for row in rows(tmp_path / "out" / "runs.csv")} == {"1"}
    report = (tmp_path / "out" / "report.md").read_text()
    assert "only jobs of queue long are simulated (field 15; 2 of others left out)" in report
    assert "only jobs of partition 1 are simulated (field 16; 1 of others left out)" in report
    assert "* a.swf: 2 jobs: left out: of another queue (field 15)" in report


def placed_log(folder: Path, rows: list[tuple[int, int, int, int]]) -> None:
    """A log of jobs (processors, run time, queue, partition), a second apart, on 8 processors."""
    fields = [dict.fromkeys(FIELDS, -1) | {
        "job": k, "submit_s": k, "run_s": run_s, "requested_processors": size, "user": 1,
        "queue": queue, "partition": partition}
        for k, (size, run_s, queue, partition) in enumerate(rows)]  # fmt: skip
    write_swf(folder / "a.swf", [row.values() for row in fields], "MaxProcs: 8\nPartition: 1 batch")


SETS = """logs = ['a.swf']\npolicies = ['easy', 'min-pool']\nshares = [0, 1]\nseeds = [0]
[[nodes]]\nprocessors = 4\npartitions = ['batch']\n[[nodes]]\nprocessors = 4\n"""


def test_jobs_run_on_the_nodes_of_their_partition_only(tmp_path: Path) -> None:
    # Two jobs of the batch partition, one after the other, whatever is idle in the other set.
    placed_log(tmp_path, [(4, 100, 1, 1), (4, 100, 1, 1), (4, 10, 1, 2), (4, 10, 2, 3)])
    code, _, err = study(write(tmp_path, SETS), "--no-figures")
    assert code == 0, err
    with gzip.open(tmp_path / "out" / "jobs.csv.gz", "rt") as file:
        jobs = list(csv.DictReader(file))
    assert [float(job["wait_s"]) for job in jobs[:4]] == [0, 99, 0, 9]
    easy = rows(tmp_path / "out" / "runs.csv")[0]
    assert [easy[name] for name in ("nodes", "makespan_s", "jobs")] == ["8", "200", "4"]
    assert float(easy["utilisation"]) == pytest.approx((4 * 200 + 4 * 20) / (8 * 200))
    # Malleable jobs expand within their set.
    (run,) = {row["run"] for row in rows(tmp_path / "out" / "runs.csv")
              if row["policy"] == "min-pool" and row["share"] == "1"}  # fmt: skip
    mine = [job for job in jobs if job["run"] == run]
    assert {job["malleable"] for job in mine} == {"1"} and {job["state"] for job in mine} == {
        "done"
    }
    assert sum(float(job["processor_s"]) for job in mine[:2]) <= 4 * 210
    report = (tmp_path / "out" / "report.md").read_text()
    assert "each scheduled by itself (4 for partition batch; 4 for all other jobs)" in report


def test_one_set_of_all_jobs_is_the_machine_and_sets_are_the_machines_apart(tmp_path: Path) -> None:
    log(tmp_path)
    alone = STUDY.replace("nodes = 32", "")
    found = []
    for nodes in ("nodes = 32", "[[nodes]]\nprocessors = 32\n"):
        text = f"{nodes}\n{alone}" if "[[" not in nodes else f"{alone}\n{nodes}"
        assert study(write(tmp_path, text), "--no-figures")[0] == 0
        found.append([{k: v for k, v in row.items() if k != "run"}
                      for row in rows(tmp_path / "out" / "runs.csv")])  # fmt: skip
    assert found[0] == found[1]
    # Odd and even jobs on machines of their own, and in one run.
    logged = (tmp_path / "a.swf").read_text().splitlines()
    lines = [line if line.startswith(";") else " ".join([*line.split()[:15], str(k % 2),
             *line.split()[16:]]) for k, line in enumerate(logged)]  # fmt: skip
    (tmp_path / "a.swf").write_text("\n".join(lines) + "\n")
    together = (
        f"{alone}\n[[nodes]]\nprocessors = 32\npartitions = [0]\n[[nodes]]\nprocessors = 40\n"
    )
    assert study(write(tmp_path, together), "--no-figures")[0] == 0
    whole = rows(tmp_path / "out" / "runs.csv")
    parts = []
    for partition, processors in ((0, 32), (1, 40)):
        apart = f"nodes = {processors}\npartitions = [{partition}]\n{alone}"
        assert study(write(tmp_path, apart), "--no-figures")[0] == 0
        parts.append(rows(tmp_path / "out" / "runs.csv"))
    for both, one, other in zip(whole, *parts, strict=True):
        sums = [float(row["mean_turnaround_s"]) * int(row["jobs"]) for row in (one, other)]
        assert float(both["mean_turnaround_s"]) * int(both["jobs"]) == pytest.approx(sum(sums))
        for name in ("expands", "shrinks", "backfilled"):
            assert int(both[name]) == int(one[name]) + int(other[name])


def test_maintenance_and_a_warm_up(tmp_path: Path) -> None:
    """Three jobs of a day apart on 4 processors, 100 s each, and an end at most 2 hours later."""
    fields = [dict.fromkeys(FIELDS, -1) | {
        "job": k + 1, "submit_s": 5000 + 86_400 * k, "run_s": 100, "estimate_s": 100,
        "requested_processors": 4} for k in range(3)]  # fmt: skip
    write_swf(tmp_path / "a.swf", [row.values() for row in fields], "MaxProcs: 4")
    window = "name = 'service'\nprocessors = 1\nstart_s = 86_390\nduration_s = 7200"
    text = "logs = ['a.swf']\npolicies = ['easy', 'fcfs']\nshares = [0]\nseeds = [0]\n"
    path = write(tmp_path, f"{text}warm_up_days = 0.5\n[[reservation]]\n{window}\n")
    code, _, err = study(path, "--no-figures")
    assert code == 0, err
    for row in rows(tmp_path / "out" / "runs.csv"):
        assert [row[name] for name in ("jobs", "mean_wait_s")] == ["2", "3595"]  # 7190 and 0
        assert float(row["makespan_s"]) == 86_500
        assert float(row["utilisation"]) == pytest.approx(200 / 86_500)
    report = (tmp_path / "out" / "report.md").read_text()
    assert "1 processors are out of use from 86390 s after the first submission" in report
    assert "jobs submitted in the first 0.5 days are not counted" in report
    assert "1 jobs: submitted in the warm-up: simulated, not counted" in report
    words = ["run", str(tmp_path / "a.swf"), "--policy", "easy", "--json", "--warm-up", "0.5",
             "--reserve", "1:86390:7200"]  # fmt: skip
    (run,) = json.loads(CliRunner().invoke(sim, words).stdout)["runs"]
    assert (run["jobs"], run["mean_wait_s"]) == (2, 3595)


@pytest.mark.full
def test_figures_are_drawn_as_svg_and_pdf_and_are_the_same_again(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    log(tmp_path)
    path = write(tmp_path)
    assert study(path)[0] == 0
    folder = tmp_path / "out" / "figures"
    names = {f"a.swf-{what}.{suffix}" for what in ("means", "changes", "ecdf", "by-size", "by-user")
             for suffix in ("svg", "pdf")}  # fmt: skip
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert before.keys() == names
    assert study(path)[0] == 0
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    assert b"mebf-spare" in before["a.swf-means.svg"]


def test_distributions_classes_and_users() -> None:
    sizes = runs.size_classes(np.array([1, 2, 4, 5, 16, 17, 64, 65]))
    assert sizes.tolist() == [1, 4, 4, 16, 16, 64, 64, 256]
    group = Group()
    result = {
        "metrics": dict.fromkeys(FIGURES.values(), 2.0),
        "ecdf": {name: [1] * len(runs.EDGES) for name in runs.DISTRIBUTED},
        "classes": {"4": [2, 10.0, 20.0, 3.0]},
        "users": {"7": [2, 10.0, 20.0, 3.0]},
    }
    group.add(result)
    group.add(result)
    assert group.classes == {4: [[5.0, 10.0, 1.5]] * 2}
    assert group.users[7].tolist() == [4, 20, 40, 6]
    assert group.reached["wait_s"][0] == 2
    assert group.changes_pct(group, "makespan_s") == [0, 0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("logs = = 1", "study.toml:1: not TOML"),
        (STUDY + "polices = []", "unknown key 'polices'; did you mean 'policies'?"),
        ("policies = ['easy']", "logs is missing"),
        (STUDY.replace('["a.swf"]', "[]"), "logs = []: a list with at least one member"),
        (STUDY.replace("a.swf", "none.swf"), "none.swf: no such file; paths are relative"),
        (STUDY.replace("a.swf", "study.toml"), "a log is a .swf or .swf.gz file"),
        (STUDY.replace('["a.swf"]', '["a.swf", "a.swf"]'), "logs: 'a.swf' is named twice"),
        (STUDY.replace("32", "0"), "nodes = 0: a whole number, 1 to"),
        (STUDY.replace("32", "'many'"), "nodes = 'many': a whole number"),
        (STUDY.replace("32", "[32, 32]"), "1 logs need one number, or one each"),
        (STUDY.replace("32", "4"), "processors and nodes = 4: raise nodes, or leave out the"),
        (STUDY.replace("mebf-spare", "mebf-spair"), "'mebf-spair'; did you mean 'mebf-spare'?"),
        (STUDY.replace("mebf-spare", "easy+nosuch"), "unknown part 'nosuch' of 'easy+nosuch'"),
        (STUDY.replace("1.0", "101"), "shares: 101: a share is a number from 0 to 1, or from 0"),
        (STUDY.replace("1.0", "-1"), "shares: -1: a share is a number from 0 to 1, or from 0"),
        (STUDY.replace("1.0", "nan"), "shares: nan: a share is a number"),
        (STUDY.replace("1.0", "true"), "shares: True: a share is a number"),
        (STUDY.replace("1.0", "20"), "shares = [0.5, 20]: 0.5 may be a fraction, 20 is percent"),
        (STUDY.replace("1.0", "0.5"), "shares: 0.5 is named twice"),
        (STUDY.replace("seeds = 2", ""), "seeds is missing: how many (at least 1)"),
        (STUDY.replace("seeds = 2", "seeds = 0"), "seeds = 0: how many"),
        (STUDY.replace("seeds = 2", "seeds = [-1]"), "seeds: -1: a seed is a whole number from 0"),
        (STUDY.replace("seeds = 2", "seeds = 900000"), "runs: at most 1000000"),
        (SETS.replace("processors = 4\np", "processors = 0\np"), "[[nodes]] 1: processors = 0"),
        (SETS.replace("partitions = ['batch']", "partition = [1]"), "[[nodes]] 1: unknown key"),
        (SETS.replace("partitions = ['batch']", ""), "[[nodes]]: two have neither queues nor"),
        (SETS.replace("batch", "short"), "no job of partition 'short' (field 16); there are"),
        (SETS.replace("['batch']", "[-1]") + "partitions = [-1]", "is of more than one set"),
        (SETS.replace("['batch']", "[-1]").replace("4", "1"), "raise nodes, or leave out the"),
        (SETS + "[[outage]]\nprocessors = 1\nstart_s = 1\nduration_s = 1", "[[nodes]]: not with"),
        ("nodes = [1, {processors = 2}]\n" + SETS.split("[[")[0], "or tables [[nodes]], not both"),
        (STUDY + "days = -1", "days = -1: a number of days from 0 on"),
        (STUDY + "queues = 1", "queues = 1: a list with at least one member is needed"),
        (STUDY + "partitions = [true]", "partitions: True: a number, or a name of the log's"),
        (STUDY + "queues = [3]", "no job of queue 3 (field 15); there are -1"),
        (STUDY + "first_day = 9999", "no job is submitted in the"),
        (STUDY + "warm_up_days = 9999", "no job is submitted after warm_up_days = 9999"),
        (STUDY + "[[reservation]]\nname = 'x'", "[[reservation]]: duration_s is missing"),
        (STUDY + "reservation = 1", "reservation: write [[reservation]], once for each"),
        (
            STUDY + "[[reservation]]\nname='x'\nprocessors=33\nstart_s=1\nduration_s=2",
            "[[reservation]]: the reservation asks for 33 processors, the cluster has 32",
        ),
        (
            STUDY + "[[reservation]]\nname='x'\nprocessors=3\nstart_s=-1\nduration_s=2",
            "[[reservation]]: start_s = -1: a finite number from 0 on",
        ),
        (STUDY + "jobs = 1", "jobs = 1: true or false"),
        (STUDY + "too_large = 'x'", "too_large = 'x': one of 'refuse', 'leave out'"),
        (STUDY + "[malleable]\nmodle = 'x'", "[malleable]: unknown key 'modle'; did you"),
        (STUDY + "[malleable]\nmodel = 'amdal'", "unknown model 'amdal'; did you mean 'amdahl'?"),
        (STUDY + "[malleable]\nserial = 0.1", 'serial is no parameter of the model "power"'),
        (STUDY + "[malleable]\nrho = [0.3, 0.1]", "rho = [0.3, 0.1]: a number, or [low, high]"),
        (STUDY + "[malleable]\nrho = 2", "rho = 2: from 0 to 1"),
        (STUDY + "[malleable]\nsmallest = 3", "in ascending order"),
        (STUDY + "[malleable]\nefficiency = [0.5, 0.7, 0.9]", "falling, from 1 to above 0"),
        (STUDY + "[malleable]\nefficiency = [1, 0.7, 0.5]\nlargest = 9", "give efficiency or"),
        (STUDY + "[malleable]\niterations = 0", "iterations = 0: a whole number, 1 to"),
        (STUDY + "[[variant]]\nmodel = 'amdahl'", "[[variant]]: name is missing"),
        (STUDY + "[[variant]]\nname = 'x'\n[[variant]]\nname = 'x'", "two are named 'x'"),
        (STUDY + "[[variant]]\nname = 'x'\nchain = 'odd'", "[[variant]] 'x': chain = 'odd'"),
        (STUDY + "[scheduler]\nsampels = 3", "unknown setting 'sampels' in [scheduler]"),
        (STUDY + "[scheduler]\npolicy = 'easy'", "a study names its policies in `policies`"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(tmp_path: Path, text: str, says: str) -> None:
    log(tmp_path)
    code, out, err = study(write(tmp_path, text))
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert says in err
    assert "study.toml" in err or "a.swf" in err


def test_places_that_cannot_be_written_and_missing_files(tmp_path: Path) -> None:
    log(tmp_path)
    write(tmp_path)
    (tmp_path / "out").write_text("a file")
    code, _, err = study(tmp_path / "study.toml")
    assert (code, err.count("\n")) == (2, 1)
    assert "this is a file: name a folder" in err
    assert "No such file" in study(tmp_path / "nothing.toml")[2]


def test_a_policy_that_fails_is_named_with_its_run(tmp_path: Path) -> None:
    log(tmp_path)
    (tmp_path / "failing_policy.py").write_text(
        "from dq_server.core.policies.start_backfill import FcfsStart\n\n\n"
        "class Failing(FcfsStart):\n"
        "    def choose(self, state, queue, config, now):\n"
        "        raise RuntimeError('oh')\n"
    )
    path = write(tmp_path, STUDY.replace("mebf-spare", "failing_policy:Failing"))
    code, _, err = study(path, "--no-figures")
    assert code == 2
    assert "a.swf, failing_policy:Failing, share 0.5, seed 0: the simulation fails:" in err
    assert "RuntimeError: oh" in err


def test_a_study_reads_as_it_is_written(tmp_path: Path) -> None:
    log(tmp_path)
    found = read_study(write(tmp_path))
    assert (len(found), found.seeds, found.shares) == (8, (0, 1), (0.5, 1.0))
    assert found.sources[0].path == tmp_path / "a.swf"


def test_the_page_shows_studies_that_can_be_read(tmp_path: Path) -> None:
    log(tmp_path, "trace.swf.gz")
    shown = [block.text for block in of("study")]
    assert len(shown) == 2
    study_of_both = read_study(write(tmp_path, "\n".join(shown)))
    assert [variant.name for variant in study_of_both.variants] == [
        "Amdahl, 1 to 20 % serial",
        "Downey",
    ]
    assert len(study_of_both) == 2 * 3 * 2 * 20
