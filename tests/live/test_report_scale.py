"""10,000 jobs in one request and in one report; by hand: `pytest -m slow -s` prints the times."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from harness.live import Live

pytestmark = [pytest.mark.live, pytest.mark.slow]

NAME = "漢字" * 20 + "x" * 40


def test_ten_thousand_jobs_in_a_report(live: Live, tmp_path: Path) -> None:
    live.up(2)
    took = {}
    for jobs in (1000, 10_000):
        begin = time.monotonic()
        live.dq("submit", "--array", f"0-{jobs - 1}", "-n", 1, "--name", NAME, "--", "sleep", 600)
        took[f"{jobs} jobs submitted"] = time.monotonic() - begin
        if jobs == 1000:
            live.dq("kill", 1)
    report, times = tmp_path / "report.html", []
    for _ in range(5):
        begin = time.monotonic()
        live.dq("report", "-o", report)
        times.append(time.monotonic() - begin)
    took["report of 11,000 jobs"] = sorted(times)[2]
    assert report.stat().st_size < 2_000_000
    shown = "; ".join(f"{what}: {s:.2f} s" for what, s in took.items())
    print(f"\n{shown}, {report.stat().st_size / 1e6:.2f} MB")
