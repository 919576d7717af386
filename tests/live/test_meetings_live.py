"""A rank that has met many others leaves, the first one, too, and the job goes on with its data."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.live import Live

pytestmark = pytest.mark.live
# Each turn of it checks every element; whoever is rank 0 says its pid, once.
PROGRAM = Path(__file__).parents[2] / "benchmarks" / "_endless_app.py"


def test_rank_0_leaves_once_it_has_met_more_than_most(live: Live, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[scheduler]\nresize = "none"\n[scheduler.meetings]\nmost = 2\n')
    live.up(2, "--config", config)
    stop = tmp_path / "stop"
    job = live.submit("-n", "1", "--sizes", "1,2", "--", "python", PROGRAM, stop)
    live.wait(job, lambda found: found["remap_points"] > 0)
    for size in (2, 1) * 4:
        live.dq("resize", job, size)
        live.wait(job, lambda found: found["processors"] == size)  # noqa: B023
    stop.touch()
    found = live.wait_end(job)
    assert found["state"] == "done", found["reason"]
    pids = live.dq("logs", job).split()
    assert len(pids) == 2, "the third to come stays in place of the first, and has met one since"
    assert (
        "leave, not the last ones: 3 others have joined since that on 0 started, more than 2"
        in (live.dq("why", job))
    )
