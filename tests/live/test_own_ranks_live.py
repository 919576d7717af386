"""Ranks that agents start, when a part of the cluster dies: the job goes on, ends as it should, and
leaves nothing. One agent for all processors, and two agents with a world across both."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from dq_client.base import messages as m
from dq_client.deploy.cluster import ClusterShape
from harness.bench import two_nodes, until
from harness.live import Live
from tests.live.own_ranks import STAYING, OwnRanks, one_processor_nodes

pytestmark = [pytest.mark.live, pytest.mark.mpi]

ASKING = str(Path(__file__).with_name("asking.py"))


def made(
    tmp_path_factory: pytest.TempPathFactory, cluster: Callable[[], ClusterShape]
) -> Iterator[OwnRanks]:
    bench = OwnRanks(tmp_path_factory.mktemp("own"), cluster())
    yield bench
    assert bench.close() == 0, "processes were left behind"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnRanks]:
    yield from made(tmp_path_factory, two_nodes)


@pytest.fixture
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnRanks]:
    """Whose agents have no starter yet."""
    yield from made(tmp_path_factory, two_nodes)


# --- agents -------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 3])
def test_a_job_outlives_its_agents_and_is_resized_by_the_next(bench: OwnRanks, code: int) -> None:
    job = bench.stay(4, code=code)
    bench.settled(job, 4)
    before = set(bench.ranks(job))
    assert set(bench.ranks(job).values()) == {node.name for node in bench.cluster.nodes}
    bench.kill_agents()
    time.sleep(0.3)
    assert set(bench.ranks(job)) == before, "ranks died with their agent"
    bench.restart_agents()
    bench.resize(job, 2)
    assert set(bench.ranks(job)) < before
    bench.resize(job, 4)
    view = bench.end(job)
    assert view["state"] == ("failed" if code else "done"), view["reason"]
    assert f"exit code {code}" in view["reason"]
    assert bench.lines(job)[-1] == "sizes 4 2 4"
    bench.assert_clear()


@pytest.mark.parametrize("code", [0, 3])
def test_a_job_ends_while_its_agents_are_away(bench: OwnRanks, code: int) -> None:
    job = bench.stay(4, code=code)
    bench.settled(job, 4)
    bench.kill_agents()
    bench.stop.touch()
    until(lambda: bench.lines(job)[-1] == "sizes 4", "the program does not end")
    if len(bench.cluster.agents()) == 1:
        until(lambda: not bench.ranks(job), "the ranks do not end")
    else:
        time.sleep(0.5)
        assert bench.ranks(job), "MPI_Finalize is a barrier, and nobody carries it"
    bench.restart_agents()
    view = bench.ended(job)
    assert (view["state"], view["exit_code"]) == ("failed" if code else "done", code)
    bench.assert_clear()


@pytest.mark.parametrize("wait_s", [0.0, 0.03, 0.1])
def test_agents_die_while_a_job_ends(bench: OwnRanks, wait_s: float) -> None:
    job = bench.stay(4)
    bench.settled(job, 4)
    bench.stop.touch()
    time.sleep(wait_s)
    bench.kill_agents()
    bench.restart_agents()
    assert bench.ended(job)["state"] == "done"
    bench.assert_clear()


def test_a_rank_that_dies_while_its_agent_is_away_is_named(bench: OwnRanks) -> None:
    job = bench.stay(4)
    bench.settled(job, 4)
    bench.kill_agents()
    pid, node = list(bench.ranks(job).items())[-1]
    os.kill(pid, signal.SIGSEGV)
    time.sleep(0.2)
    bench.restart_agents()
    view = bench.ended(job)
    assert view["state"] == "failed"
    assert f"on {node} was ended by signal 11 (SIGSEGV)" in view["reason"]
    bench.assert_clear()


def starters_of(bench: OwnRanks) -> list[psutil.Process]:
    """Children of agents that load packages, or have."""
    found = []
    for name in bench.cluster.agents():
        for child in psutil.Process(bench.agent_pid(name)).children():
            if "starter" in child.cmdline():
                found.append(child)
    return found


def test_agents_die_while_their_starters_load(fresh: OwnRanks) -> None:
    job = fresh.stay(4)
    until(lambda: len(starters_of(fresh)) == 2 or bool(fresh.ranks(job)), "no starter is begun")
    starters = starters_of(fresh)
    fresh.kill_agents()
    fresh.restart_agents()
    fresh.settled(job, 4)
    assert len(fresh.ranks(job)) == 4, "each rank runs once"
    until(lambda: not any(s.is_running() for s in starters), "starters outlive their agents")
    assert fresh.end(job)["state"] == "done"
    fresh.assert_clear()


def test_agents_die_while_new_ranks_arrive(bench: OwnRanks) -> None:
    job = bench.stay(1)
    bench.settled(job, 1)
    bench.ask(m.Resize(job, 4))
    until(lambda: ranks_below(bench) > 1, "no new rank is started")
    bench.kill_agents()
    time.sleep(0.2)
    bench.restart_agents()
    bench.settled(job, 4)
    assert bench.end(job)["state"] == "done"
    assert bench.lines(job)[-1] == "sizes 1 4"
    bench.assert_clear()


def ranks_below(bench: OwnRanks) -> int:
    """Processes that run the job's program, whether they are in its loop or not."""
    return sum(STAYING in words for words in (" ".join(p) for p in bench.processes()))


