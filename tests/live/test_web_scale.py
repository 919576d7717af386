"""The live page with 10,000 jobs on 1,000 nodes: what is not in sight is not made.

By hand: `pytest -m slow -s tests/live/test_web_scale.py` prints frames per second while it scrolls,
and what the page has in memory over ten minutes of updates.
"""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="dq web needs the extra web")

from dq_client.show.feed.model import Model
from tests.live.browsing import browser, until
from tests.live.played_page import answer, node, served

pytestmark = [pytest.mark.slow, pytest.mark.browser]

NODES, SLOTS, JOBS, WIDE = 1000, 4, 10_000, 8
FRAMES = """
const box = document.getElementById(arguments[0]), done = arguments[1], length_ms = 3000;
const began = performance.now();
let frames = 0, rows = 0;
function step() {
  const at = performance.now() - began;
  box.scrollTop = (at * 3) % Math.max(1, box.scrollHeight - box.clientHeight);
  frames += 1;
  rows = Math.max(rows, document.querySelectorAll('.row').length);
  if (at < length_ms) requestAnimationFrame(step);
  else done([frames * 1000 / at, rows]);
}
requestAnimationFrame(step);
"""


def job(n: int, now: float) -> dict[str, Any]:
    """Job n of a cluster that is full: some stays, each on whole nodes."""
    lanes, length_s = NODES // WIDE, 60.0
    since_s = now - (JOBS - n) // lanes * length_s
    first = n % lanes * WIDE
    ends_s = since_s + length_s
    ended = ends_s < now
    places = [
        {
            "since_s": since_s + k * length_s / 2,
            "until_s": since_s + (k + 1) * length_s / 2 if ended or k == 0 else None,
            "nodes": {f"n{first + m}": f"0-{SLOTS - 1}" for m in range(WIDE // (2 - k))},
        }
        for k in range(2)
    ]
    return {
        "id": n, "name": f"job {n}", "kind": "malleable", "state": "done" if ended else "running",
        "submit_s": since_s - 30, "start_s": since_s, "end_s": ends_s if ended else None,
        "processors": WIDE * SLOTS, "grid": [WIDE, SLOTS], "sweet_spot": None, "user": "somebody",
        "remap_points": 10, "reason": None, "sizes": [], "places": places,
    }  # fmt: skip


def test_ten_thousand_jobs_on_a_thousand_nodes() -> None:
    now, model = time.time(), Model()
    model.take(answer(whole=True, nodes=[node(n, SLOTS) for n in range(NODES)]))
    model.take(answer(jobs=[job(n, now) for n in range(1, JOBS + 1)]))
    with served(model) as (url, _), browser() as driver:
        driver.get(url)
        until(driver, "document.querySelectorAll('#nodes .row').length", lambda n: n > 5, 60)
        driver.execute_script(
            "const f = document.getElementById('job-filter'); f.value = 'all';"
            "f.dispatchEvent(new Event('change'))"
        )
        for window in ("600", "all"):
            driver.execute_script(f"document.querySelector('[data-window=\"{window}\"]').click()")
            for box in ("gantt-scroll", "jobs", "nodes"):
                rate, rows = driver.execute_async_script(FRAMES, box)
                print(f"{window:>4} s shown, {box:13} {rate:5.0f} frames a second, {rows} rows")
                assert rows < 100, "rows out of sight were made"


UPDATES_S, PER_UPDATE = 0.2, 40


def decision(n: int, job: int) -> dict[str, Any]:
    fixed = {"what": "expand", "node": "", "processors": 8, "code": "probe", "figures": {"size": 4}}
    return {"event": n, "time_s": time.time(), "job": job, "text": "4 are idle: try 8", **fixed}


def in_memory(driver: Any) -> dict[str, float]:
    """What the page has after the garbage is collected."""
    driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    found = driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return {m["name"]: m["value"] for m in found}


@pytest.mark.timeout(0)
def test_ten_minutes_of_updates_leave_the_memory_flat() -> None:
    """Some jobs end, others start, all the time; 200 rows and 200 decisions a second."""
    now, model, rng = time.time(), Model(), random.Random(1)
    model.take(answer(whole=True, nodes=[node(n, SLOTS) for n in range(NODES)]))
    model.take(answer(jobs=[job(n, now) for n in range(1, JOBS + 1)]))
    story = list[tuple[float, dict[str, float]]]()
    with served(model) as (url, news), browser() as driver:
        driver.execute_cdp_cmd("Performance.enable", {})
        driver.get(url)
        until(driver, "document.querySelectorAll('#nodes .row').length", lambda n: n > 5, 60)
        began_s, count, latest = time.monotonic(), 0, JOBS
        while time.monotonic() - began_s < 600:
            changed = [job(rng.randrange(latest - JOBS + 1, latest + 1), time.time())
                       for _ in range(PER_UPDATE - 2)]  # fmt: skip
            latest += 2
            count += PER_UPDATE
            model.take(answer(
                jobs=[*changed, job(latest - 1, now), job(latest, now)],
                gone=[latest - JOBS - 1, latest - JOBS],
                decisions=[decision(count + k, latest) for k in range(PER_UPDATE)],
            ))  # fmt: skip
            news()
            time.sleep(UPDATES_S)
            if time.monotonic() - began_s > 60 * (len(story) + 1):
                has = in_memory(driver)
                story.append((has["JSHeapUsedSize"] / 1e6, has))
                print(f"minute {len(story)}: {story[-1][0]:.1f} MB, {has['Nodes']:.0f} nodes,"
                      f" {has['JSEventListeners']:.0f} listeners, {count} rows told")  # fmt: skip
        assert driver.execute_script("return document.querySelectorAll('.row').length") > 10
    early, late = story[1][1], story[-1][1]
    assert late["JSHeapUsedSize"] < 1.2 * early["JSHeapUsedSize"]
    assert late["Nodes"] < 1.2 * early["Nodes"] + 500
    assert late["JSEventListeners"] < 1.2 * early["JSEventListeners"] + 50
