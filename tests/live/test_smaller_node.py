"""A node whose agent comes back with less has its new size, and what no longer fits says so."""

from __future__ import annotations

import json
import os
import signal
from functools import partial
from typing import Any

import pytest

from harness.bench import until
from harness.live import Live


@pytest.mark.live
def test_a_node_that_comes_back_smaller(live: Live) -> None:
    live.dq("server", "start", "--detach")
    node = ("agent", "start", "--node", "a")
    live.dq(*node, "--processors", 4, "--memory", "4G")
    lost = "node a came back with 2 processors instead of 4"
    try:
        assert [row["state"] for row in json_of(live, "nodes")["nodes"]] == ["up"]
        jobs = [live.submit("-n", 1, "--", "sleep", 600) for _ in range(4)]
        for job in jobs:
            live.wait(job, lambda job: job["state"] == "running")
        waits = live.submit("-n", 1, "--memory", "3G", "--", "true")
        pid = int(json_of(live, "server", "status")["agents"]["a"]["pid"])
        os.kill(pid, signal.SIGKILL)
        live.dq(*node, "--processors", 2, "--memory", "1G")
        until(lambda: "2 (had 4)" in live.dq("nodes"), "the node keeps its old size")
        for job in jobs[2:]:
            until(partial(is_failed, live, job), "it is not ended")
            assert lost in live.job(job)["reason"]
            assert lost in live.dq("why", job)
        assert [live.job(job)["state"] for job in jobs[:2]] == ["running", "running"]
        (row,) = json_of(live, "nodes")["nodes"]
        assert (row["processors"], row["idle"], row["memory"]) == (2, 0, 1 << 30)
        live.dq("kill", jobs[0])
        live.wait_end(jobs[0])
        assert live.job(waits)["state"] == "queued", "no node has that memory any more"
        assert "nodes with 3 GiB of memory for each rank: those" in live.dq("why", waits)
    finally:
        live.run("kill", "1-5")  # or the agent waits half a minute for them to leave
        live.run("agent", "stop", "a")


def is_failed(live: Live, job: int) -> bool:
    return bool(live.job(job)["state"] == "failed")


def json_of(live: Live, *words: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(live.dq(*words, "--json"))
    return found
