"""The live page in a browser without a job, with a few, and with 1,000: at three widths."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from operator import is_
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="dq web needs the extra web")

from dq_client.show.feed.model import Model
from tests.live.browsing import browser, resize, theme, until
from tests.live.played_page import answer, node, served

pytestmark = [pytest.mark.live, pytest.mark.browser]

WIDTHS = (360, 800, 1400)
LONG = "a name that is longer than any block of it"
BLOCKS = "Number(document.getElementById('gantt').dataset.blocks)"
OVERFLOW = "document.documentElement.scrollWidth > innerWidth"
# The width in which the picture was drawn; 0 while it is to be drawn in another one.
DRAWN = """(gantt => gantt.width === gantt.clientWidth ? gantt.width : 0)(
  document.getElementById('gantt'))"""
NONE = "[...document.querySelectorAll('.list')].map(list => list.dataset.none)"
ROWS = """[...document.querySelectorAll('.row.%s')].filter(row => !row.hidden)
  .map(row => row.textContent)"""
JOB_ROWS, NODE_ROWS = f"{ROWS % 'job'}.length", f"{ROWS % 'node'}.length"
OVER = """
const gantt = document.getElementById('gantt'), box = gantt.getBoundingClientRect();
const at = {clientX: box.right - 4, clientY: box.top + 10, pointerType: 'mouse'};
gantt.dispatchEvent(new PointerEvent('pointermove', at));
const tip = document.querySelector('.tip'), shown = tip.getBoundingClientRect();
const fits = shown.left >= 0 && shown.right <= document.documentElement.clientWidth;
return [tip.hidden, fits, tip.textContent];
"""
TAP = """
const gantt = document.getElementById('gantt'), box = gantt.getBoundingClientRect();
gantt.setPointerCapture = () => {};
for (const kind of ['pointerdown', 'pointerup', 'pointerleave'])
  gantt.dispatchEvent(new PointerEvent(kind,
    {clientX: box.right - 4, clientY: box.top + 10, pointerId: 1, pointerType: 'touch'}));
