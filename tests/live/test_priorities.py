"""`order = "priority"`, live: the queue stands by score, whatever the order of submission."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.live import Live

pytestmark = pytest.mark.live


def test_jobs_start_by_score(live: Live, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        '[scheduler]\norder = "priority"\nresize = "none"\n'
        "[scheduler.priority]\nwait_per_hour = 0.0\nsize_per_processor = 0.0\n"
        "groups = { lab = 3 }\naccounts = { thesis = 2 }\nclasses = { batch = -5 }\n"
        "qos = { urgent = 100 }\n"
    )
    live.up(1, "--config", config)
    gate = tmp_path / "all are submitted"
    live.submit("-n", 1, "--", "sh", "-c", f"until [ -e '{gate}' ]; do sleep 0.1; done")
    wanted = [
        ("--class", "batch"), (), ("--account", "thesis"), ("--group", "lab"),
        ("--priority", 50), ("--qos", "urgent"),
    ]  # fmt: skip
    jobs = [live.submit("-n", 1, *words, "--", "true") for words in wanted]
    gate.touch()
    ended = [live.wait_end(job) for job in jobs]
    starts = [view["start_s"] for view in ended]
    assert starts == sorted(starts, reverse=True)
