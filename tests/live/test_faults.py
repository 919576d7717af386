"""A fault at each step of a resize: the job goes on at its old or its new size with every element
right, or ends with a reason where it lost a rank; the next resize works, and in the end all
processors are idle and nothing is left.

All of it under DQ's own launcher, and under mpiexec what concerns ranks and their start."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from dq_client.base import messages as m
from dq_client.base.connection import Connection
from dq_client.base.home import is_alive
from dq_client.deploy import local
from dq_client.deploy.cluster import ClusterShape, local_cluster
from dq_client.node import local_agents
from dq_client.node.fleet import Fleet
from harness import bench
from harness.bench import until
from harness.live import LAUNCHERS, Live
from tests.live.serving import answer_of

pytestmark = [pytest.mark.live, pytest.mark.mpi]

PROGRAM = "tests.mpi.programs.session_faults"
HEARTBEAT_S = "1"
LOST_AFTER_S = "12"  # more than the start of an agent takes on a busy machine


class Faults(Live):
    """A cluster for many faults, one after the other."""

    def __init__(self, root: Path, cluster: ClusterShape, config: Path, launcher: str) -> None:
        super().__init__(root / "home", launcher)
        options = [
            "--heartbeat",
            HEARTBEAT_S,
            "--lost-after",
            LOST_AFTER_S,
            "--config",
            str(config),
        ]
        self.options = [*options, "--launcher", launcher]
        self.root, self.agents = root, cluster.agents()
        self.resizes: dict[int, int] = {}  # of each job, how many have been ordered
        local.bring_up(self.home, cluster, self.options)

    def ask(self, body: m.RequestBody) -> Any:
        connection = Connection.to(self.home)
        try:
            return answer_of(m.Data, connection.call(body, 20.0)).data
        finally:
            connection.close()

    def start(self, size: int) -> tuple[int, Path]:
        """A job at this size, running; its folder."""
        folder = self.root / f"job{len(list(self.root.iterdir()))}"
        folder.mkdir()
        job = self.submit("-n", size, "--sizes", "1,2,3,4", "--", "python", "-m", PROGRAM, folder)
        self.wait(job, lambda j: j["state"] == "running" and j["remap_points"] > 1)
        return job, folder

    def other(self, job: int) -> str:
        """The node that the job is not on: whichever reported first has the job."""
        (name,) = set(self.agents) - set(self.job(job)["nodes"])
        return name

    def strike(self, job: int, folder: Path, size: int, fault: str, *, mend: bool = True) -> None:
        """Order a resize that this fault disturbs, and start again what it killed."""
        (folder / "struck").unlink(missing_ok=True)
        (folder / "fault").write_text(fault)
        self.dq("resize", job, size)
        until(lambda: (folder / "struck").exists(), f"{fault} did not happen")
        if mend:
            self.mend(fault.partition(": ")[2])

    def mend(self, what: str) -> None:
        """Start again what was killed."""
        if what == "server":
            until(lambda: not self.serves(), "the server does not die")
            local.start_server(self.home, self.options)
        elif what.startswith("agent "):
            name = what.split()[1]
            until(
                lambda: name not in local_agents.running_agents(self.home), "the agent does not die"
            )
            local.start_agents(self.home, Fleet({name: self.agents[name]}))

    def serves(self) -> bool:
        return is_alive(json.loads(self.home.server_file.read_text())["pid"])

    def settled(self, job: int) -> str:
        """How the resize that was ordered last ends, with a few turns more after it."""
        self.resizes[job] = count = self.resizes.get(job, 0) + 1
        outcomes: list[str] = []

        def settled() -> bool:
            story = self.ask(m.WhyQuery(job))["story"]
            outcomes[:] = [d["what"] for d in story if d["what"] in EITHER]
            return len(outcomes) == count

        until(settled, "the resize was neither carried out nor given up")
        seen = self.job(job)["remap_points"]
        self.wait(job, lambda j: j["remap_points"] > seen + 3)
        return outcomes[-1]

    def resize(self, job: int, size: int) -> None:
        """A resize that nothing disturbs."""
        self.dq("resize", job, size)
        assert self.settled(job) == "committed"

    def idle(self) -> int:
        return sum(node["idle"] for node in self.ask(m.NodesQuery()))

    def finish(self, job: int, folder: Path) -> Any:
        (folder / "stop").touch()
        view = self.wait_end(job)
        assert view["state"] == "done", self.dq("logs", job, "--err", code=None)
        self.all_is_back(folder)
        return json.loads(self.dq("logs", job).splitlines()[-1])

    def ends_as_failed(self, job: int) -> None:
        """It has lost a rank. mpiexec tears it down without a word of why, and may say 0 to it."""
        view = self.wait_end(job)
        assert view["state"] == "failed"
        if self.launcher == "dq":
            assert re.search(r"rank \d on \w+ was ended by signal 9 \(SIGKILL\)", view["reason"])
        else:
            reasons = ("ended with exit code", "a rank ended without leaving the job")
            assert any(reason in view["reason"] for reason in reasons), view["reason"]

    def aborted(self, job: int, *whys: str) -> None:
        """The last resize was given up, and the story says why."""
        assert self.settled(job) == "aborted"
        story = self.ask(m.WhyQuery(job))["story"]
        text = [d["text"] for d in story if d["what"] == "aborted"][-1]
        assert all(why in text for why in whys), text

    def all_is_back(self, folder: Path) -> None:
        """Every processor idle, and no process of the job."""
        total = sum(node.processors for nodes in self.agents.values() for node in nodes)
        until(lambda: self.idle() == total, "processors were lost")
        until(lambda: not ranks_of(folder), f"left over: {ranks_of(folder)}")


def ranks_of(folder: Path) -> list[int]:
    found = []
    for process in psutil.process_iter():
        try:
            if str(folder) in process.cmdline():
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("config") / "config.toml"
    path.write_text('[scheduler]\nresize = "none"\n')  # nobody but `dq resize` moves the job
    return path


@pytest.fixture(scope="module")
def one_machine(
    tmp_path_factory: pytest.TempPathFactory, config: Path, request: pytest.FixtureRequest
) -> Iterator[Faults]:
    root = tmp_path_factory.mktemp("faults")
    cluster = Faults(root, local_cluster(4), config, request.param)
    yield cluster
    cluster.clear()


@pytest.fixture(scope="module")
def two_nodes(
    tmp_path_factory: pytest.TempPathFactory, config: Path, request: pytest.FixtureRequest
) -> Iterator[Faults]:
    """Two agents of two processors each: a job of two grows onto the other node."""
    root = tmp_path_factory.mktemp("faults")
    cluster = Faults(root, bench.two_nodes(), config, request.param)
    yield cluster
    cluster.clear()


BY_HAND = pytest.param("mpiexec", marks=pytest.mark.slow)


def launchers(cluster: str, *which: str) -> pytest.MarkDecorator:
    """The launchers to test under; mpiexec by hand: test_both_launchers.py has a core."""
    named = [name if name == LAUNCHERS[0] else BY_HAND for name in which or LAUNCHERS]
    return pytest.mark.parametrize(cluster, named, indirect=True, scope="module")


EITHER = {"committed", "aborted"}  # whichever came first, the server's return or the job's patience
SURVIVED = {  # in an expansion to 3, then in a shrink to 2, and how both may end
    "server dies once prepared": ("asked: server", "asked: server", EITHER),
    "an old rank's part cannot be packed": ("pack 1: raise", "pack 1: raise", {"aborted"}),
    "nor that of who joins, who leaves": ("unpack 2: raise", "pack 2: raise", {"aborted"}),
    "agent dies in redistribution": ("pack 0: agent local", "pack 0: agent local", {"committed"}),
    "server dies before commit": ("told: server", "told: server", {"committed"}),
    "server dies after commit": ("heard: server", "heard: server", {"committed"}),
    "connection cut before commit": ("told: cut", "told: cut", {"committed"}),
}


OF_RANKS = "an old rank's part cannot be packed", "agent dies in redistribution"


@pytest.mark.parametrize(
    ("one_machine", "name"),
    [
        *(("dq", name) for name in SURVIVED),
        *(pytest.param("mpiexec", name, marks=pytest.mark.slow) for name in OF_RANKS),
    ],
    indirect=["one_machine"],
    scope="module",
)
def test_the_job_goes_on_with_right_data(one_machine: Faults, name: str) -> None:
    cluster, (in_expansion, in_shrink, ends) = one_machine, SURVIVED[name]
    job, folder = cluster.start(2)
    cluster.strike(job, folder, 3, in_expansion)
    ended = cluster.settled(job)
    assert ended in ends
    if ended == "aborted":
        cluster.resize(job, 3)  # and the next one works
    cluster.strike(job, folder, 2, in_shrink)
    ended = cluster.settled(job)
    assert ended in ends
    if ended == "aborted":
        cluster.resize(job, 2)
    assert cluster.finish(job, folder)["sizes"] == [2, 3, 2]


LOST = {  # size before and after; a job that loses a rank ends
    "a new rank dies once it has joined": (2, 3, "unpack 2: die"),
    "an old rank dies in an expansion": (2, 3, "pack 1: die"),
    "a leaving rank dies": (3, 2, "pack 2: die"),
    "a staying rank dies in a shrink": (3, 2, "unpack 1: die"),
}


@launchers("one_machine")
@pytest.mark.parametrize("name", LOST)
def test_a_rank_that_dies_ends_the_job_and_nothing_else(one_machine: Faults, name: str) -> None:
    cluster, (before, after, fault) = one_machine, LOST[name]
    job, folder = cluster.start(before)
    cluster.strike(job, folder, after, fault)
    cluster.ends_as_failed(job)
    cluster.all_is_back(folder)


@launchers("one_machine")
def test_a_new_rank_dies_before_it_joins(one_machine: Faults) -> None:
    """Under mpiexec that is a rank of the job; DQ's own launcher knows that it is none yet."""
    job, folder = one_machine.start(2)
    one_machine.strike(job, folder, 4, "arrive 1: die")
    if one_machine.launcher == "mpiexec":
        one_machine.ends_as_failed(job)
        one_machine.all_is_back(folder)
        return
    one_machine.aborted(job, "rank 1 on", "which was to join, ended with signal 9 (SIGKILL)")
    one_machine.resize(job, 4)
    assert one_machine.finish(job, folder)["sizes"] == [2, 4]


