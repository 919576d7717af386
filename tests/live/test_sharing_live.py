"""Strategies for malleable jobs with real ranks, and the forecast of a running server's queue."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.live import Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]

GROWING = ["--", "python", "-m", "tests.live.growing"]


def test_a_job_grows_gives_way_and_the_rest_of_the_queue_is_forecast(
    live: Live, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[scheduler]\npolicy = "shortest-first"\n')
    live.up(4, "--config", config)
    sizes = ["-n", 2, "--min", 1, "--max", 3, "--chain", "multiple"]
    turns = ["--iterations", 1000, "--seconds", 0.4, "--stop", tmp_path / "stop"]
    job = live.submit(*sizes, "--estimate", "60s", *GROWING, *turns)
    live.wait(job, lambda j: j["processors"] == 3)
    other = live.submit("-n", 3, "--kind", "rigid", "--estimate", "5s", "--", "sleep", "0.1")
    assert live.wait_end(other)["state"] == "done"
    whole = live.submit("-n", 4, "--kind", "rigid", "--estimate", "5s", "--", "true")
    told = json.loads(live.dq("sim", "forecast", live.home.journal, "--policy", "easy", "--json"))
    assert [row["job"] for row in told["jobs"]] == [whole]
    starts = told["jobs"][0]["starts"]
    assert starts.keys() == {"as it is", "easy"}
    assert all(0 < of["earliest_s"] <= of["latest_s"] < 600 for of in starts.values())
    (tmp_path / "stop").touch()
    assert live.wait_end(whole)["state"] == "done"
    end = live.wait_end(job)
    assert end["state"] == "done", live.dq("logs", job, "--err", code=None)
    story = json.loads(live.dq("why", job, "--json"))["story"]
    shrink = next(line for line in story if line["what"] == "shrink")
    assert (shrink["code"], shrink["figures"]["head"]) == ("sharing_gives", other)
    assert json.loads(live.dq("sim", "replay", live.home.journal, "--json"))["same"]
