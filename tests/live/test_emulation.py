"""An emulated cluster, live and paced: many agents on one machine, the links felt by jobs."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import pytest

from dq_server.core.model.events import RemapPoint
from harness.live import Live

CLUSTER = """
name = "few"
engine = "emulated"

[[nodes]]
names = "n[01-06]"
core_share = {share}

[link]
rate_mbit = {rate_mbit}
"""


def cluster(folder: Path, *, share: float = 0.1, rate_mbit: float = 1000) -> Path:
    path = folder / f"few-{share}-{rate_mbit}.toml"
    path.write_text(CLUSTER.format(share=share, rate_mbit=rate_mbit))
    return path


def iteration_s(live: Live, n: int, size: int) -> float:
    """Run a product; return the median time: a late iteration shortens the next."""
    job = live.submit("--sizes", size, "--", "python", "-m", "apps.matmul", "--n", n,
                      "--iterations", 11, "--check")  # fmt: skip
    view = live.wait_end(job)
    assert view["state"] == "done", live.dq("logs", job, "--err", code=None)
    points = [entry.event for entry in live.entries() if isinstance(entry.event, RemapPoint)]
    return median(t for p in points if p.job == job for t in (*p.passed, p.iteration_time_s))


@pytest.mark.live
def test_nodes_are_numbered_in_the_order_of_the_file(live: Live, tmp_path: Path) -> None:
    path = cluster(tmp_path)
    path.write_text(path.read_text().replace('"n[01-06]"', '["z", "n[3-5]", "b", "a"]'))
    live.dq("up", "--cluster", path, "--detach")
    nodes = json.loads(live.dq("nodes", "--json"))["nodes"]
    assert [node["name"] for node in nodes] == ["z", "n3", "n4", "n5", "b", "a"]


@pytest.mark.live
@pytest.mark.mpi
@pytest.mark.alone  # two runs are timed against each other
def test_two_processors_are_faster_and_a_slow_link_takes_that_away(
    live: Live, tmp_path: Path
) -> None:
    # Iterations of half a second: shorter ones drown in a busy machine's hiccups.
    live.dq("up", "--cluster", cluster(tmp_path, share=0.05), "--detach")
    alone, two = iteration_s(live, 900, 1), iteration_s(live, 900, 2)
    assert two < 0.85 * alone
    live.dq("down")
    live.dq("up", "--cluster", cluster(tmp_path, share=0.05, rate_mbit=20), "--detach")
    assert iteration_s(live, 900, 2) > 1.5 * alone


@pytest.mark.live
@pytest.mark.mpi
@pytest.mark.parametrize("duplex", ["full", "shared"])
def test_a_job_grows_over_emulated_nodes_and_computes_the_right_product(
    live: Live, tmp_path: Path, duplex: str
) -> None:
    path = cluster(tmp_path)
    path.write_text(f'{path.read_text()}duplex = "{duplex}"\n')
    config = tmp_path / "config.toml"
    config.write_text('[scheduler]\nsweet_spot = "thesis"\n')  # size by size, grid by grid
    live.dq("up", "--cluster", path, "--config", config, "--detach")
    job = live.submit("--sizes", "1,2,2x1,4,6", "--", "python", "-m", "apps.matmul", "--n", 480,
                      "--iterations", 200, "--check")  # fmt: skip
    view = live.wait_end(job)
    assert view["state"] == "done"
    assert [stay["grid"] for stay in view["sizes"]][:3] == [[1, 1], [1, 2], [2, 1]]
    assert json.loads(live.dq("logs", job))["ok"]


@pytest.mark.live
def test_a_cluster_that_does_not_fit_is_refused_and_nothing_starts(
    live: Live, tmp_path: Path
) -> None:
    done = live.run("up", "--cluster", cluster(tmp_path, share=1.0), "--detach")
    assert done.returncode == 2
    assert "nodes together ask for" in done.stderr and "use the first" in done.stderr
    assert not list(live.home.root.glob("server.json"))


@pytest.mark.live
def test_up_says_which_mechanism_runs(live: Live, tmp_path: Path) -> None:
    done = live.run("up", "--cluster", cluster(tmp_path), "--detach", "--json")
    assert json.loads(done.stdout)["mechanism"] == "paced"
    assert "not slowed" in done.stderr
