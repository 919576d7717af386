"""Logs: clean, dirty and broken ones."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from dq_server.sim.errors import WorkloadError
from dq_server.sim.swf import FIELDS, only, processors_of, read_swf, write_swf
from dq_server.sim.workload import RigidWorkload
from tests.sim.logs import WriteLog


def line(
    job: int = 1,
    submit: int = 0,
    run: float = 10,
    used: int = 4,
    asked: float = 4,
    estimate: int = 20,
    user: int = 7,
    status: int = -1,
    queue: int = -1,
    partition: int = -1,
) -> str:
    fields: dict[str, float] = dict.fromkeys(FIELDS, -1)
    fields |= {"job": job, "submit_s": submit, "run_s": run, "used_processors": used,
               "requested_processors": asked, "estimate_s": estimate, "user": user,
               "status": status, "queue": queue, "partition": partition}  # fmt: skip
    return " ".join(str(fields[name]) for name in FIELDS)


@pytest.mark.parametrize("name", ["log.swf", "log.swf.gz"])
def test_all_18_fields_are_read(log: WriteLog, name: str) -> None:
    numbers = list(range(1, 19))
    read = read_swf(log(" ".join(map(str, numbers)), name=name))
    assert [read.column(field)[0] for field in FIELDS] == numbers
    assert not read.notes


def test_which_fields_count(log: WriteLog) -> None:
    path = log(
        line(1, asked=8, used=4, run=10, estimate=30),
        line(2, asked=-1, used=5, run=11, estimate=-1),
        line(3, asked=0, used=6, run=12, estimate=0),
    )
    jobs = RigidWorkload.from_log(read_swf(path))
    assert list(jobs.processors) == [8, 5, 6]
    assert list(jobs.run_s) == [10, 11, 12]
    assert list(jobs.estimate_s) == [30, 11, 12]
    assert jobs.spec(0).user == "u7"
    assert jobs.spec(0).group == ""


def test_what_is_odd_is_counted_and_nothing_vanishes_silently(log: WriteLog) -> None:
    path = log(
        line(1, run=0, estimate=-1),
        line(2, run=-1),
        line(3, asked=-1, used=-1),
        line(4, run=50, estimate=20),
        line(5, submit=9),
        line(6, submit=3),
        line(7, submit=-1, run=0),
    )
    read = read_swf(path)
    assert read.notes == {
        "left out: no submission (field 2)": 1,
        "ran 0 s": 1,
        "left out: no run time (field 4)": 1,
        "left out: no processor count (fields 8 and 5)": 1,
        "ran longer than estimated": 1,
        "submitted earlier than the job before": 1,
    }
    assert read.column("job").tolist() == [1, 4, 6, 5]


def test_jobs_cancelled_before_they_started_are_left_out(log: WriteLog) -> None:
    path = log(
        line(1, run=0, status=5), line(2, run=-1, status=5), line(3, run=7, status=5), line(4)
    )
    read = read_swf(path)
    assert read.column("job").tolist() == [3, 4]
    assert read.notes == {"left out: cancelled before it started (status 5)": 2}


def test_partial_records_are_one_job(log: WriteLog) -> None:
    """The archive's format: status 2 and then 3 or 4; a summary of the job may stand before."""
    path = log(
        line(1, run=30, estimate=60, status=1),
        line(1, run=10, status=2),
        line(1, run=20, status=3),
        line(2, submit=5, run=4, used=2, status=2),
        line(2, submit=9, run=6, used=3, status=4),
        line(3, submit=7, run=8, status=2),
    )
    read = read_swf(path)
    assert read.column("job").tolist() == [1, 2, 3]
    assert read.column("submit_s").tolist() == [0, 5, 7]
    assert read.column("run_s").tolist() == [30, 10, 8]
    assert read.column("status").tolist() == [1, 0, 2]
    assert read.column("used_processors").tolist() == [4, 3, 4]
    assert read.notes == {
        "left out: a part of a job whose summary is there (status 2 to 4)": 2,
        "merged: a part of a job without a summary (status 2 to 4)": 1,
    }


def test_repeated_records_count_once_and_numbers_used_twice_are_reported(log: WriteLog) -> None:
    path = log(line(1), line(1), line(2, submit=3), line(2, submit=4), line(-1), line(-1))
    read = read_swf(path)
    assert read.column("job").tolist() == [1, -1, -1, 2, 2]
    assert read.notes == {
        "left out: the same record as the one before of its job": 1,
        "the job number of another job": 1,
        "submitted earlier than the job before": 1,
    }


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("2 5 -1 10", r"log.swf:4: 4 fields, a job has 18"),
        (line(2) + " 5", r"log.swf:4: 19 fields, a job has 18"),
        (line(2).replace("10", "ten"), r"log.swf:4: field 4 \(run_s\) is 'ten', not a number"),
        (line(2).replace("10", "1_000"), r"log.swf:4: field 4 \(run_s\) is '1_000', not a number"),
        (line(2, submit=-5), r"log.swf:4: field 2 \(submit_s\) is -5: a time cannot be negative"),
        (line(2, run=-7), r"log.swf:4: field 4 \(run_s\) is -7"),
        (line(2, estimate=-3), r"log.swf:4: field 9 \(estimate_s\) is -3"),
        (line(2, run=math.nan), r"log.swf:4: a number is not finite"),
        (line(2, asked=2.5), r"log.swf:4: .*not whole"),
    ],
)
def test_a_line_that_is_no_job_is_named(log: WriteLog, bad: str, says: str) -> None:
    with pytest.raises(WorkloadError, match=says):
        read_swf(log(line(1), bad, line(3)))


