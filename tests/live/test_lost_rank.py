"""A rank that ends in mid-run without a word, and by no signal: its keeper notices. MPI's launcher
does not, there its node's agent does. And nobody is missed who left in order, whoever was away
meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dq_client.base import messages as m
from dq_client.base import presence, process_tree
from dq_client.base.connection import Connection
from dq_client.base.home import Home
from dq_client.deploy import local
from dq_client.deploy.cluster import local_cluster
from harness.bench import Bench, two_nodes, until

pytestmark = [pytest.mark.live, pytest.mark.mpi]

PROGRAM = str(Path(__file__).with_name("parting.py"))
# Under mpiexec by its agent; or, on one node, by MPI, if it is in time to kill the neighbours.
NOTICED = ("a rank ended without leaving the job", "exit code 9", "exit code 3")
ROOT = str(Path(__file__).parents[2])


class Parting(Bench):
    def run(self, *how: object, **more: Any) -> int:
        env = {"PYTHONPATH": ROOT}
        argv = [sys.executable, PROGRAM, *map(str, how)]
        return self.submit(argv, env=env, **{"kind": "rigid", "initial": 4, **more})

    def view(self, job: int) -> Any:
        return self.ask(m.JobQuery(job))

    def begun(self, job: int) -> None:
        """Wait until the job is in its loop."""
        out = self.home.job(job) / "out"
        until(lambda: out.exists() and "begin" in out.read_text(), "the job does not begin")

    def program_ended(self, job: int) -> None:
        """Wait until its last rank has left the session."""
        out = self.home.job(job) / "out"
        until(lambda: "end" in out.read_text().split(), "the program does not end")

    def ended(self, job: int) -> Any:
        """How it ended; everything has come back, no mark is left."""
        until(lambda: self.view(job)["end_s"] is not None, "the job never ends")
        total = self.cluster.processors
        until(lambda: self.idle() == total, "processors were lost")
        marks = [presence.folder_of(self.home, name) for name in self.cluster.agents()]
        until(lambda: not [x for f in marks for x in f.glob("*")], "marks are left behind")
        return self.view(job)

    def noticed(self, view: Any, code: int) -> bool:
        """Whether the reason is rank 3, which ended with this exit code."""
        if self.launcher == "mpiexec":
            return any(why in view["reason"] for why in NOTICED)
        last = self.cluster.nodes[-1].name
        why = f"exit code {code}" if code else f"rank 3 on {last} ended without leaving the job"
        return why in view["reason"]

    def ranks(self) -> dict[str, int]:
        """Nodes' agents and how many ranks each sees as its own."""
        owners = {name: process_tree.Owner(self.home.root, name) for name in self.cluster.agents()}
        return {
            name: sum(map(is_rank, process_tree.of_agent(owner))) for name, owner in owners.items()
        }


