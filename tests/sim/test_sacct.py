"""`dq sim import`: the output of sacct as a log that can be simulated."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner

from dq_server.sim.cli import sim
from dq_server.sim.errors import WorkloadError
from dq_server.sim.sacct import Accounting, read_sacct
from dq_server.sim.swf import processors_of, read_swf

# As sacct(1) documents its format, and as Slurm 22.05 and later print it.
HEAD = ("JobID|JobIDRaw|State|Submit|Start|End|ElapsedRaw|AllocCPUS|ReqCPUS|AllocNodes|ReqNodes|"
        "TimelimitRaw|ReqMem|User|Account|JobName|QOS|Partition")  # fmt: skip
RECORDED = Path(__file__).with_name("sacct-22.05.8.txt")
TAIL = "ann|physics|relax|normal|batch"


def row(
    job: str,
    state: str = "COMPLETED",
    submit: str = "08:00:00",
    start: str = "08:05:00",
    run: int | str = 600,
    cpus: int = 4,
    asked: int = 4,
    nodes: int = 1,
    limit: str = "60",
    memory: str = "8G",
    tail: str = TAIL,
    raw: str | None = None,
) -> str:
    began = f"2026-03-01T{start}" if start[:1].isdigit() else start
    raw = job if raw is None else raw
    times = f"2026-03-01T{submit}|{began}|Unknown|{run}"
    return f"{job}|{raw}|{state}|{times}|{cpus}|{asked}|{nodes}|1|{limit}|{memory}|{tail}"


def read(tmp_path: Path, *rows: str, head: str = HEAD, **how: Any) -> Accounting:
    path = tmp_path / "sacct.txt"
    path.write_text("\n".join((head, *rows)) + "\n")
    return read_sacct(path, **how)


def invoke(*args: Any) -> tuple[int, str, str]:
    result = CliRunner().invoke(sim, ["import", *map(str, args)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def test_a_site_in_every_odd_case(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        row("7", cpus=8, nodes=2, asked=6),
        row("7.batch", cpus=8),
        row("7.0", cpus=8),
        row("8", "CANCELLED by 1000", "08:01:00", "None", 0, cpus=0, limit="UNLIMITED"),
        row("9", "CANCELLED by 1000", "08:01:00", run=30),
        row("10_1", "TIMEOUT", raw="10"),
        row("10_2", "OUT_OF_MEMORY", raw="11"),
        row("12", "NODE_FAIL", "08:10:00", "08:11:00", 50),
        row("12", "COMPLETED", "08:12:00", "08:20:00", 70),
        row("13+0", submit="08:30:00", start="08:31:00", raw="13"),
        row("13+1", submit="08:30:00", start="08:31:00", raw="14", cpus=12, run=630),
        row("15", "RUNNING"),
        row("16", "PENDING", start="Unknown", run=0),
        row("17", "MELTED", "08:50:00"),
        row("17", "MELTED", "08:50:00"),
    )
    jobs = {job.key: job for job in found.jobs}
    assert list(jobs) == ["7", "10", "11", "8", "9", "12", "13", "17"]
    assert [jobs[k].size for k in ("7", "8", "13")] == [8, 4, 16]
    assert [jobs[k].run_s for k in ("8", "9", "12", "13")] == [0, 30, 70, 630]
    assert jobs["12"].submit_s - jobs["7"].submit_s == 600  # the first submission counts
    assert [jobs[k].estimate_s for k in ("7", "8")] == [3600, -1]
    assert found.notes == {
        "steps ignored": 2,
        "left out: not ended": 2,
        "other starts of a job that was requeued, left out": 1,
        "components of a heterogeneous job, added to it": 1,
        "cancelled before they started (status 5)": 1,
        "the same record again, left out": 1,
        "of unknown state MELTED": 1,
    }
    status = {int(fields[0]): fields[10] for fields in found.rows()}
    assert status == {7: 1, 10: 0, 11: 0, 8: 5, 9: 5, 12: 1, 13: 1, 17: -1}


def test_a_job_cancelled_while_it_waited_to_run_again_is_the_one_that_ran(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        row("3", "PREEMPTED", "08:00:00", "08:10:00", 40),
        row("3", "CANCELLED by 5", "08:00:00", "None", 0, cpus=0),
    )
    assert [(job.state, job.run_s) for job in found.jobs] == [("PREEMPTED", 40)]


@pytest.mark.parametrize(
    ("memory", "kib"),
    [
        ("8G", 2 * 1024**2),  # of the job: 4 processors
        ("2000Mc", 2000 * 1024),  # of a processor
        ("8Gn", 4 * 1024**2),  # of a node: 2 nodes
        ("512", 128 * 1024),
        ("0", -1),
        ("", -1),
    ],
)
def test_memory_is_that_of_a_processor(tmp_path: Path, memory: str, kib: float) -> None:
    found = read(tmp_path, row("1", memory=memory, nodes=2))
    assert found.jobs[0].memory_kib == kib


def test_columns_of_other_sites(tmp_path: Path) -> None:
    """Trailing bars (-p), durations in words, nodes instead of processors, epoch times."""
    found = read(
        tmp_path,
        "5|COMPLETED|1000|1100|9999|1-01:00:10|3|02:30:00|",
        "6|FAILED|1001|1100|9999|05:10|2K|Partition_Limit|",
        head="JobID|State|Submit|Start|End|Elapsed|NNodes|Timelimit|",
    )
    assert found.unit == "nodes"
    assert [(j.submit_s, j.run_s, j.size, j.estimate_s) for j in found.jobs] == [
        (1000, 90010, 3, 9000),
        (1001, 310, 2000, -1),
    ]
    only_times = read(
        tmp_path, "5|COMPLETED|1000|1100|1150|2", head="JobID|State|Submit|Start|End|NCPUS"
    )
    assert only_times.jobs[0].run_s == 50


def test_summer_time_does_not_move_jobs(tmp_path: Path) -> None:
    """Europe/Berlin goes from 2 to 3 o'clock on 29 March 2026."""
    head = "JobID|State|Submit|ElapsedRaw|AllocCPUS"
    rows = [
        f"{n}|COMPLETED|2026-03-29T{clock}|10|1" for n, clock in enumerate(("01:30:00", "03:30:00"))
    ]
    naive = read(tmp_path, *rows, head=head).jobs
    local = read(tmp_path, *rows, head=head, zone=ZoneInfo("Europe/Berlin")).jobs
    assert naive[1].submit_s - naive[0].submit_s == 7200
    assert local[1].submit_s - local[0].submit_s == 3600


