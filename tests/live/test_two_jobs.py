"""Two jobs at once, with real MPI processes: give way, run, grow back, both right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.live import Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]


def checked(cluster: Live, job_id: int) -> Any:
    """The application's own verdict on its result."""
    line = next(x for x in cluster.dq("logs", job_id).splitlines() if x.startswith('{"check"'))
    return json.loads(line)


def test_a_grown_job_gives_way_and_grows_back(live: Live, tmp_path: Path) -> None:
    # Every gain counts here: the machine may be too small for real ones. The gain is half a second
    # of an iteration: a machine full of others must not take it away.
    config = tmp_path / "config.toml"
    config.write_text("[scheduler]\nsamples = 1\ndiscard = 0\nthreshold = 0.0\nsettle = 0\n")
    live.up(4, "--config", config)
    stop = tmp_path / "stop"
    long = live.submit("-n", 2, "--sizes", "2,4", "--", "python", "-m", "tests.live.growing",
                       "--n", 96, "--iterations", 1000,
                       "--seconds", 2, "--stop", stop)  # fmt: skip
    live.wait(long, lambda j: j["processors"] == 4)
    short = live.submit("-n", 2, "--sizes", "2", "--", "python", "-m", "apps.matmul",
                        "--n", 400, "--iterations", 3, "--check")  # fmt: skip
    live.wait(short, lambda j: j["state"] in ("running", "done"))
    assert live.wait(long, lambda j: j["state"] == "running")["processors"] == 2
    assert live.wait_end(short)["state"] == "done"
    live.wait(long, lambda j: j["processors"] == 4)
    stop.touch()
    end = live.wait_end(long)
    assert end["state"] == "done"
    assert [s["processors"] for s in end["sizes"]][:4] == [2, 4, 2, 4]
    assert checked(live, long)["ok"]
    assert checked(live, short)["ok"]
    why = json.loads(live.dq("why", long, "--json"))
    gave_way = next(d for d in why["story"] if d["code"] == "shrink_for_waiting")
    assert gave_way["figures"]["head"] == short
    assert gave_way["figures"]["freed"] == 2