def is_rank(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    # A forked rank's command line is one text (dq_client/base/process.py, show).
    return PROGRAM.encode() in b" ".join(words[:2]).split(b" ")[1:2]


CASES = [("two nodes", "dq"), ("two nodes", "mpiexec")]


@pytest.fixture(scope="module", params=CASES, ids=", ".join)
def bench(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Parting]:
    where, launcher = request.param
    cluster = local_cluster(4) if where == "one node" else two_nodes()
    # Agents are away here, and no node is lost by that.
    options = ("--lost-after", "60")
    made = Parting(tmp_path_factory.mktemp("parting"), cluster, launcher, options)
    yield made
    assert made.close() == 0, "processes were left behind"


@pytest.mark.parametrize("code", [3, 0])
def test_a_rank_that_ends_without_a_word_ends_the_job(bench: Parting, code: int) -> None:
    job = bench.run("lost", 3, code)
    bench.begun(job)
    view = bench.ended(job)
    assert view["state"] == "failed"
    assert bench.noticed(view, code), view["reason"]


def test_a_protected_job_starts_again(bench: Parting) -> None:
    """It was not the last remap point: what the first life lost is not the job's end."""
    job = bench.run("lost", 3, 0, protect=m.Protect("disk", every_points=1, restarts=1))
    view = bench.ended(job)
    assert (view["state"], view["restarts"]) == ("failed", 1), "lost in its second life, too"
    assert bench.noticed(view, 0), view["reason"]


@pytest.mark.parametrize("how", ["orderly", "block", "finalized"])
def test_ranks_that_leave_one_after_the_other_are_not_missed(bench: Parting, how: str) -> None:
    job = bench.run(how)
    view = bench.ended(job)
    assert view["state"] == "done", view["reason"]


def test_ranks_that_retire_are_not_missed(bench: Parting) -> None:
    job = bench.run("orderly", kind="malleable", sizes=m.Sizes([2, 4]))
    bench.begun(job)
    bench.ask(m.Resize(job, 2))
    until(lambda: bench.idle() == 2, "the job does not shrink")
    view = bench.ended(job)
    assert view["state"] == "done", view["reason"]


def test_agents_and_a_server_that_were_away_miss_nobody(bench: Parting) -> None:
    """Ranks leave while nobody looks, and whoever comes back finds nothing wrong."""
    job = bench.run("orderly")
    bench.begun(job)
    assert sum(bench.ranks().values()) == 4
    assert min(bench.ranks().values()) > 0, "each agent's ranks are known as its own"
    for name in bench.cluster.agents():
        os.kill(bench.agent_pid(name), signal.SIGKILL)
    bench.kill_server()
    bench.program_ended(job)
    if bench.launcher == "mpiexec" or len(bench.cluster.agents()) == 1:
        until(lambda: sum(bench.ranks().values()) == 0, "ranks do not leave")
    # else they stay in MPI_Finalize: its barrier goes through the agents
    local.start_server(bench.home, bench.options)
    for name in bench.cluster.agents():
        bench.restart_agent(name)
    bench.connection.close()
    bench.connection = Connection.to(bench.home)
    view = bench.ended(job)
    assert view["state"] == "done", view["reason"]


def test_a_rank_lost_while_its_agent_was_away_is_missed_later(bench: Parting) -> None:
    job = bench.run("lost", 3, 0)
    bench.begun(job)
    names = list(bench.cluster.agents())
    for name in names:
        os.kill(bench.agent_pid(name), signal.SIGKILL)
    until(lambda: sum(bench.ranks().values()) < 4, "the rank does not end")
    for name in names:
        bench.restart_agent(name)
    view = bench.ended(job)
    assert view["state"] == "failed"
    assert bench.noticed(view, 0), view["reason"]


MARKED = """
import os, sys
from dq_client.base.presence import RankMark
mark = RankMark()
"""


@pytest.mark.parametrize(
    ("end", "is_lost"),
    [
        ("os._exit(0)", True),
        ("os.kill(os.getpid(), 9)", True),
        ("mark.remove(); os._exit(3)", False),
        ("mark.remove(); mark.remove()", False),
        ("os.fork() or mark.remove(); os._exit(0)", True),
    ],
)
def test_a_mark_whose_process_is_gone_is_a_lost_rank(
    tmp_path: Path, end: str, is_lost: bool
) -> None:
    """A forked child speaks for itself only."""
    owner = process_tree.Owner(tmp_path, "n01")
    env = {**owner.marks(), "DQ_JOB_ID": "7", "DQ_JOB_INSTANCE": "2", "PYTHONPATH": ROOT}
    process = subprocess.Popen([sys.executable, "-c", MARKED + end], env=env)
    process.wait()
    marks = presence.folder_of(Home(tmp_path), "n01") / "7.2"
    assert presence.lost(marks) == ([process.pid] if is_lost else [])


def test_a_rank_that_is_there_is_not_lost(tmp_path: Path) -> None:
    owner = process_tree.Owner(tmp_path, "n01")
    mark = presence.RankMark({**owner.marks(), "DQ_JOB_ID": "7", "DQ_JOB_INSTANCE": "2"})
    (path,) = presence.folder_of(Home(tmp_path), "n01").glob("7.2/*")
    assert presence.lost(path.parent) == []
    path.write_text("1")  # somebody else has the number since
    assert presence.lost(path.parent) == [os.getpid()]
    mark.remove()
    assert presence.lost(path.parent) == []


def test_outside_of_dq_nothing_is_marked(tmp_path: Path) -> None:
    presence.RankMark({"DQ_HOME": str(tmp_path), "DQ_AGENT": "n01"})
    assert not list(tmp_path.iterdir())
