"""Real jobs that rest: they report little, and are there when something changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dq_server.core.model import events as ev
from harness.bench import until
from harness.live import Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]

WITHIN_S = 200.0  # for each wait; it takes some seconds on a machine that does nothing else
SETTLED = 40  # remap points on the sweet spot: then a rest is of four or five
NOTICED_WITHIN = 10  # iterations that take 30 % longer
SLOW_S = 0.57  # half of the way from what an iteration takes on 4


def told(live: Live, after: int = 0) -> list[tuple[ev.RemapPoint, str]]:
    """The remap points that were reported after an event, with what they were answered."""
    return [
        (entry.event, entry.actions)
        for entry in live.entries()
        if isinstance(entry.event, ev.RemapPoint) and entry.seq > after
    ]


def silent(live: Live) -> int:
    """The most remap points that were passed without a report."""
    return max((point.silent for point, _ in told(live)), default=0)


def settles(live: Live, folder: Path) -> int:
    """A job that is on its sweet spot of 4 and has rested there."""
    config = folder.parent / "config.toml"
    config.write_text("[scheduler.spot]\nretry = 1_000_000\n")
    folder.mkdir()
    live.up(4, "--config", config)
    words = ("-n", 1, "--sizes", "1,2,4", "--", "python", "-m", "tests.live.resting", folder)
    job = live.submit(*words)
    live.wait(
        job,
        lambda j: j["processors"] == 4 and j["sizes"][-1]["iterations"] >= SETTLED,
        WITHIN_S,
    )
    return job


def codes(live: Live, job: int) -> list[str]:
    return [line["code"] for line in json.loads(live.dq("why", job, "--json"))["story"]]


@pytest.mark.alone  # its own times must be the usual ones
@pytest.mark.timeout(600)
def test_a_change_of_its_times_is_noticed_within_ten_iterations(live: Live, tmp_path: Path) -> None:
    folder = tmp_path / "signs"
    job = settles(live, folder)
    (folder / "slow").touch()
    until(lambda: "spot_changed" in codes(live, job), "no change is noticed", WITHIN_S)
    (folder / "stop").touch()
    assert live.wait_end(job)["state"] == "done", live.dq("logs", job, "--err")
    assert silent(live) > 2, "it has reported nearly every remap point"
    assert slow_until_noticed(live) <= NOTICED_WITHIN
    assert json.loads(live.dq("sim", "replay", live.home.journal, "--json"))["same"]


def slow_until_noticed(live: Live) -> int:
    """Iterations that took longer, up to the answer that says so; each was a remap point."""
    seen = 0
    for point, answer in told(live):
        times_s = (*point.passed, point.iteration_time_s) if point.processors == 4 else ()
        seen += sum(time_s > SLOW_S for time_s in times_s)
        if "spot_changed" in answer:
            return seen
    raise AssertionError("no answer says so")


@pytest.mark.alone
@pytest.mark.timeout(600)
def test_who_rests_gives_way_at_the_next_iteration(live: Live, tmp_path: Path) -> None:
    """A rest is of five iterations and more by then; a ring ends it."""
    folder = tmp_path / "signs"
    job = settles(live, folder)
    live.wait(job, lambda _: silent(live) > 2, WITHIN_S)
    waits = live.submit("-n", 3, "--", "true")
    live.wait_end(waits, WITHIN_S)
    (folder / "stop").touch()
    assert live.wait_end(job)["state"] == "done", live.dq("logs", job, "--err")
    submitted = max(
        entry.seq for entry in live.entries() if isinstance(entry.event, ev.JobSubmitted)
    )
    (point, answer), *_ = told(live, submitted)
    assert point.silent <= 40 // 8 + 1
    assert "shrink_for_waiting" in answer, "at the first remap point after the submission"