def test_the_log_is_simulated_and_names_stay_at_home(tmp_path: Path) -> None:
    source, log = tmp_path / "sacct.txt", tmp_path / "site.swf.gz"
    rows = [row(str(n), submit=f"08:{n:02}:00", start=f"09:{n:02}:00") for n in range(1, 9)]
    rows.append(row("20", "CANCELLED by 3", "08:30:00", "None", 0, cpus=0, asked=9999))
    rows.append(row("30", tail="bob|chem|md|high|gpu", cpus=2, start="08:01:00"))
    source.write_text("\n".join((HEAD, *rows)) + "\n")
    code, out, err = invoke(source, "-o", log)
    assert (code, out) == (0, f"{log}: 10 jobs, a machine of 32 processors\n")
    assert "1 records: cancelled before they started (status 5)" in err
    assert processors_of(log) == 32
    read_back = read_swf(log)
    assert read_back.notes == {"left out: cancelled before it started (status 5)": 1}
    assert read_back.column("wait_s").tolist() == [60, *[3600] * 8]
    assert set(read_back.column("user").tolist()) == {1, 2}
    text = gzip.decompress(log.read_bytes()).decode()
    assert "; Partition: 2 batch" in text
    assert not {"ann", "bob", "relax", "physics"} & set(text.replace("\n", " ").split())
    ran = CliRunner().invoke(sim, ["run", str(log), "--policy", "easy", "--json"])
    assert ran.exit_code == 0
    one = tmp_path / "gpu.swf"
    assert invoke(source, "-o", one, "--partition", "gpu", "--nodes", 64)[0] == 0
    assert (len(read_swf(one).fields), processors_of(one)) == (1, 64)