# --- the server -----------------------------------------------------------------------------------


def test_the_server_dies_while_a_world_starts(bench: OwnRanks) -> None:
    job = bench.stay(4)
    bench.restart_server()
    bench.settled(job, 4)
    assert bench.end(job)["state"] == "done"
    assert sum(line.startswith("here ") for line in bench.lines(job)) == 4, "each rank ran once"
    bench.assert_clear()


def test_the_server_dies_while_new_ranks_arrive(bench: OwnRanks) -> None:
    job = bench.stay(2)
    bench.settled(job, 2)
    bench.ask(m.Resize(job, 4))
    until(lambda: ranks_below(bench) > 2, "no new rank is started")
    bench.restart_server()
    bench.settled(job, 4)
    assert bench.end(job)["state"] == "done"
    bench.assert_clear()


@pytest.mark.parametrize("wait_s", [0.0, 0.05, 0.3])
def test_the_server_dies_while_a_job_ends(bench: OwnRanks, wait_s: float) -> None:
    job = bench.stay(4)
    bench.settled(job, 4)
    bench.stop.touch()
    time.sleep(wait_s)
    bench.restart_server()
    assert bench.ended(job)["state"] == "done"
    bench.assert_clear()


# --- losses ---------------------------------------------------------------------------------------


def test_a_killed_rank_is_named_with_node_and_signal(bench: OwnRanks) -> None:
    job = bench.stay(4)
    bench.settled(job, 4)
    (last,) = (line.split() for line in bench.lines(job) if line.split()[2:3] == ["3"])
    os.kill(int(last[1]), signal.SIGKILL)
    view = bench.ended(job)
    why = f"rank 3 on {last[3]} was ended by signal 9 (SIGKILL)"
    assert view["state"] == "failed"
    assert why in view["reason"]
    assert why in "\n".join(d["text"] for d in bench.ask(m.WhyQuery(job))["story"])
    bench.assert_clear()


@pytest.fixture
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnRanks]:
    """Three nodes of one processor, an agent each."""
    yield from made(tmp_path_factory, lambda: one_processor_nodes(3))


def test_a_job_leaves_its_first_node_and_comes_back_to_it(small: OwnRanks) -> None:
    words = ["+2", "-first", "+1", "-first"]
    job = small.run(sys.executable, ASKING, *words, kind="evolving")
    view = small.ended(job)
    assert view["state"] == "done", view["reason"]
    assert [stay["processors"] for stay in view["sizes"]] == [1, 3, 2, 3, 2]
    assert '"end": true' in small.lines(job)[-1]
    small.assert_clear()


def test_a_node_beside_those_of_a_local_cluster(live: Live, tmp_path: Path) -> None:
    """Two keepers on one machine, one of them with several nodes."""
    program = tmp_path / "sum.py"
    program.write_text("from mpi4py import MPI\nprint(MPI.COMM_WORLD.allreduce(1))\n")
    live.up(2)
    live.dq("agent", "start", "--node", "beside", "--processors", 1)
    until(lambda: "beside" in live.dq("nodes"), "the node does not join")
    job = live.submit("-n", 3, "--kind", "rigid", "--", "python", program)
    assert live.wait_end(job)["state"] == "done", live.dq("logs", "--err", job)
    assert live.dq("logs", job).split() == ["3"] * 3
