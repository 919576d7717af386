"""Several grids of one size with real ranks: tried, the faster one kept, the result right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.live import Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]


def test_a_job_finds_the_grid_that_is_faster_and_its_product_is_right(
    live: Live, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    # The thesis's rule goes through the grids of a size; a search leaves it if the first is slow.
    config.write_text('[scheduler]\nsamples = 2\nsweet_spot = "thesis"\n')
    live.up(4, "--config", config)
    stop = tmp_path / "stop"
    words = ("--flat", "--n", 200, "--iterations", 1000, "--seconds", 0.8, "--stop", stop)
    job = live.submit("-n", 2, "--sizes", "2,2x2,1x4", "--app-name", "flat",
                      "--", "python", "-m", "tests.live.growing", *words)  # fmt: skip
    live.wait(job, lambda _: "grid_kept" in live.dq("why", job, "--json"))
    stop.touch()
    end = live.wait_end(job)
    assert end["state"] == "done", live.dq("logs", job, "--err")
    assert json.loads(live.dq("logs", job))["ok"]
    assert end["legal_grids"] == [[1, 2], [2, 2], [1, 4]]
    assert "legal_grids:  1x2 2x2 1x4" in live.dq("job", job)
    assert [stay["grid"] for stay in end["sizes"]] == [[1, 2], [2, 2], [1, 4]]
    assert [stay["decision"] for stay in end["sizes"]] == ["expand", "regrid", "continue"]
    story = json.loads(live.dq("why", job, "--json"))["story"]
    kept = next(line for line in story if line["code"] == "grid_kept")
    figures = kept["figures"]
    assert (figures["grid"], figures["other_grid"]) == ("1x4", "2x2")
    assert figures["time_s"] < figures["other_time_s"]
    assert "1x4 is used from now on" in live.dq("why", job)
    assert json.loads(live.dq("sim", "replay", live.home.journal, "--json"))["same"]
    ran = json.loads(live.dq("sim", "replay", live.home.journal, "--policy", "reshape", "--json"))
    assert ran["runs"][0]["jobs"] == 1