def test_what_a_real_slurm_printed_is_imported_simulated_and_reported(tmp_path: Path) -> None:
    """Slurm 22.05.8 with slurmdbd, four nodes of two processors, the command of docs/studies.md.

    Run there: wide jobs, an array, a heterogeneous job, one that failed, one that timed out, jobs
    cancelled while they waited (twice) and ran, a requeued one, and one that still ran.
    """
    log = tmp_path / "site.swf"
    code, out, err = invoke(RECORDED, "-o", log)
    assert (code, out) == (0, f"{log}: 16 jobs, a machine of 8 processors\n")
    for note in ("2 records: cancelled before they started (status 5)", "17 records: steps ignored",
                 "1 records: components of a heterogeneous job", "1 records: left out: not ended",
                 "1 records: other starts of a job that was requeued"):  # fmt: skip
        assert note in err
    found = read_swf(log)
    columns = ("job", "submit_s", "wait_s", "run_s", "requested_processors", "estimate_s")
    jobs = {row[0]: row[1:] for row in zip(*(found.column(c).tolist() for c in columns),
                                           strict=True)}  # fmt: skip
    assert jobs.keys() == {1, 2, 3, 4, 7, 8, 9, 10, 11, 13, 15, 16, 17, 18}
    assert jobs[2] == (0, 74, 8, 8, 300)
    assert jobs[10] == (1, 6, 67, 1, 60)  # its time ended
    assert jobs[11] == (1, 8, 5, 3, 120)  # both components
    assert jobs[17] == (107, 125, 6, 2, 300)  # the second start, since the first submission
    (tmp_path / "study.toml").write_text(
        'logs = ["site.swf"]\npolicies = ["easy", "shortest-first"]\nshares = [1.0]\nseeds = 2\n'
    )
    words = ["study", str(tmp_path / "study.toml"), "-o", str(tmp_path / "out"), "--no-figures",
             "--processes", "1"]  # fmt: skip
    assert CliRunner().invoke(sim, words).exit_code == 0
    report = (tmp_path / "out" / "report.md").read_text()
    assert "On site.swf, against easy:" in report
    assert "2 jobs: left out: cancelled before it started (status 5)" in report


@pytest.mark.parametrize(
    ("lines", "args", "says"),
    [
        ([], [], "sacct.txt:1: not the output of `sacct -P` with its header"),
        (["JobID|State"], [], "sacct.txt:1: no column Submit, ElapsedRaw, AllocCPUS: sacct -a"),
        ([HEAD], [], "sacct.txt: no job in it has ended"),
        ([HEAD, row("1", "RUNNING")], [], "no job in it has ended"),
        ([HEAD, row("1") + "|x"], [], "sacct.txt:2: 19 fields, the header has 18"),
        (
            [HEAD, row("1", submit="noon")],
            [],
            "sacct.txt:2: job 1: '2026-03-01Tnoon' is not a time",
        ),
        ([HEAD, row("1", run="long")], [], "sacct.txt:2: job 1: ElapsedRaw is 'long', not seconds"),
        ([HEAD, row("1", "CANCELLED", start="None", run=0)], [], "sacct.txt: no job in it ran"),
        (
            [HEAD, row("1")],
            ["--partition", "gpu"],
            "no job is in partition 'gpu'; there are: batch",
        ),
        ([HEAD, row("1")], ["--timezone", "Mars"], "--timezone Mars: no such zone"),
        ([HEAD, row("1")], ["--nodes", "3"], "--nodes 3: a job had 4 processors"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path, lines: list[str], args: list[str], says: str
) -> None:
    source, log = tmp_path / "sacct.txt", tmp_path / "x.swf"
    source.write_text("\n".join(lines) + "\n")
    code, out, err = invoke(source, "-o", log, *args)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err
    assert not log.exists()


def test_wrong_files_are_one_line(tmp_path: Path) -> None:
    assert "No such file" in invoke(tmp_path / "none", "-o", tmp_path / "x.swf")[2]
    assert "must end in .swf" in invoke(tmp_path / "none", "-o", tmp_path / "x.txt")[2]
    (tmp_path / "a.swf").write_text(f"{HEAD}\n{row('1')}\n")
    assert "this is the input" in invoke(tmp_path / "a.swf", "-o", tmp_path / "a.swf")[2]
    with pytest.raises(WorkloadError, match="No such file"):
        read_sacct(tmp_path / "none")
