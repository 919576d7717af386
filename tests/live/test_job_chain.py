"""`dq submit --after`: a chain of real jobs, and what becomes of it when one fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.live import Live

pytestmark = pytest.mark.live


def test_a_chain_waits_runs_in_order_and_ends_with_what_failed(
    cluster: Live, tmp_path: Path
) -> None:
    gate = tmp_path / "all are submitted"
    first = cluster.submit("-n", 1, "--", "sh", "-c", f"until [ -e '{gate}' ]; do sleep 0.1; done")
    then = cluster.submit("-n", 1, "--after", "last", "--", "false")
    never = cluster.submit("-n", 1, "--after", f"{first},{then}", "--", "true")
    cleanup = cluster.submit("-n", 1, "--after-any", then, "--", "true")
    cluster.wait(first, lambda j: j["state"] == "running")
    view = cluster.job(then)
    assert (view["state"], view["after"]) == ("waiting", [first])
    why = json.loads(cluster.dq("why", never, "--json"))["now"][0]
    assert why["code"] == "waits_for_jobs"
    assert f"job {first} (running) to end successfully" in why["text"]
    gate.touch()
    done = [cluster.wait_end(job) for job in (first, cleanup)]
    assert [v["state"] for v in done] == ["done", "done"]
    failed, ended = cluster.job(then), cluster.job(never)
    assert failed["state"] == "failed" and failed["start_s"] >= done[0]["end_s"]
    assert (ended["state"], ended["start_s"]) == ("killed", None)
    assert f"job {then}, which had to end successfully first, is failed" in ended["reason"]
    refused = cluster.run("submit", "--after", then, "--", "true")
    assert (refused.returncode, refused.stdout) == (4, "")
    assert "--after-any" in refused.stderr
