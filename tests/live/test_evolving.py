"""Live evolving jobs: they ask, the server answers, processes come and go, the data is right."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dq_client.node.mpiexec.command import find_mpiexec
from dq_server.core.scheduler import Scheduler
from dq_server.live.store.journal import actions_as_json, read_entries
from harness.live import LAUNCHERS, Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]

EVOLVING = ["--kind", "evolving", "-n", 1]
ASKING = ["--", "python", "-m", "tests.live.asking"]
SLOW_S = 150  # everything shares few cores


def lines(cluster: Live, job_id: int) -> list[dict[str, Any]]:
    """What the application printed, as JSON objects."""
    out = cluster.dq("logs", job_id)
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def codes(cluster: Live, job_id: int) -> list[str]:
    """The codes of the job's story, without what happens at every remap point."""
    story = json.loads(cluster.dq("why", job_id, "--json"))["story"]
    return [d["code"] for d in story if d["what"] != "continue"]


def assert_replays(cluster: Live) -> None:
    """The journal's events, handled again, yield the same actions."""
    with closing(sqlite3.connect(cluster.home.journal)) as db:
        entries = list(read_entries(db, cluster.home.journal))
    again = Scheduler()
    for entry in entries:
        assert actions_as_json(again.handle(entry.event, entry.time)) == entry.actions


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_granted_released_and_refused_rank_0_leaves_and_the_data_is_right(cluster: Live) -> None:
    job = cluster.submit(*EVOLVING, *ASKING, "+2", "-first", "+9", "+1", "-2")
    end = cluster.wait_end(job, SLOW_S)
    assert end["state"] == "done", cluster.dq("logs", job, "--err", code=None)
    *answers, last = lines(cluster, job)
    assert last["end"] is True
    assert [(a["what"], a["size"]) for a in answers] == [
        ("granted", 1), ("accepted", 3), ("rejected", 2), ("granted", 2), ("accepted", 3),
    ]  # fmt: skip
    assert "the cluster has 4" in answers[2]["reason"]
    assert [s["processors"] for s in end["sizes"]] == [1, 3, 2, 3, 1]
    assert 0 not in last["processors"], "the first processor was given back"
    found = codes(cluster, job)
    assert found.count("dyn_first") == 2
    assert found.count("dyn_expand") == 2
    assert found.count("dyn_release") >= 2
    assert_replays(cluster)


def test_a_request_waits_for_its_time_out_or_for_another_jobs_end(cluster: Live) -> None:
    other = cluster.submit("-n", 3, "--kind", "rigid", "--", "sleep", "300")
    cluster.wait(other, lambda j: j["state"] == "running")
    job = cluster.submit(*EVOLVING, *ASKING, "+1:0.2", "+3:200")
    cluster.wait(job, lambda _: len(lines(cluster, job)) == 2, SLOW_S)
    cluster.dq("kill", other)
    end = cluster.wait_end(job, SLOW_S)
    assert end["state"] == "done"
    first, second, last = lines(cluster, job)
    assert (first["what"], second["what"]) == ("waiting", "waiting")
    assert (last["end"], last["size"]) == (True, 4)
    assert "dyn_timeout" in codes(cluster, job)
    assert_replays(cluster)


def test_the_limits_of_the_configuration_hold(live: Live, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        '[scheduler]\nstart = "reservations"\nresize = "none"\ngrant = "dfs"\n'
        "[dfs]\none_node = true\n"
    )
    live.up(4, "--config", config)  # four nodes of one processor
    job = live.submit(*EVOLVING, "--walltime", "20m", *ASKING, "+2", "+1")
    assert live.wait_end(job, SLOW_S)["state"] == "done"
    two, one, last = lines(live, job)
    assert (two["what"], one["what"], last["size"]) == ("rejected", "granted", 2)
    assert "2 more processors asked for, 3 are idle, not all on one node" in two["reason"]
    assert "within the limits it delays 0 waiting jobs" in one["reason"]


def test_amr_grows_with_its_cells_shrinks_with_them_and_is_right(cluster: Live) -> None:
    # A malleable job would take all four at once: this one gets what it asks for. It waits for
    # ranks that join: they have started before the cells become fewer again.
    waits = ("--env", "DQ_WAIT_FOR_RANKS=1", "--env", "DQ_REPORT_INTERVAL=0")
    job = cluster.submit(*EVOLVING, *waits, "--", "python", "-m", "apps.amr", "--steps", 2000,
                         "--blocks", 8, "--cells-per-rank", 280, "--max", 3, "--check")  # fmt: skip
    end = cluster.wait_end(job, 240)
    assert end["state"] == "done"
    assert next(x for x in lines(cluster, job) if x.get("check") == "amr")["ok"]
    assert [s["processors"] for s in end["sizes"]] == [1, 2, 3, 2]
    assert {c for c in codes(cluster, job) if not c.startswith("dyn_")} <= {
        "started", "resize_committed", "exit",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("program", "right"),
    [(["apps.amr", "--blocks", "4", "--check"], '"ok": true'),
     (["tests.live.asking", "+2", "-1"], '"end": true')],
)  # fmt: skip
def test_the_same_programs_run_without_a_server(program: list[str], right: str) -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith("DQ_")}
    env |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "UCX_LOG_LEVEL": "error"}
    done = subprocess.run(
        [find_mpiexec(), "-n", "2", sys.executable, "-m", *program],
        env=env, capture_output=True, text=True, timeout=SLOW_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert right in done.stdout