return [document.querySelector('.tip').hidden, document.getElementById('h-job').textContent];
"""
WORDS = """
const [now_s, times, done] = arguments;
import("/static/text.js").then(({ axisClock, clock, fitted, setToday }) => {
  setToday(() => now_s);
  const pen = document.createElement("canvas").getContext("2d"), name = "a".repeat(40);
  done([times.map(clock), times.map(axisClock), fitted(pen, name, 100), fitted(pen, name, 9)]);
});
"""


def job(n: int, state: str = "running", sizes: tuple[int, ...] = (2,), **more: Any) -> Any:
    """A job on its own node that had these sizes, the latest since 10 s ago."""
    now_s, waits = time.time(), state == "queued"
    since = [now_s - 10 * (len(sizes) - k) for k in range(len(sizes))]
    until = [*since[1:], now_s - 1 if state == "done" else None]
    stays = [
        {"processors": size, "grid": [1, size], "since_s": at, "iterations": 9, "decision": "start",
         "iteration_time_s": 1 / size, "redistribution_time_s": 0.0, "reason": "4 are idle"}
        for size, at in zip(sizes, since, strict=True)
    ]  # fmt: skip
    places = [
        {"since_s": at, "until_s": end, "nodes": {f"n{n}": f"0-{size - 1}"}}
        for size, at, end in zip(sizes, since, until, strict=True)
    ]
    return {
        "id": n, "name": f"job {n}", "kind": "malleable", "state": state, "user": "anna",
        "submit_s": since[0] - 5, "start_s": None if waits else since[0],
        "end_s": now_s - 1 if state == "done" else None, "processors": sizes[-1],
        "grid": [1, sizes[-1]], "sweet_spot": None, "remap_points": 9, "reason": None,
        "sizes": [] if waits else stays, "places": [] if waits else places, **more,
    }  # fmt: skip


@contextmanager
def page(nodes: list[Any], jobs: list[Any]) -> Iterator[Any]:
    """A browser with the page of these; at the end no script has failed."""
    model = Model()
    model.take(answer(whole=True, nodes=nodes, jobs=jobs))
    with served(model) as (url, _), browser() as driver:
        driver.get(url)
        until(driver, "document.getElementById('link').textContent", lambda text: text == "live")
        yield driver
        failed = [e for e in driver.get_log("browser") if e["level"] == "SEVERE"]
        assert [e for e in failed if "/api/" not in e["message"]] == []  # there is no server


def fit(count: int, rows: int) -> bool:
    """Whether so many rows of so many jobs are drawn as a window can show."""
    return min(count, 6) <= rows < 30 if count else rows == 0


def fits_into(width: int, drawn: int) -> bool:
    return width / 2 < drawn < width


@pytest.mark.parametrize("count", [0, 8, 1000])
def test_the_page_fits_at_any_width_with_any_number_of_jobs(count: int) -> None:
    jobs = [job(n, sizes=(1, 2, 4), name=LONG) for n in range(1, count + 1)]
    with page([node(n) for n in range(1, max(count, 4) + 1)], jobs) as driver:
        until(driver, BLOCKS, lambda blocks: blocks == 3 * count)
        for look in ("light", "dark"):
            theme(driver, look)
            for width in WIDTHS:
                resize(driver, width, 900)
                until(driver, OVERFLOW, lambda over: over is False)
                until(driver, DRAWN, partial(fits_into, width))
                until(driver, JOB_ROWS, partial(fit, count))
                hidden, fits, text = driver.execute_script(OVER)
                said = f"{LONG} (job 1, running)\n4 processors, 250 ms" if count else "n1, idle at"
                assert fits and not hidden and text.startswith(said)


def test_a_finger_sees_the_figures_and_chooses_the_job() -> None:
    with page([node(1)], [job(1, sizes=(1, 2, 4))]) as driver:
        resize(driver, 360, 900)
        until(driver, BLOCKS, lambda blocks: blocks == 3)
        hidden, chosen = driver.execute_script(TAP)
        assert not hidden and chosen == "Job 1: job 1"


def test_an_empty_cluster_says_what_to_type() -> None:
    with page([], []) as driver:
        none = until(driver, NONE, lambda texts: all(texts))
        assert none[0] == "No job yet: dq submit -n 2 -- PROGRAM"
        assert none[1].startswith("No decision yet") and none[2] == "No node yet: dq agent start"
        heights = "[...document.querySelectorAll('.list')].map(list => list.clientHeight)"
        assert all(0 < height < 100 for height in driver.execute_script(f"return {heights}"))


def test_a_search_without_a_match_says_so() -> None:
    with page([node(1)], [job(1)]) as driver:
        until(driver, BLOCKS, lambda blocks: blocks == 1)
        driver.execute_script("""for (const id of ['job-search', 'feed-search', 'node-search']) {
            document.getElementById(id).value = 'zzz';
            document.getElementById(id).dispatchEvent(new Event('input')); }""")
        none = until(driver, NONE, lambda texts: all(texts))
        assert "choose “all” above" in none[0] and none[2] == "No such node among 1."
        driver.execute_script("""const f = document.getElementById('job-filter'); f.value = 'all';
            f.dispatchEvent(new Event('change'))""")
        until(driver, NONE, lambda texts: texts[0] == "No job among 1 has this name, user or id.")


def test_nodes_that_have_left_are_listed_only_if_asked_for() -> None:
    nodes = [node(1), node(2, state="lost"), *(node(n, state="left") for n in range(3, 9))]
    with page(nodes, []) as driver:
        until(driver, "document.getElementById('cards').textContent",
              lambda text: "nodes1 of 2 up" in text)  # fmt: skip
        until(driver, NODE_ROWS, lambda rows: rows == 2)
        driver.execute_script("""const s = document.getElementById('node-search'); s.value = 'left';
            s.dispatchEvent(new Event('input'))""")
        until(driver, NODE_ROWS, lambda rows: rows == 6)


def test_one_size_is_no_curve() -> None:
    with page([node(1), node(2)], [job(1), job(2, sizes=(1, 2))]) as driver:
        until(driver, "document.querySelectorAll('.row.job').length", lambda rows: rows == 2)
        for k, is_hidden in enumerate([True, False]):
            driver.execute_script(f"document.querySelectorAll('.row.job')[{k}].click()")
            hidden = "document.getElementById('curve').hidden"
            until(driver, hidden, partial(is_, is_hidden))


POSITIONS = """
const done = arguments[0];
import("/static/curve.js").then(({ positions }) => {
  const stays = [[2, 9], [4, 5], [2, 9], [4, 5.1], [2, 1]];
  done(positions(stays.map(([processors, iteration_time_s]) => ({ processors, iteration_time_s })),
                 (n) => 100 * n, (t) => 10 * t, 300).map(({ px, py }) => [px, py]));
});
"""


def test_stays_at_one_size_stand_beside_each_other() -> None:
    with page([], []) as driver:
        found = driver.execute_async_script(POSITIONS)
    assert found == [[200, 90], [400, 50], [219, 90], [381, 51], [200, 10]]


def test_a_forecast_is_in_whole_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forecast:
        def __init__(self, *_: object) -> None: ...

        def read(self) -> dict[str, Any]:
            start = {"earliest_s": 65.4, "median_s": 300.4, "latest_s": 7000.0}
            starts = {1: start, 2: {**start, "latest_s": None}}
            return {"at_s": time.time(), "starts": starts, "error": ""}

    monkeypatch.setattr("dq_client.show.web.site.NewestForecast", Forecast)
    with page([node(1)], [job(n, "queued") for n in (1, 2, 3)]) as driver:
        said = until(driver, ROWS % "job",
                     lambda rows: sum("starts in" in row for row in rows) == 2, 90)  # fmt: skip
        # How late it is on a busy machine is open; no time has a fraction.
        assert re.search(r"starts in [^.(]+ \(80 %: [^.(]+ to [^.(]+\)", said[0]), said
        assert re.search(r"starts in [^.(]+ \(80 %: [^.(]+ or later\)", said[1]), said


def test_times_of_another_day_have_its_date() -> None:
    noon = time.mktime((2026, 3, 2, 12, 0, 0, 0, 0, -1))
    times = [noon, noon - 2 * 86_400, noon - 43_200]
    with page([], []) as driver:
        clocks, axis, fits, none = driver.execute_async_script(WORDS, noon, times)
    assert clocks == ["12:00:00", "28 Feb 12:00", "00:00:00"]
    assert axis == ["12:00:00", "12:00:00", "2 Mar"]
    assert fits.endswith("a…") and 8 < len(fits) < 30 and none == ""
