"""Programs with a recipe on nodes that go: they go on from their last checkpoint on another."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.bench import Bench, processes_of, two_nodes, until
from harness.live import Live
from tests.live.test_recipes_live import OWN, PROGRAM, RANKS, STEPS, is_right, starts

pytestmark = [
    pytest.mark.live,
    pytest.mark.mpi,
    pytest.mark.parametrize("recipe", [OWN, RANKS], ids=["own launcher", "ranks"]),
]


@pytest.fixture
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Two nodes of two processors with an agent each; resizes only when a node goes."""
    root = tmp_path_factory.mktemp("dq")
    (root / "config.toml").write_text('[scheduler]\nresize = "none"\n')
    made = Bench(root, two_nodes(), options=("--config", str(root / "config.toml")))
    yield made
    assert made.close() == 0, "processes were left behind"


def started(cluster: Live, folder: Path, recipe: str, *words: Any) -> int:
    """On all four processors, and computing there."""
    folder.mkdir()
    (folder / "recipe.toml").write_text(recipe)
    own = ("--recipe", folder / "recipe.toml", "-n", 4, "--sizes", "2,4", "--chdir", folder)
    job = cluster.submit(*own, "--", sys.executable, PROGRAM, "--steps", STEPS, "--gated", *words)
    cluster.wait(job, lambda j: j["remap_points"] > 0)
    return job


def goes_on(cluster: Live, job: int) -> str:
    """Wait until it computes on one node; that node."""
    view = cluster.wait(
        job, lambda j: j["processors"] == 2 and j["sizes"][-1]["iterations"] > 0, 120
    )
    (node,) = view["nodes"]
    return str(node)


def test_a_lost_node_costs_the_steps_since_the_last_checkpoint(
    bench: Bench, tmp_path: Path, recipe: str
) -> None:
    cluster, folder = Live(bench.home.root), tmp_path / "work"
    job = started(cluster, folder, recipe, "--every", 3)
    cluster.wait(job, lambda j: j["protection"]["copies"] > 1)
    lost = cluster.job(job)["nodes"][0]  # rank 0, which starts the program, is there
    for pid in (bench.agent_pid(lost), *processes_of(bench, lost)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert goes_on(cluster, job) != lost
    (folder / "over").touch()
    assert is_right(cluster, job, folder)["restarts"] == 1
    (ranks, first), (fewer, again) = starts(folder)
    assert (ranks, first, fewer) == (4, 0, 2)
    assert again >= 3
    assert again % 3 == 0, "a checkpoint of the program's own, not one that was asked for"
    assert f"node {lost} was lost" in cluster.dq("why", job)


def test_a_node_that_is_taken_back_is_left_with_a_checkpoint(
    bench: Bench, tmp_path: Path, recipe: str
) -> None:
    """As at a preemption: its agent is told to go."""
    cluster, folder = Live(bench.home.root), tmp_path / "work"
    job = started(cluster, folder, recipe)
    taken = cluster.job(job)["nodes"][0]
    os.kill(bench.agent_pid(taken), signal.SIGTERM)
    assert goes_on(cluster, job) != taken
    (folder / "over").touch()
    assert is_right(cluster, job, folder)["restarts"] == 0
    assert [ranks for ranks, _ in starts(folder)] == [4, 2]
    printed = cluster.dq("logs", job).splitlines()
    steps = [int(line.split()[1]) for line in printed if line.startswith("step")]
    assert steps == list(range(1, len(steps) + 1)), "no step is done twice"
    until(lambda: taken not in (row["name"] for row in up(cluster)), "the node does not leave")


def up(cluster: Live) -> list[dict[str, Any]]:
    """Rows of the nodes that are up."""
    rows: list[dict[str, Any]] = json.loads(cluster.dq("nodes", "--json"))["nodes"]
    return [row for row in rows if row["state"] == "up"]
