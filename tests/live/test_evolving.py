"""Live evolving jobs: they ask, the server answers, processes come and go, the data is right."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

pytestmark = [pytest.mark.live, pytest.mark.mpi, pytest.mark.timeout(300)]

ASKING = ["python", "-m", "tests.live.asking"]
SLOW_S = 120  # everything shares few cores


def lines(cluster, job_id):
    """What the application printed, as JSON objects."""
    out = cluster.dq("logs", job_id)
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def codes(cluster, job_id):
    """The codes of the job's story, without what happens at every remap point."""
    story = json.loads(cluster.dq("why", job_id, "--json"))["story"]
    return [d["code"] for d in story if d["what"] != "continue"]


def test_granted_released_and_refused_rank_0_leaves_and_the_data_is_right(cluster):
    job = cluster.submit("--kind", "evolving", "-n", 1, "--", *ASKING,
                         "2:+2", "6:-first", "10:+9", "14:+1", "18:-2")  # fmt: skip
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


def test_a_request_waits_for_another_jobs_end_or_for_its_time_out(cluster):
    other = cluster.submit("-n", 3, "--kind", "rigid", "--", "sleep", "300")
    cluster.wait(other, lambda j: j["state"] == "running")
    job = cluster.submit("--kind", "evolving", "-n", 1, "--", *ASKING, "1:+1:0.2", "20:+3:100")
    cluster.wait(job, lambda j: "20" in str(lines(cluster, job)), SLOW_S)
    cluster.dq("kill", other)
    end = cluster.wait_end(job, SLOW_S)
    assert end["state"] == "done"
    first, second, last = lines(cluster, job)
    assert (first["what"], second["what"]) == ("waiting", "waiting")
    assert (last["end"], last["size"]) == (True, 4)
    assert "dyn_timeout" in codes(cluster, job)


def test_fairness_limits_hold_live(live, tmp_path):
    config = tmp_path / "config.toml"
    config.write_text(
        '[scheduler]\nstart = "reservations"\nresize = "none"\ngrant = "dfs"\n'
        '[dfs]\npolicy = "target"\n[dfs.class.calm]\ndyn_delay_perm = false\n'
    )
    live.up(4, "--config", config)
    busy = live.submit("-n", 2, "--kind", "rigid", "--walltime", "5m", "--", "sleep", "300")
    job = live.submit("--kind", "evolving", "-n", 1, "--walltime", "20m", "--", *ASKING,
                      "40:+1")  # fmt: skip
    calm = live.submit("-n", 3, "--kind", "rigid", "--walltime", "5m", "--class", "calm",
                       "--", "sleep", "1")  # fmt: skip
    end = live.wait_end(job, SLOW_S)
    assert end["state"] == "done"
    answer, last = lines(live, job)
    # the owner of both jobs is the same here: a delay to one's own job does not count
    assert (answer["what"], last["size"]) == ("granted", 2)
    for left in (busy, calm):
        live.dq("kill", left)


def test_amr_grows_with_its_cells_shrinks_with_them_and_is_right(cluster):
    # A malleable job would grow at once: this one grows only when it asks.
    job = cluster.submit("--kind", "evolving", "-n", 1, "--max", 4, "--", "python", "-m", "apps.amr",
                         "--blocks", 8, "--cells-per-rank", 140, "--max", 3, "--check")  # fmt: skip
    end = cluster.wait_end(job, 240)
    assert end["state"] == "done"
    assert next(x for x in lines(cluster, job) if x.get("check") == "amr")["ok"]
    sizes = [s["processors"] for s in end["sizes"]]
    assert (sizes[0], max(sizes)) == (1, 3)
    assert sizes[-1] < 3
    assert all("dyn_" in code or code == "resize_committed" for code in codes(cluster, job)[1:-1])


@pytest.mark.parametrize("program", [["apps.amr", "--blocks", "4", "--check"],
                                     ["tests.live.asking", "1:+2", "3:-1"]])  # fmt: skip
def test_the_same_programs_run_without_a_server(program):
    env = {k: v for k, v in os.environ.items() if not k.startswith("DQ_")}
    env |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "UCX_LOG_LEVEL": "error"}
    done = subprocess.run(
        ["mpiexec", "-n", "2", "python", "-m", *program],
        env=env, capture_output=True, text=True, timeout=SLOW_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert '"ok": true' in done.stdout or '"end": true' in done.stdout
    assert "the program does not run under a DQ server" in done.stdout or "amr" in done.stdout
