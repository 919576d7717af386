"""How often a job asks the server, and that it does what it hears."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from harness.live import Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]
PROGRAM = ("--", "python", "-m", "tests.live.batched")


def test_short_turns_share_reports_and_orders_still_arrive(shared: Live, tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    job = shared.submit("-n", 1, "--sizes", "1,2", *PROGRAM, stop, 2)
    shared.wait(job, lambda j: j["remap_points"] > 3)
    before, begin_s = shared.job(job)["remap_points"], time.monotonic()
    after = shared.wait(job, lambda j: j["remap_points"] > before + 60)["remap_points"]
    assert after - before < 30 * (time.monotonic() - begin_s), "20 a second at most"
    shared.dq("resize", job, 2)
    shared.wait(job, lambda j: j["processors"] == 2)
    stop.touch()
    end = shared.wait_end(job)
    assert end["state"] == "done", shared.dq("logs", job, "--err")
    turns = int(shared.dq("logs", job))
    reported = sum(stay["iterations"] for stay in end["sizes"])
    assert turns - 100 <= reported <= turns, "every turn is counted once, but for the last ones"


def test_a_rigid_job_does_not_report(shared: Live, tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    stop.touch()  # looked at every 20 turns: 0.4 s, in which a malleable job reports
    job = shared.submit("-n", 2, "--kind", "rigid", *PROGRAM, stop, 20)
    end = shared.wait_end(job)
    assert end["state"] == "done", shared.dq("logs", job, "--err")
    assert end["remap_points"] == 0
    assert int(shared.dq("logs", job)) >= 20


def test_a_task_farm_that_is_restarted_does_what_is_left(shared: Live, tmp_path: Path) -> None:
    words = ("--protect", "disk", "--protect-every", "1")
    job = shared.submit("-n", 2, "--sizes", "2", *words,
                         "--", "python", "-m", "tests.live.farming", tmp_path)  # fmt: skip
    end = shared.wait_end(job)
    assert end["state"] == "done", shared.dq("logs", job, "--err")
    assert shared.dq("logs", job).split()[-1] == str(sum(k * k for k in range(120)))
    lives = [{int(p.name[2:]) for p in tmp_path.glob(f"{life}-*")} for life in (1, 2)]
    assert lives[0] | lives[1] == set(range(120))
    assert 60 < len(lives[0]) < 120
    again = lives[0] & lives[1]
    assert len(again) < 40, "what the copy contains is not done again"
