"""Nothing is lost when parts die: benchmarks.loss with few repetitions. The full numbers:
`python -m benchmarks.loss`."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import loss
from dq_client.base import process_tree
from dq_client.base.home import is_alive
from dq_client.deploy.cluster import local_cluster
from harness.bench import Bench, in_cluster, processes_of, two_nodes, until
from harness.live import LAUNCHERS

pytestmark = pytest.mark.live


def test_server_killed_at_random_moments_and_in_resizes() -> None:
    found = in_cluster(local_cluster(12), loss.server_kills, 3, 4)
    assert found["acknowledged"] >= 6
    assert found["remap_points"] > 0, "the jobs that resize were at it"
    assert (found["lost"], found["run_twice"], found["other_pids"]) == (0, 0, 0)
    assert found["orphans"] == 0


def test_submissions_followed_at_once_by_a_kill() -> None:
    found = in_cluster(local_cluster(2), loss.submit_and_kill, 1, 3)
    assert (found["acknowledged"], found["lost"], found["run_twice"]) == (3, 0, 0)


def test_a_tree_that_left_its_session_and_ignores_sigterm_is_killed() -> None:
    found = in_cluster(local_cluster(2), loss.setsid_tree_killed)
    assert (found["state"], found["alive"], found["orphans"]) == ("killed", 0, 0)


@pytest.mark.parametrize("stop_only", [False, True], ids=["all killed", "agent stopped"])
def test_a_lost_node(stop_only: bool) -> None:
    def lose(bench: Bench) -> dict[str, Any]:
        return loss.node_killed(bench, stop_only=stop_only)

    found = in_cluster(two_nodes(), lose)
    assert (found["state"], found["alive"], found["orphans"]) == ("failed", 0, 0)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_ranks_do_not_outlive_the_keeper_of_their_node(launcher: str) -> None:
    def told(bench: Bench) -> dict[str, Any]:
        job = bench.submit(loss.FOREVER, initial=4, kind="rigid")
        until(lambda: len(bench.runs().get(job, ())) == 4, "the job does not start")
        ranks = set(bench.runs()[job])
        others = [pid for pid in processes_of(bench, "n02") if pid not in ranks]
        assert others, "a keeper; under mpiexec a proxy, too"
        process_tree.kill(others)
        until(lambda: bench.idle() == 4, "the processors do not come back")
        return {"state": bench.states()[job], "alive": sum(is_alive(pid) for pid in ranks)}

    found = in_cluster(two_nodes(), told, launcher=launcher)
    assert found == {"state": "failed", "alive": 0, "orphans": 0}
