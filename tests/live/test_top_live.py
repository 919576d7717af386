"""`dq top` on a real cluster: a job grows before one's eyes, and the server goes and comes back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from dq_client.show.feed.follower import Asker, Follower
from dq_client.show.feed.model import Model
from dq_client.show.top.app import Top
from harness.live import Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]


async def seen(what: Callable[[], object], timeout_s: float = 240.0) -> None:
    until_s = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < until_s
        await asyncio.sleep(0.1)


def test_it_shows_what_happens_and_survives_the_server(live: Live) -> None:
    live.up(2)
    job = live.submit(
        "-n", 1, "--sizes", "1,2", "--", "python", "-m", "tests.live.growing", "--n", 96,
        "--iterations", 400, "--seconds", 0.2,
    )  # fmt: skip
    model, asker = Model(), Asker(live.home)
    top = Top(model, asker)
    follower = Follower(live.home, model, top.news, top.gone)

    def line() -> str:
        strip = top.list_of("jobs").render_line(1)
        return strip.text

    async def use() -> None:
        async with top.run_test(size=(120, 40)) as pilot:
            follower.start()
            jobs = top.list_of("jobs")
            await seen(lambda: jobs.rows and jobs.rows[0]["processors"] == 2)
            await seen(lambda: f"{job} " in line() and "running" in line())
            await seen(lambda: "expand" in {d["what"] for d in top.list_of("decisions").rows})
            nodes = top.list_of("nodes")
            await seen(lambda: sum(node["used"] for node in nodes.rows) == 2)
            live.kill_server()
            cluster = top.query_one("#cluster")
            await seen(lambda: cluster.has_class("away"))
            await asyncio.to_thread(live.dq, "up", "--local", 2, "--detach")
            await seen(lambda: not cluster.has_class("away"))
            points = jobs.rows[0]["remap_points"]
            await seen(lambda: jobs.rows[0]["remap_points"] > points)
            await asyncio.to_thread(live.dq, "kill", job)
            await seen(lambda: not jobs.rows)
            await pilot.press("q")

    try:
        asyncio.run(use())
    finally:
        follower.stop()
        asker.close()
