"""`dq watch` and `dq report` beside a real job that grows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from harness.commands import DQ, HANG_S, ROOT, default_interrupts
from harness.live import Live

pytestmark = pytest.mark.live


def test_what_is_watched_is_what_the_server_decided_and_the_report_tells(
    cluster: Live, tmp_path: Path
) -> None:
    stop = tmp_path / "stop"
    job = cluster.submit(
        "--sizes", "1,2", "--", "python", "-m", "tests.live.growing",
        "--n", 100, "--iterations", 1000, "--seconds", 0.2, "--stop", stop,
    )  # fmt: skip
    watch = subprocess.Popen(
        [*DQ, "watch", "--job", str(job), "--json"], env=cluster.env, cwd=ROOT, text=True,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    cluster.wait(job, lambda j: j["processors"] == 2)
    stop.touch()
    watched = [json.loads(line) for line in watch.communicate(timeout=HANG_S)[0].splitlines()]
    whats = [event["what"] for event in watched]
    assert whats[-1] == "done"
    for one, next_one in (("start", "expand"), ("expand", "committed"), ("committed", "done")):
        assert whats.index(one) < whats.index(next_one)
    story = json.loads(cluster.dq("why", job, "--json"))["story"]
    expansions = [line["text"] for line in story if line["what"] == "expand"]
    assert [e["reason"] for e in watched if e["what"] == "expand"] == expansions

    saved = tmp_path / "run.json"
    saved.write_text(cluster.dq("report", "--json"))
    page = tmp_path / "page.html"
    for what in ([], [job], ["last"], [saved]):
        cluster.dq("report", *what, "-o", page)
        assert "1 → 2" in page.read_text()
        page.unlink()
    cluster.dq("report", 77, "-o", page, code=5)
    assert not page.exists()


def test_ctrl_c_ends_the_watch_and_not_the_job(cluster: Live) -> None:
    job = cluster.submit("--hold", "-n", "1", "--", "python", "-c", "pass")
    watch = subprocess.Popen(
        [*DQ, "watch"], env={**cluster.env, "PYTHONUNBUFFERED": "1"}, cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=default_interrupts,
    )  # fmt: skip
    assert watch.stdout is not None
    assert "held" in watch.stdout.readline()
    os.kill(watch.pid, signal.SIGINT)
    _, err = watch.communicate(timeout=HANG_S)
    assert (watch.returncode, err.strip()) == (130, "")
    assert cluster.job(job)["state"] == "held"
