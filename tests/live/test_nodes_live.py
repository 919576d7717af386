"""Real nodes that drain, are resumed and removed, and agents that are told to go."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from dq_client.base import messages as m
from dq_client.deploy import local
from dq_client.node import local_agents
from harness.bench import until
from harness.commands import CommandLine
from harness.live import ENDED
from tests.live.own_ranks import OwnRanks, one_processor_nodes

pytestmark = [pytest.mark.live, pytest.mark.mpi]

PROTECTED = str(Path(__file__).with_name("protected.py"))
MISTAKEN = str(Path(__file__).with_name("mistaken.py"))
SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[OwnRanks]:
    """Three nodes, n01 to n03, of one processor each."""
    bench = OwnRanks(tmp_path, one_processor_nodes(3))
    yield bench
    assert bench.close() == 0, "processes were left behind"


def nodes(ranks: OwnRanks) -> dict[str, dict[str, Any]]:
    return {node["name"]: node for node in ranks.ask(m.NodesQuery())}


def states(ranks: OwnRanks) -> str:
    return " ".join(node["state"] for node in nodes(ranks).values())


def goes_on(ranks: OwnRanks, job: int) -> None:
    """The job is on n02 alone, where its rank 0 is now, and computes."""
    until(lambda: list(ranks.ranks(job).values()) == ["n02"], "rank 0 does not leave")
    points = ranks.view(job)["remap_points"]
    until(lambda: ranks.view(job)["remap_points"] > points + 5, "the job stands still")


def test_a_job_leaves_the_node_of_its_rank_0_and_ends_right(ranks: OwnRanks) -> None:
    job = ranks.stay(2)
    ranks.settled(job, 2)
    dq = CommandLine(ranks.home.root)
    told = json.loads(dq.dq("node", "drain", "n01", "--reason", "new memory", "--json"))
    assert (told["nodes"][0]["state"], told["nodes"][0]["jobs"]) == ("draining", [job])
    goes_on(ranks, job)
    until(lambda: states(ranks) == "empty up up", "n01 does not get empty")
    row = nodes(ranks)["n01"]
    assert (row["processors"], row["idle"], row["jobs"]) == (1, 0, [])
    assert row["drain"]["reason"] == "new memory"
    story = [line["text"] for line in ranks.ask(m.WhyQuery(job))["story"]]
    assert "node n01 drains: from 2 to 1, off the 1 processors there" in story
    assert "new memory" in dq.dq("nodes")

    ranks.resize(job, 2)
    assert sorted(ranks.ranks(job).values()) == ["n02", "n03"]
    refused = dq.run("node", "drain", "n1", "n01")
    assert (refused.returncode, refused.stderr) == (5, "dq: no node named n1; did you mean n01?\n")
    refused = dq.run("node", "drain", "n01")
    assert refused.returncode == 4
    assert "node n01 is empty already" in refused.stderr
    dq.dq("node", "resume", "n01")
    ranks.resize(job, 3)
    assert ranks.end(job)["state"] == "done"
    assert ranks.lines(job)[-1] == "sizes 2 1 2 3"
    ranks.assert_clear()


def test_an_agent_that_is_told_to_go_ends_when_its_jobs_have_left(ranks: OwnRanks) -> None:
    job = ranks.stay(2)
    ranks.settled(job, 2)
    agent = psutil.Process(ranks.agent_pid("n01"))
    agent.terminate()
    until(lambda: not agent.is_running(), "the agent does not end", 10.0)
    goes_on(ranks, job)
    assert states(ranks) == "left up up"
    ranks.resize(job, 2)
    ranks.restart_server()  # it waits for no agent that has left
    ranks.restart_agent("n01")
    until(lambda: states(ranks) == "up up up", "n01 does not come back")
    ranks.resize(job, 3)
    assert ranks.end(job)["state"] == "done"
    assert ranks.lines(job)[-1] == "sizes 2 1 2 3"
    ranks.assert_clear()


def test_a_node_on_which_ranks_waited_in_vain_can_leave(ranks: OwnRanks) -> None:
    """Nobody asks how ranks have ended that never joined."""
    job = ranks.run(
        sys.executable, MISTAKEN, "joining fails early", 6000, initial=1, sizes=m.Sizes([1, 2])
    )
    until(lambda: ranks.view(job)["remap_points"] > 3, "the job does not begin")
    ranks.ask(m.Resize(job, 2))
    failed = lambda: "no such folder" in str(ranks.ask(m.WhyQuery(job))["story"])  # noqa: E731
    until(failed, "its growth does not fail")
    CommandLine(ranks.home.root).dq("node", "remove", "n02")
    until(lambda: states(ranks) == "up left up", "n02 does not leave")
    assert ranks.view(job)["state"] == "running"
    ranks.ask(m.Kill(job))
    until(lambda: ranks.view(job)["state"] in ENDED, "the job does not end")


def test_what_cannot_leave_is_ended_at_the_deadline(ranks: OwnRanks) -> None:
    rigid = ranks.run(*SLEEPER, kind="rigid", initial=2)
    until(lambda: ranks.view(rigid)["state"] == "running", "the job does not start")
    dq = CommandLine(ranks.home.root)
    dq.dq("node", "remove", "n02", "--deadline", "0.5s", "--reason", "sold")
    until(lambda: ranks.view(rigid)["end_s"] is not None, "the deadline does not count")
    view = ranks.view(rigid)
    assert (view["state"], view["reason"].split(": ")[0]) == (
        "failed",
        "node n02 was to be empty within 0.5 s and the job was still there",
    )
    assert view["reason"].endswith("(sold)")
    until(lambda: states(ranks) == "up left up", "n02 does not leave")
    until(lambda: "n02" not in CommandLine(ranks.home.root).dq("nodes"), "it is still listed")
    assert "n02" in dq.dq("nodes", "--all")
    ranks.restart_agent("n02")
    until(lambda: states(ranks) == "up up up", "n02 does not come back")


def test_a_protected_job_goes_on_elsewhere_from_its_partners_copies(ranks: OwnRanks) -> None:
    """Half of the newest copy is in the memory of the node whose agent goes."""
    local.stop_agents(ranks.home, ["n01"])
    local.start_agent(ranks.home, "n01", [m.NodeInfo("n01", 1, "n01")], leave_within_s=8.0)
    until(lambda: states(ranks) == "up up up", "n01 does not come back")
    protect = m.Protect("partner", every_points=1)
    words = [sys.executable, PROTECTED, "--turns", 120]
    job = ranks.run(*words, kind="rigid", initial=2, protect=protect)
    until(lambda: ranks.view(job)["remap_points"] > 5, "the job does not begin")
    assert ranks.view(job)["nodes"] == ["n01", "n02"]
    psutil.Process(ranks.agent_pid("n01")).terminate()
    until(
        lambda: "n01" not in local_agents.running_agents(ranks.home), "the agent does not end", 10.0
    )
    until(lambda: ranks.view(job)["state"] in ENDED, "the job never ends")
    view = ranks.view(job)
    assert (view["state"], view["restarts"], states(ranks)) == ("done", 1, "left up up")
    begun = [line for line in ranks.lines(job) if line.startswith("begin 2 at ")]
    assert int(begun[-1].split()[-1]) > 5, "it began again from a copy"
    assert ranks.lines(job)[-1] == "data right"
    story = [line["text"] for line in ranks.ask(m.WhyQuery(job))["story"]]
    assert any("drained by agent n01 (its agent was told to go)" in line for line in story)


def test_without_a_server_an_agent_ends_on_which_nothing_runs(ranks: OwnRanks) -> None:
    ranks.kill_server()
    assert local.stop_agents(ranks.home) == ["n01", "n02", "n03"]
    ranks.start_server()
    assert states(ranks) == "lost lost lost"


def test_told_twice_an_agent_ends_at_once(ranks: OwnRanks) -> None:
    rigid = ranks.run(*SLEEPER, kind="rigid", initial=1)
    until(lambda: ranks.view(rigid)["state"] == "running", "the job does not start")
    agent = psutil.Process(ranks.agent_pid("n01"))
    agent.terminate()
    until(lambda: states(ranks) == "draining up up", "the server does not hear of it")
    assert agent.is_running()
    os.kill(agent.pid, signal.SIGTERM)
    until(lambda: not agent.is_running(), "the agent does not end", 5.0)
    until(lambda: ranks.view(rigid)["state"] == "failed", "the job goes on without its node")
