"""How often a job asks the server, and how soon it does what it hears."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from harness.live import Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]
PROGRAM = ("--", "python", "-m", "tests.live.batched")


def test_short_turns_share_reports_and_orders_are_still_prompt(
    cluster: Live, tmp_path: Path
) -> None:
    stop = tmp_path / "stop"
    job = cluster.submit("-n", 1, "--sizes", "1,2", *PROGRAM, stop, 2)
    cluster.wait(job, lambda j: j["remap_points"] > 3)
    before, begin_s = cluster.job(job)["remap_points"], time.monotonic()
    time.sleep(2.0)
    reports = cluster.job(job)["remap_points"] - before
    assert 2 < reports < 30 * (time.monotonic() - begin_s), "20 a second at most"
    cluster.dq("resize", job, 2)
    begin_s = time.monotonic()
    cluster.wait(job, lambda j: j["processors"] == 2)
    assert time.monotonic() - begin_s < 5.0
    stop.touch()
    end = cluster.wait_end(job)
    assert end["state"] == "done", cluster.dq("logs", job, "--err")
    turns = int(cluster.dq("logs", job))
    reported = sum(stay["iterations"] for stay in end["sizes"])
    assert turns - 100 <= reported <= turns, "every turn is counted once, but for the last ones"


def test_a_rigid_job_does_not_report(cluster: Live, tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    job = cluster.submit("-n", 2, "--kind", "rigid", *PROGRAM, stop, 2)
    cluster.wait(job, lambda j: j["state"] == "running")
    time.sleep(1.0)
    stop.touch()
    end = cluster.wait_end(job)
    assert end["state"] == "done", cluster.dq("logs", job, "--err")
    assert end["remap_points"] == 0
    assert int(cluster.dq("logs", job)) >= 20


def test_a_task_farm_that_is_restarted_does_what_is_left(cluster: Live, tmp_path: Path) -> None:
    words = ("--protect", "disk", "--protect-every", "1")
    job = cluster.submit("-n", 2, "--sizes", "2", *words,
                         "--", "python", "-m", "tests.live.farming", tmp_path)  # fmt: skip
    end = cluster.wait_end(job)
    assert end["state"] == "done", cluster.dq("logs", job, "--err")
    assert cluster.dq("logs", job).split()[-1] == str(sum(k * k for k in range(120)))
    lives = [{int(p.name[2:]) for p in tmp_path.glob(f"{life}-*")} for life in (1, 2)]
    assert lives[0] | lives[1] == set(range(120))
    assert 60 < len(lives[0]) < 120
    again = lives[0] & lives[1]
    assert len(again) < 40, "what the copy contains is not done again"
