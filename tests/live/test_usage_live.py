"""CPU time and memory of a real job: one of two ranks computes and holds 200 MiB."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.live import Live
from tests.live.browsing import browser, until
from tests.live.test_web import Page

pytestmark = [pytest.mark.live, pytest.mark.mpi]

PROGRAM = """
import os, sys, time
from mpi4py import MPI
rank = MPI.COMM_WORLD.rank
held = b"" if rank else os.urandom(1 << 20) * 200
while not os.path.exists(sys.argv[1]):
    if rank:
        time.sleep(0.05)
"""
HELD = 200 << 20


def shown(job: Any) -> bool:
    """Whether both ranks were measured twice, after the first has its memory."""
    usage = job["usage"] or {"ranks": ()}
    busy = [rank["cpu"] for rank in usage["ranks"] if rank["cpu"] is not None]
    return len(busy) == 2 and busy[0] > busy[1] and usage["memory"] > HELD


@pytest.fixture
def job(live: Live, tmp_path: Path) -> int:
    (tmp_path / "program.py").write_text(PROGRAM)
    live.up(2)
    words = ["--name", "uneven", "--", sys.executable, tmp_path / "program.py", tmp_path / "gate"]
    number = live.submit("-n", 2, "--kind", "rigid", *words)
    live.wait(number, shown, 120)
    return number


def test_it_is_seen_which_rank_computes_and_which_holds_memory(
    live: Live, job: int, tmp_path: Path
) -> None:
    usage = live.job(job)["usage"]
    first, second = usage["ranks"]
    assert (first["node"], first["rank"], second["rank"]) == ("n01", 0, 1)
    assert first["memory"] > HELD > second["memory"]
    text = live.dq("job", job)
    assert "CPU time:" in text and "memory:" in text and "BUSY" in text
    before_s = usage["cpu_s"]
    (tmp_path / "gate").touch()
    live.wait_end(job)
    row = json.loads(live.dq("acct", "--json"))["jobs"][0]
    assert row["cpu_s"] >= before_s and row["memory_max"] > HELD
    assert row["cpu_efficiency"] == pytest.approx(row["cpu_s"] / row["processor_s"])
    # What no measurement has met is counted at the end.
    spin = "import time\nwhile time.process_time() < 0.3: pass"
    short = live.submit("-n", 1, "--kind", "rigid", "--", sys.executable, "-c", spin)
    live.wait_end(short)
    assert live.job(short)["usage"]["cpu_s"] >= 0.3
    live.dq("server", "stop")
    live.dq("server", "start", "--detach")
    assert live.job(short)["usage"]["cpu_s"] >= 0.3


@pytest.mark.browser
def test_the_page_and_prometheus_show_it(live: Live, job: int, tmp_path: Path) -> None:
    pytest.importorskip("uvicorn", reason="dq web needs the extra web")
    url = json.loads(live.dq("web", "--detach", "--json"))["url"]
    live.wait(job, lambda j: len(j["usage"]["history"]) > 2, 120)
    with browser() as driver:
        driver.get(url)
        row = "document.querySelector('.row.job')"
        until(driver, f"{row}?.textContent ?? ''", lambda text: "MiB" in text and "busy" in text)
        driver.execute_script(f"{row}.click()")
        driver.execute_script("document.querySelector('[data-tab=usage]').click()")
        text_of = "document.getElementById('tab').textContent"
        text = until(driver, text_of, lambda text: "in all" in text and "n02" in text)
        assert "rank" in text and "MiB now, at most" in text
        assert driver.execute_script("return document.querySelectorAll('svg.usage').length") == 2
        assert [e for e in driver.get_log("browser") if e["level"] == "SEVERE"] == []
    page = Page(url)
    status, figures = page.get("/metrics")
    assert status == 200
    (line,) = [x for x in figures.splitlines() if x.startswith("dq_job_memory_bytes{")]
    assert f'job="{job}",name="uneven"' in line and float(line.split()[-1]) > HELD
    assert "dq_job_cpu_busy{" in figures
    (tmp_path / "gate").touch()
