"""The pictures of the documentation: `python -m tests.live.screenshots [FOLDER]`.

A cluster with a job that has grown, one that has taken some of its processors, and a queue; seen in
a browser, on a phone, in a terminal, and as a report. The browser also draws the terminal's
picture, so that all are PNG files of one kind. The jobs run the tutorial's program, which sleeps
for most of an iteration, so the pictures depend little on the load of the machine.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dq_client.show.feed.follower import Asker, Follower
from dq_client.show.feed.model import Model
from dq_client.show.top.app import Top
from harness.commands import ROOT
from harness.live import Live
from harness.pages import blocks, put
from tests.live.browsing import browser, resize, theme, until

FOLDER = ROOT / "docs/images"
# Name, look, width, height.
PAGES = (
    ("web-dark", "dark", 1300, 1000),
    ("web-light", "light", 1300, 1000),
    ("web-phone", "dark", 390, 844),
)
TERMINAL = (124, 36)
COLOURS = 200
SCENE_S = 6.0  # for the job to go on on what it was left
PLATE = ("python", "plate.py")
REASONS = """[...document.querySelectorAll('.row.job .sub')].map(sub => sub.textContent)
  .every(text => !text.startsWith('waits') || text.includes(':'))"""
BLOCKS = "Number(document.getElementById('gantt').dataset.blocks)"


@contextmanager
def scene(folder: Path) -> Iterator[tuple[Live, int]]:
    """A cluster in which something happens, and the job to look at."""
    cluster = Live(folder / "home")
    try:
        cluster.up(4)
        (folder / "plate.py").write_text(plate())
        words = ("--array", "0-11%3", "-n", 1, "--name", "mesh it", "--wait", "--", "sleep", 0.2)
        cluster.dq("submit", *words)
        there = ("--chdir", folder)
        job = cluster.submit(*there, "-n", 2, "--sizes", "1,2,4", "--name", "heat", "--", *PLATE)
        cluster.wait(job, lambda j: len(j["sizes"]) >= 2 and j["sizes"][-1]["iterations"] > 20, 120)
        rigid = (*there, "--kind", "rigid")
        other = cluster.submit(*rigid, "-n", 2, "--name", "mesh", "--", *PLATE)
        cluster.wait(other, lambda j: j["state"] == "running", 120)
        for name, size in (("spectrum", 2), ("train", 4)):
            cluster.submit(*rigid, "-n", size, "--name", name, "--", *PLATE)
        cluster.submit("-n", 1, "--array", "0-2", "--name", "sweep", "--", "sleep", 60)
        time.sleep(SCENE_S)
        yield cluster, job
    finally:
        cluster.clear()


def plate() -> str:
    """The program of the tutorial, with iterations until it is killed."""
    (block,) = (block.text for block in blocks("tutorial.md") if "plate.py <<'EOF'" in block.text)
    program = block.partition("<<'EOF'\n")[2].partition("\nEOF\n")[0] + "\n"
    return put(program, {"rs.iterations(60)": "rs.iterations(100_000)"})


def shoot(folder: Path) -> list[Path]:
    """Make all pictures; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as work,
        scene(Path(work)) as (cluster, job),
        browser() as driver,
    ):
        url = json.loads(cluster.dq("web", "--detach", "--json"))["url"]
        driver.get(url)
        until(driver, "document.getElementById('link').textContent", lambda text: text == "live")
        until(driver, BLOCKS, lambda blocks: blocks >= 3)
        row = "[...document.querySelectorAll('.row.job')].find(r => r.textContent.includes('heat'))"
        until(driver, f"{row} !== undefined", bool)
        driver.execute_script(f"{row}.click()")
        until(driver, "document.querySelectorAll('#tab tr').length", lambda rows: rows >= 3)
        until(driver, REASONS, bool)
        made = []
        for name, look, width, height in PAGES:
            theme(driver, look)
            resize(driver, width, height)
            made.append(keep(driver, folder / f"{name}.png"))
        theme(driver, "light")
        terminal(cluster, Path(work) / "top.svg")
        made.append(show(driver, Path(work) / "top.svg", folder / "top.png", 1300, 780))
        report = Path(work) / "report.html"
        cluster.dq("report", job, "-o", report)
        made.append(show(driver, report, folder / "report.png", 1100, 900))
    return made


def show(driver: Any, file: Path, picture: Path, width: int, height: int) -> Path:
    """A picture of a file, as the browser shows it."""
    resize(driver, width, height)
    driver.get(file.as_uri())
    return keep(driver, picture)


def keep(driver: Any, path: Path) -> Path:
    """What the browser shows, with few colours: a third of the size."""
    from PIL import Image

    # Two frames: what was asked for is drawn.
    frames = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))"
    driver.execute_async_script(frames)
    driver.save_screenshot(str(path))
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
    return path


def terminal(cluster: Live, path: Path) -> None:
    """`dq top`, as textual draws a terminal."""
    model, asker = Model(), Asker(cluster.home)
    top = Top(model, asker)
    follower = Follower(cluster.home, model, top.news, lambda: None)

    async def look() -> None:
        async with top.run_test(size=TERMINAL) as pilot:
            while "heat" not in str([row.get("name") for row in top.list_of("jobs").rows]):
                await pilot.pause(0.1)
            await pilot.pause(1.0)
            path.write_text(top.export_screenshot(title="dq top"))

    follower.start()
    try:
        asyncio.run(look())
    finally:
        follower.stop()
        asker.close()


if __name__ == "__main__":
    for picture in shoot(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER):
        print(picture)
