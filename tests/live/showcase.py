"""A demonstration in pictures: `make showcase`, or `python -m tests.live.showcase [FOLDER]`.

A stencil grows and shrinks among ten jobs. A node dies, another one is taken away, and an
executor's workers use idle processors. FOLDER gets the report of the run and that of the stencil,
with pictures of both and of the page. The last line of the output is the verdict.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from dq_client import client as dq
from harness.commands import ROOT
from harness.live import Live
from tests.live.browsing import browser, resize, theme, until
from tests.live.screenshots import keep, show

STENCIL = ROOT / "apps/stencil3d.py"
CELLS = 40  # of the stencil, in each direction, where its speed is measured
ITERATION_S, ALONE_S = (
    0.01,
    60.0,
)  # of the stencil on one processor: an iteration, and the whole run
WITHIN_S = 300.0


def fitting() -> tuple[int, int]:
    """Cells and iterations of a stencil that takes a minute on one processor of this machine."""

    def took_s(steps: int) -> float:
        began_s = time.monotonic()
        subprocess.run([sys.executable, STENCIL, str(CELLS), str(steps)], check=True,
                       capture_output=True)  # fmt: skip
        return time.monotonic() - began_s

    each_s = max(1e-5, (took_s(1100) - took_s(100)) / 1000)
    return round(CELLS * (ITERATION_S / each_s) ** (1 / 3)), round(ALONE_S / ITERATION_S)


class Showcase:
    """One run, and what is written of it."""

    def __init__(self, cluster: Live, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.began_s = time.monotonic()
        self.jobs: list[int] = []

    def say(self, text: str) -> None:
        """A line of the story, with its time."""
        print(f"{time.monotonic() - self.began_s:6.1f} s  {text}", flush=True)

    def until(self, what: Callable[[], object], text: str) -> None:
        """Wait for something; AssertionError after WITHIN_S."""
        end_s = time.monotonic() + WITHIN_S
        while not what():
            assert time.monotonic() < end_s, f"{text}: not in {WITHIN_S:g} s"
            time.sleep(0.2)
        self.say(text)

    def submit(self, name: str, *words: object) -> int:
        """A job with a name for the pictures."""
        self.jobs.append(self.cluster.submit("--name", name, *words))
        return self.jobs[-1]

    def state(self, job: int) -> tuple[str, int]:
        """State and size of a job."""
        found = self.cluster.job(job)
        return found["state"], found["processors"]

    def run(self) -> bool:
        """The whole story; whether each job has ended as it should."""
        cluster, python = self.cluster, sys.executable
        cluster.up(4)
        for node in ("east", "west"):
            cluster.dq("agent", "start", "--node", node, "--processors", 2)
        self.until(lambda: self.processors() == 8, "8 processors on six nodes")
        stencil = self.submit(
            "stencil", "-n", 1, "--sizes", "1,2,4,6,8", "--protect", "disk", "--", python,
            STENCIL, *fitting(),
        )  # fmt: skip
        self.until(lambda: self.state(stencil)[1] > 1, "the stencil has grown")
        matmul = (python, "-m", "apps.matmul", "--n", 300, "--iterations", 60)
        self.submit("matmul", "-n", 2, "--sizes", "1,2,4", "--protect", "disk", "--", *matmul)
        for name, ranks, seconds in (("mesh", 3, 8), ("spectrum", 2, 12), ("train", 4, 6)):
            self.submit(name, "-n", ranks, "--kind", "rigid", "--retry", 1, "--", "sleep", seconds)
        self.submit("sweep", "-n", 1, "--array", "0-3%2", "--retry", 1, "--", "sleep", 3)
        sizes = cluster.job(stencil)["sizes"]
        self.until(lambda: self.shrank(stencil, len(sizes)), "the stencil has shrunk for the queue")
        cluster.dq("resize", stencil, 8)
        self.until(lambda: self.state(stencil) == ("running", 8), "the stencil has all processors")
        self.kill_node("east")
        self.until(lambda: self.processors() == 6, "the node east has died")
        self.until(lambda: self.state(stencil)[0] == "running", "the stencil goes on without it")
        self.picture_of_the_page()
        cluster.dq("node", "remove", "west")
        self.until(lambda: self.processors() == 4, "the node west was taken")
        with dq.connect(cluster.home.root) as here, dq.executor(0, 4, cluster=here) as pool:
            squares = list(pool.map(pow, range(400), [2] * 400, chunksize=20))
            self.say(f"an executor has done {pool.progress.done} tasks on idle processors")
        self.until(lambda: self.active() == 0, "all jobs have ended")
        ends = Counter(
            row["state"] for row in json.loads(cluster.dq("jobs", "--all", "--json"))["jobs"]
        )
        self.say(f"how they ended: {dict(ends)}")
        self.reports(stencil)
        grown = {size["processors"] for size in cluster.job(stencil)["sizes"]}
        return squares[-1] == 399**2 and ends["failed"] == 0 and len(grown) > 1

    def shrank(self, job: int, since: int) -> bool:
        """Whether it has become smaller after so many stays."""
        sizes = [s["processors"] for s in self.cluster.job(job)["sizes"]][since - 1 :]
        return any(after < before for before, after in pairwise(sizes))

    def processors(self) -> int:
        """Of the nodes that are up."""
        nodes = json.loads(self.cluster.dq("nodes", "--json"))["nodes"]
        return sum(node["processors"] for node in nodes if node["state"] == "up")

    def active(self) -> int:
        """Jobs that have not ended."""
        return len(json.loads(self.cluster.dq("jobs", "--active", "--json"))["jobs"])

    def kill_node(self, name: str) -> None:
        """Its agent, and all that runs there, at once."""
        agents: dict[str, Any] = json.loads(self.cluster.dq("server", "status", "--json"))["agents"]
        agent = next(a["pid"] for key, a in agents.items() if key == name)
        mark = {"DQ_NODE": name, "DQ_HOME": str(self.cluster.home.root)}
        for process in [psutil.Process(agent), *psutil.process_iter()]:
            try:
                if process.pid == agent or mark.items() <= process.environ().items():
                    process.kill()
            except psutil.Error:
                continue

    def picture_of_the_page(self) -> None:
        """The page while all this happens, in dark and light."""
        try:
            with browser() as driver:
                driver.get(json.loads(self.cluster.dq("web", "--detach", "--json"))["url"])
                until(driver, "document.getElementById('link').textContent", "live".__eq__)
                until(driver, "Number(document.getElementById('gantt').dataset.blocks)",
                      lambda blocks: blocks >= 5)  # fmt: skip
                for look in ("dark", "light"):
                    theme(driver, look)
                    resize(driver, 1300, 1000)
                    keep(driver, self.folder / f"page-{look}.png")
        except pytest.skip.Exception as e:
            self.say(f"no pictures: {e}")

    def reports(self, stencil: int) -> None:
        """Of the run and of the stencil, each with a picture."""
        files = {"run": self.folder / "run.html", "stencil": self.folder / "stencil.html"}
        self.cluster.dq("report", "-o", files["run"])
        self.cluster.dq("report", stencil, "-o", files["stencil"])
        try:
            with browser() as driver:
                for name, file in files.items():
                    show(driver, file, self.folder / f"{name}.png", 1100, 1000)
        except pytest.skip.Exception as e:
            self.say(f"no pictures: {e}")


def main(folder: Path) -> int:
    """Run it and write to `folder`; exit code 1 if a job has not ended as it should."""
    folder.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="dq-showcase-") as work:
        cluster = Live(Path(work) / "home")
        try:
            fine = Showcase(cluster, folder).run()
        finally:
            cluster.clear()
    print(f"{'all is well' if fine else 'NOT as it should be'}: {folder.absolute()}")
    return 0 if fine else 1


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "showcase")))