@pytest.mark.parametrize(
    ("header", "processors"),
    [
        ("; MaxNodes: 48\n; MaxProcs: 96\n", 96),
        ("; MaxNodes: 48 (of two kinds)\n", 48),
        ("; Computer: MaxProcs: 7\n;MaxProcs:100\n", 100),
        ("; MaxProcs: -1\n; Note: none\n", None),
        ("", None),
    ],
)
def test_the_machine_is_in_the_header(log: WriteLog, header: str, processors: int | None) -> None:
    path = log(line(1))
    text = "".join(k for k in path.read_text().splitlines(True) if not k.startswith(";"))
    path.write_text(header + text + "; MaxProcs: 3\n")
    assert processors_of(path) == processors


def test_a_torn_gzip_file_is_named(log: WriteLog) -> None:
    path = log(*(line(k) for k in range(500)), name="torn.swf.gz")
    path.write_bytes(path.read_bytes()[:-400])
    with pytest.raises(WorkloadError, match=r"torn.swf.gz:\d+: the file is torn"):
        read_swf(path)


@pytest.mark.parametrize("text", ["", "; only a comment\n"])
def test_an_empty_log_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "empty.swf").write_text(text)
    with pytest.raises(WorkloadError, match="no job"):
        read_swf(tmp_path / "empty.swf")


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    rows = np.arange(36.0).reshape(2, 18)
    for name in ("a.swf", "a.swf.gz"):
        write_swf(tmp_path / name, rows.tolist(), "Version: 2.2")
        assert (read_swf(tmp_path / name).fields == rows).all()


QUEUES = """; Queue: 1 short
; Queue: 2 long
; Queue: 3 gone
; Partition: 1 gpu and more
"""


def queued(log: WriteLog) -> Path:
    """Jobs 1 to 4 in queues 1, 2, 2, -1 and partitions 1, 1, 2, 2."""
    places = [(1, 1), (2, 1), (2, 2), (-1, 2)]
    return log(QUEUES, *(line(k, queue=q, partition=p) for k, (q, p) in enumerate(places, 1)))


@pytest.mark.parametrize(
    ("queues", "partitions", "left", "counts"),
    [
        ((), (), [1, 2, 3, 4], {}),
        ((2,), (), [2, 3], {"queue": 2}),
        (("long",), (), [2, 3], {"queue": 2}),
        (("2", "short"), (), [1, 2, 3], {"queue": 1}),
        ((-1,), (), [4], {"queue": 3}),
        ((), ("gpu and more",), [1, 2], {"partition": 2}),
        ((2,), (1,), [2], {"queue": 2, "partition": 1}),
        ((1,), (1, 2), [1], {"queue": 3}),
    ],
)
def test_jobs_of_queues_and_partitions(
    log: WriteLog,
    queues: tuple[int | str, ...],
    partitions: tuple[int | str, ...],
    left: list[int],
    counts: dict[str, int],
) -> None:
    kept = only(read_swf(queued(log)), queues, partitions)
    assert kept.column("job").tolist() == left
    fields = {"queue": 15, "partition": 16}
    assert kept.notes == {
        f"left out: of another {name} (field {fields[name]})": n for name, n in counts.items()
    }


@pytest.mark.parametrize(
    ("queues", "partitions", "says"),
    [
        ((3,), (), "no job of queue 3 (field 15); there are -1, 1 (short), 2 (long)"),
        (("gone",), (), "no job of queue 'gone' (field 15); there are -1, 1 (short), 2 (long)"),
        ((), ("7",), "no job of partition '7' (field 16); there are 1 (gpu and more), 2"),
        ((1,), (2,), "no job is of these queues and of these partitions"),
    ],
)
def test_unknown_queues_and_partitions_are_refused(
    log: WriteLog, queues: tuple[int | str, ...], partitions: tuple[int | str, ...], says: str
) -> None:
    with pytest.raises(WorkloadError) as error:
        only(read_swf(queued(log)), queues, partitions)
    assert says in str(error.value)


def test_a_name_that_is_the_number_of_another_queue_is_refused(log: WriteLog) -> None:
    read = read_swf(log("; Queue: 1 2", line(1, queue=1), line(2, queue=2)))
    assert only(read, [2]).column("job").tolist() == [2]
    with pytest.raises(WorkloadError, match="queue '2' is a number, and the header's name of 1"):
        only(read, ["2"])