@launchers("two_nodes")
def test_a_node_that_refuses_new_ranks_leaves_the_job_as_it_is(two_nodes: Faults) -> None:
    """Its agent finds no room on its disk for one more process."""
    job, folder = two_nodes.start(2)
    other = two_nodes.other(job)
    holdings = two_nodes.home.agent(other) / "holdings"
    holdings.rename(holdings.with_name("away"))
    holdings.touch()
    try:
        two_nodes.dq("resize", job, 3)
        two_nodes.aborted(job, f"cannot start a process on {other}: ")
    finally:
        holdings.unlink()
        holdings.with_name("away").rename(holdings)
    two_nodes.resize(job, 3)
    assert two_nodes.finish(job, folder)["sizes"] == [2, 3]


@launchers("two_nodes")
def test_the_agent_of_the_new_node_dies_and_comes_back(two_nodes: Faults) -> None:
    job, folder = two_nodes.start(2)
    other = two_nodes.other(job)
    two_nodes.strike(job, folder, 3, f"arrive 0: agent {other}")
    assert two_nodes.settled(job) == "committed"
    two_nodes.strike(job, folder, 2, f"pack 2: agent {other}")
    assert two_nodes.settled(job) == "committed"
    assert two_nodes.finish(job, folder)["sizes"] == [2, 3, 2]


@launchers("two_nodes")
def test_a_leaving_rank_on_another_node_dies(two_nodes: Faults) -> None:
    job, folder = two_nodes.start(3)
    two_nodes.strike(job, folder, 2, "pack 2: die")
    two_nodes.ends_as_failed(job)
    two_nodes.all_is_back(folder)


@launchers("two_nodes")
def test_the_agent_of_the_new_node_dies_for_good(two_nodes: Faults) -> None:
    job, folder = two_nodes.start(2)
    other = two_nodes.other(job)
    two_nodes.strike(job, folder, 3, f"arrive 0: agent {other}", mend=False)
    view = two_nodes.wait_end(job)
    assert (view["state"], f"node {other} was lost" in view["reason"]) == ("failed", True)
    until(lambda: two_nodes.idle() == 2, "the other node's processors do not come back")
    two_nodes.mend(f"agent {other}")
    two_nodes.all_is_back(folder)
