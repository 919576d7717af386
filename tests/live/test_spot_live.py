"""A real job beside a disturber that comes and goes, under the server's own rule."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from dq_client.node.agent.background import sees_all
from harness.bench import until
from harness.live import Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]

WITHIN_S = 100.0  # for each change; it takes a few seconds on a machine that does nothing else
ENOUGH = 15  # turns on 4, to know what they take


def stays_on(live: Live, job: int, size: int, turns: int = 1) -> None:
    """Wait until the job stays on that size."""
    live.wait(
        job,
        lambda j: j["processors"] == size and j["sizes"][-1]["iterations"] >= turns,
        WITHIN_S,
    )


@pytest.mark.alone  # other tests disturb it, too
@pytest.mark.timeout(400)
def test_a_job_follows_a_disturber_that_comes_and_goes(live: Live, tmp_path: Path) -> None:
    live.up(4)
    folder = tmp_path / "signs"
    folder.mkdir()
    words = ("-n", 1, "--sizes", "1,2,4", "--", "python", "-m", "tests.live.disturbed", folder)
    job = live.submit(*words)

    on = partial(stays_on, live, job)
    live.wait(job, lambda j: j["sweet_spot"] == 4, WITHIN_S)  # before that nothing can change
    on(4, ENOUGH)
    (folder / "busy").touch()
    on(2, 6)
    assert live.job(job)["sweet_spot"] == 2
    (folder / "busy").unlink()
    on(4, 6)
    (folder / "stop").touch()
    assert live.wait_end(job)["state"] == "done", live.dq("logs", job, "--err")
    codes = [line["code"] for line in json.loads(live.dq("why", job, "--json"))["story"]]
    came = codes.index("spot_changed")
    assert "spot_kept" in codes[came + 1 :]
    told = live.dq("why", job)
    assert "differ from those by more than noise (rank-sum test" in " ".join(told.split())
    assert json.loads(live.dq("sim", "replay", live.home.journal, "--json"))["same"]


@contextmanager
def disturbed(core: int, by: int = 4) -> Iterator[None]:
    """So many processes that compute on that core all the time, each in a session of its own.

    The kernel may share a core between sessions, not between processes.
    """
    command = [sys.executable, "-c", "while True: pass"]
    there = [subprocess.Popen(command, start_new_session=True) for _ in range(by)]
    try:
        for process in there:
            os.sched_setaffinity(process.pid, {core})
        yield
    finally:
        for process in there:
            process.kill()
            process.wait()


@pytest.mark.alone
@pytest.mark.skipif(not sees_all(), reason="other processes cannot be seen from a container")
@pytest.mark.timeout(400)
def test_a_job_hears_that_others_compute_no_more(live: Live, tmp_path: Path) -> None:
    """Its own times on 2 are the same all the time, and it tries nothing for having waited."""
    config, folder = tmp_path / "config.toml", tmp_path / "signs"
    config.write_text("[scheduler.spot]\nretry = 1_000_000\n")
    folder.mkdir()
    live.up(4, "--config", config)
    words = ("-n", 1, "--sizes", "1,2,4", "--", "python", "-m", "tests.live.disturbed", folder)
    job = live.submit(*words)

    on = partial(stays_on, live, job)
    on(4, ENOUGH)
    if load(live) >= 0.5:
        pytest.skip("processes outside of this test compute here: no load falls when its own ends")
    with disturbed(min(os.sched_getaffinity(0)), by=1):
        (folder / "busy").touch()
        on(2, 6)
        until(lambda: load(live) >= 0.5, "its agent hears of no load", WITHIN_S)
        # After this trial only a load that falls leads back to 4.
        until(lambda: stays(live, job).count(4) > 1, "4 is not tried again", WITHIN_S)
        on(2, 6)
        (folder / "busy").unlink()
    on(4, 6)
    (folder / "stop").touch()
    assert live.wait_end(job)["state"] == "done", live.dq("logs", job, "--err")
    assert "try it again, processes outside DQ have used" in " ".join(live.dq("why", job).split())
    assert json.loads(live.dq("sim", "replay", live.home.journal, "--json"))["same"]


def stays(live: Live, job: int) -> list[int]:
    """The sizes that it has had, in order."""
    return [stay["processors"] for stay in live.job(job)["sizes"]]


def load(live: Live) -> float:
    """What processes outside DQ use of this machine."""
    return float(json.loads(live.dq("nodes", "--json"))["nodes"][0]["load"])
