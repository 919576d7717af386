"""A policy that does not come with DQ schedules real jobs: docs/examples/gentle.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.live import Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
GROWING = ["--", "python", "-m", "tests.live.growing", "--iterations", 1000, "--seconds", 0.3]


def test_a_job_expands_to_its_share_and_gives_way(
    live: Live,
    tmp_path: Path,
) -> None:
    live.env["PYTHONPATH"] = str(EXAMPLES)
    config = tmp_path / "config.toml"
    config.write_text('[scheduler]\nresize = "gentle:EvenShare"\n[scheduler.gentle]\nslack = 1\n')
    live.up(4, "--config", config)
    job = live.submit("-n", 1, "--min", 1, "--max", 4, "--chain", "multiple",
                      *GROWING, "--stop", tmp_path / "stop")  # fmt: skip
    live.wait(job, lambda j: j["processors"] == 4)
    other = live.submit("-n", 2, "--kind", "rigid", "--", "sleep", "0.1")
    assert live.wait_end(other)["state"] == "done"
    (tmp_path / "stop").touch()
    assert live.wait_end(job)["state"] == "done"
    story = json.loads(live.dq("why", job, "--json"))["story"]
    moves = [(line["what"], line["figures"]["next_size"]) for line in story
             if line["code"] == "gentle_moves"]  # fmt: skip
    assert moves[:2] == [("expand", 4), ("shrink", 2)]
    assert json.loads(live.dq("sim", "replay", live.home.journal, "--json"))["same"]
