"""The live page in a browser: it changes without being loaded again, and shows text as text."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="dq web needs the extra web")

from dq_client.show.report.page import write_report
from dq_client.show.report.text import seconds
from harness.live import Live
from tests.client.report_data import report, thesis
from tests.live.browsing import browser, resize, theme, until

pytestmark = [pytest.mark.live, pytest.mark.mpi, pytest.mark.browser]

BLOCKS = "Number(document.getElementById('gantt').dataset.blocks)"
LINK = "document.getElementById('link').textContent"
HAS_OVERFLOW = "document.documentElement.scrollWidth > innerWidth"
NAME = "<script>window.bad=1</script>"


# Name, colour and line of each job in the list.
ROWS = """[...document.querySelectorAll('.row.job')].filter(row => !row.hidden).map(row => [
  row.children[2].textContent, getComputedStyle(row.children[0]).backgroundColor,
  row.children[5].textContent])"""
OVER = """
const gantt = document.getElementById('gantt'), tip = document.querySelector('.tip');
const box = gantt.getBoundingClientRect();
const at = {clientX: box.left + box.width * arguments[0], clientY: box.top + 8};
gantt.dispatchEvent(new PointerEvent('pointermove', at));
const shown = tip.getBoundingClientRect();
const far = Math.abs(shown.right - at.clientX) > 500 || shown.top - at.clientY > 30;
return tip.hidden || far ? '' : tip.textContent;
"""


def over(driver: Any, share: float) -> str:
    """The tip beside a pointer that is over the first node, at this share of the width."""
    return str(driver.execute_script(OVER, share))


def pixels(driver: Any) -> str:
    """What the Gantt looks like."""
    return str(driver.execute_script("return document.getElementById('gantt').toDataURL()"))


def test_a_job_grows_before_ones_eyes(cluster: Live) -> None:
    words = [sys.executable, "-m", "apps.matmul", "--n", 300, "--iterations", 100_000]
    job = cluster.submit("--sizes", "1,2", "-n", 1, "--name", NAME, "--", *words)
    cluster.wait(job, lambda j: j["remap_points"] > 2)
    cluster.dq("resize", job, 1, "--hold")
    rigid = ("-n", 1, "--kind", "rigid", "--array", "1-2", "--name", "sweep", "--", "sleep", 600)
    array = cluster.submit(*rigid)
    cluster.wait(job, lambda j: j["processors"] == 1 and j["sizes"][-1]["iterations"] > 2)
    url = json.loads(cluster.dq("web", "--detach", "--json"))["url"]
    with browser() as driver:
        driver.get(url)
        until(driver, LINK, lambda text: text == "live")
        assert "token" not in driver.current_url
        before = until(driver, BLOCKS, lambda n: n >= 1)
        until(driver, "document.querySelectorAll('.row.job').length", lambda n: n >= 1)
        listed = until(driver, ROWS, lambda rows: len(rows) == 3 and all(row[1] for row in rows))
        (_, own, said), *others = listed
        assert "iterations" in said and not any("iterations" in row[2] for row in others)
        assert [row[0] for row in others] == ["sweep[1]", "sweep[2]"]
        assert len({colour for _, colour, _ in listed}) == 3 and own != "rgba(0, 0, 0, 0)"
        tip = over(driver, 0.98)
        assert tip.startswith(NAME) and re.search(r"\n[1-4] processors?,", tip), tip
        driver.execute_script("window.mark = 1; document.querySelector('.row.job').click()")
        until(driver, "document.getElementById('h-job').textContent", lambda t: NAME in t)
        curve = "document.querySelectorAll('#tab tr').length"
        rows, picture = until(driver, curve, lambda n: n >= 2), pixels(driver)
        cluster.dq("resize", job, 2, "--hold")
        until(driver, BLOCKS, lambda n: n > before)  # the seam, and the second node
        until(driver, curve, lambda n: n > rows)
        assert pixels(driver) != picture
        feed = "document.getElementById('feed').textContent"
        until(driver, feed, lambda text: "committed" in text)
        script = "const f = document.getElementById('feed-filter'); f.value = 'nodes';"
        driver.execute_script(f"{script} f.dispatchEvent(new Event('change'))")
        until(driver, feed, lambda text: "node up" in text and "committed" not in visible(driver))
        script = "const f = document.getElementById('job-filter'); f.value = 'ended';"
        driver.execute_script(f"{script} f.dispatchEvent(new Event('change'))")
        none = "document.getElementById('jobs').dataset.none"
        until(driver, none, lambda text: text == "No such job among 3: choose “all” above.")
        for name in ("light", "dark"):
            theme(driver, name)
            for width in (1300, 390):
                resize(driver, width, 900)
                until(driver, HAS_OVERFLOW, lambda over: over is False)
        assert driver.execute_script("return [window.mark, window.bad ?? null]") == [1, None]
        # Nothing was forbidden by the page's own policy, and no script has failed.
        assert [e for e in driver.get_log("browser") if e["level"] == "SEVERE"] == []
        cluster.dq("kill", job, array)


TIMES_S = [0, 4e-4, 0.02, 0.9994, 0.9996, 16.0, 60.1, 99.6, 120, 125, 7200, 7260, 172_800, 180_000]
SHOWN = """
const [times, done] = arguments;
import("dq-text").then(({ duration }) => done(times.map(duration)));
"""


def test_a_report_has_the_same_pictures_without_a_server(tmp_path: Path) -> None:
    data = report([thesis()], about=1, capacity=25, now_s=1400)
    own = data["jobs"][0]
    ends = [*(s["since_s"] for s in own["sizes"][1:]), own["end_s"]]
    own["places"] = [
        {"since_s": s["since_s"], "until_s": end, "nodes": {"n01": f"0-{s['processors'] - 1}"}}
        for s, end in zip(own["sizes"], ends, strict=True)
    ]
    own["name"] = NAME
    write_report(tmp_path / "report.html", data)
    with browser() as driver:
        driver.get((tmp_path / "report.html").as_uri())
        until(driver, BLOCKS, lambda n: n == len(own["places"]))
        label = "document.querySelector('{}').getAttribute('aria-label')"
        spot = until(driver, label.format(".curve"), lambda text: bool(text) and "spot" in text)
        assert spot.startswith("Time of an iteration: 2: 60.1 s, 4: 28.9 s")
        assert spot.endswith("sweet spot 16 processors")
        until(driver, label.format("#use"), lambda text: bool(text) and "Processors in use" in text)
        for width in (1300, 390):
            resize(driver, width, 900)
            until(driver, HAS_OVERFLOW, lambda over: over is False)
        assert driver.execute_script("return window.bad ?? null") is None
        assert driver.execute_async_script(SHOWN, TIMES_S) == [seconds(s) for s in TIMES_S]
        assert [e for e in driver.get_log("browser") if e["level"] == "SEVERE"] == []


def visible(driver: Any) -> str:
    rows = "[...document.querySelectorAll('#feed .row')].filter(row => !row.hidden)"
    return str(driver.execute_script(f"return {rows}.map(row => row.textContent).join()"))


WATCH = """
window.painted = [];
let before = 0;
(function look() {
  const blocks = Number(document.getElementById('gantt').dataset.blocks);
  if (blocks !== before) window.painted.push([Date.now() / 1000, before = blocks]);
  requestAnimationFrame(look);
})();
"""


@pytest.mark.slow
def test_how_long_until_a_resize_is_seen(cluster: Live) -> None:
    """Prints the time from a resize's end to its seam in the picture: `pytest -m slow -s`."""
    words = [sys.executable, "-m", "apps.matmul", "--n", 300, "--iterations", 100_000]
    job = cluster.submit("--sizes", "1,2", "-n", 1, "--", *words)
    cluster.wait(job, lambda j: j["remap_points"] > 2)
    url = json.loads(cluster.dq("web", "--detach", "--json"))["url"]
    with browser() as driver:
        driver.get(url)
        until(driver, LINK, lambda text: text == "live")
        until(driver, BLOCKS, lambda blocks: blocks is not None)
        driver.execute_script(WATCH)
        waits = []
        for turn in range(20):
            size = 2 - turn % 2
            cluster.dq("resize", job, size, "--hold")
            view = cluster.wait(job, lambda j, size=size: j["sizes"][-1]["processors"] == size)  # type: ignore[misc]
            since_s = view["sizes"][-1]["since_s"]
            script = f"(window.painted.find(([t]) => t >= {since_s}) ?? [null])[0]"
            waits.append(until(driver, script, lambda t: t is not None) - since_s)
    waits.sort()
    print(f"\nseen after {waits[10] * 1e3:.0f} ms in the median, {waits[-1] * 1e3:.0f} at most")
