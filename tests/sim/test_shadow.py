"""`dq sim shadow`: a policy beside the server whose journal grows."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dq_server.core.model import events as ev
from dq_server.core.model.jobs import JobKind, JobSpec
from dq_server.core.model.sizes import configurations
from dq_server.core.settings import configured
from dq_server.sim.cli import sim
from harness.commands import ROOT, default_interrupts
from tests.sim.test_replay import Recorder

ONE, ALL = configurations([1, 4])


def submit(r: Recorder, shape: Any, walltime_s: float) -> None:
    r.do(ev.JobSubmitted(JobSpec("job", JobKind.RIGID, shape, (shape,), walltime_s=walltime_s)))


def end(r: Recorder, job: int, now: float) -> None:
    r.now = now
    r.do(ev.JobEnded(job, 1, 0))
    r.do(ev.ProcessorsVacated(job, ()))


def started(r: Recorder, *jobs: int) -> None:
    for job in jobs:
        r.do(ev.JobStarted(job, 1))


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    """A server with FCFS: job 3 could be backfilled before job 2, which needs all processors."""
    r = Recorder(tmp_path / "journal.sqlite")
    r.do(ev.Configured(configured(start="fcfs", confirm_vacated=False)))
    r.do(ev.NodeJoined("n1", 4))
    submit(r, ONE, 100.0)
    started(r, 1)
    submit(r, ALL, 50.0)
    submit(r, ONE, 20.0)
    end(r, 1, 90.0)
    started(r, 2)
    end(r, 2, 130.0)
    started(r, 3)
    end(r, 3, 150.0)
    return r


def shadow(*words: Any) -> tuple[int, str, str]:
    result = CliRunner().invoke(sim, ["shadow", *map(str, words)])
    return result.exit_code, result.stdout, result.stderr


def test_what_happened_beside_what_another_policy_would_have_done(recorder: Recorder) -> None:
    recorder.journal.close()
    code, out, err = shadow(recorder.path, "--policy", "easy", "--policy", "fcfs", "--jobs",
                            "--json")  # fmt: skip
    assert (code, err) == (0, "")
    body = json.loads(out)
    assert [run["policy"] for run in body["runs"]] == ["as it was", "easy", "fcfs"]
    waits = {policy: [job["times"][policy]["wait_s"] for job in body["jobs"]]
             for policy in ("as it was", "easy", "fcfs")}  # fmt: skip
    assert waits == {"as it was": [0, 90, 130], "easy": [0, 90, 0], "fcfs": [0, 90, 130]}
    was, easy, fcfs = body["runs"]
    assert was["mean_turnaround_s"] == pytest.approx((90 + 130 + 150) / 3)
    assert easy["mean_turnaround_s"] == pytest.approx((90 + 130 + 20) / 3)
    same = set(was) - {"policy", "backfilled", "notes"}
    assert {name: was[name] for name in same} == {name: fcfs[name] for name in same}
    text = shadow(recorder.path, "--policy", "easy", "--jobs")[1]
    assert "easy: 1 of 3 jobs would have ended sooner, 0 later" in text
    assert "wait [s] (as it was)" in text


def test_only_the_last_jobs_count_and_those_that_run_are_left_out(recorder: Recorder) -> None:
    recorder.now = 7200.0
    submit(recorder, ONE, 10.0)
    started(recorder, 4)
    end(recorder, 4, 7205.0)
    submit(recorder, ONE, 10.0)
    started(recorder, 5)
    recorder.journal.close()
    code, out, err = shadow(recorder.path, "--policy", "easy", "--last", 1, "--json")
    assert (code, err) == (0, "")
    for run in json.loads(out)["runs"]:
        assert run["jobs"] == 1 and run["mean_turnaround_s"] == 5
        assert run["notes"]["left out: did not run to an end"] == 1


def test_it_follows_a_server(recorder: Recorder) -> None:
    recorder.journal.commit()
    program = [sys.executable, "-c", "from dq_server.sim.cli import sim; sim()", "shadow",
               str(recorder.path), "--policy", "easy", "--follow", "0.05", "--json"]  # fmt: skip
    process = subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, text=True,
                               preexec_fn=default_interrupts)  # fmt: skip
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["runs"][1]["jobs"] == 3
        submit(recorder, ONE, 10.0)
        started(recorder, 4)
        end(recorder, 4, 160.0)
        assert json.loads(process.stdout.readline())["runs"][1]["jobs"] == 4
    finally:
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate()
        recorder.journal.close()
    assert (process.returncode, rest) == (0, "")


def test_mistakes_are_one_line(recorder: Recorder, tmp_path: Path) -> None:
    empty = Recorder(tmp_path / "empty.sqlite")
    empty.do(ev.NodeJoined("n1", 4))
    for r in (recorder, empty):
        r.journal.close()
    for words, says in (
        ([recorder.path], "Missing option '--policy'"),
        ([recorder.path, "--policy", "eazy"], "unknown policy"),
        ([recorder.path, "--policy", "easy", "--last", 0], "--last"),
        ([recorder.path, "--policy", "easy", "--last", 1e-6], "no ended job was submitted in"),
        ([tmp_path, "--policy", "easy"], "name the journal"),
        ([empty.path, "--policy", "easy"], "no job has ended yet"),
    ):
        code, out, err = shadow(*words)
        assert (code, out, err.count("\n")) == (2, "", 1) and says in err, err
