"""Programs that somebody starts with mpiexec beside a cluster: they attach themselves, are resized
as any job is, and leave nothing, however they end. Whoever cannot attach runs on as it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dq_client.base import messages as m
from dq_client.deploy.cluster import local_cluster
from harness.bench import two_nodes
from harness.commands import HANG_S, ROOT, run_dq
from tests.live.attaching import Beside
from tests.live.own_ranks import STAYING

pytestmark = [pytest.mark.live, pytest.mark.mpi]

RELEASING = str(Path(__file__).with_name("releasing.py"))
CLUSTERS = {"one agent": lambda: local_cluster(4), "two agents": two_nodes}
one_agent = pytest.mark.parametrize("beside", ["one agent"], indirect=True)


@pytest.fixture(scope="module", params=["two agents"])
def beside(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Beside]:
    bench = Beside(tmp_path_factory.mktemp("attach"), CLUSTERS[request.param]())
    yield bench
    assert bench.close() == 0, "processes were left behind"


# --- a job as any other -------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 3])
def test_it_grows_and_shrinks_and_its_end_is_known(beside: Beside, code: int) -> None:
    job = beside.attached(2, STAYING, beside.stop, code)
    beside.settled(job, 2)
    view = beside.view(job)
    assert (view["name"], view["kind"], view["attached"]) == ("staying", "malleable", True)
    assert view["legal_sizes"] == [1, 2, 3, 4]
    beside.resize(job, 4)
    beside.resize(job, 1)
    beside.resize(job, 2)
    beside.stop.touch()
    assert beside.started is not None
    # A rank that fails ends the job, perhaps before rank 0 has left: mpiexec says SIGTERM then.
    assert beside.started.code() in {code, signal.SIGTERM if code else 0}
    view = beside.over(job)
    assert (view["state"], view["exit_code"]) == ("failed" if code else "done", code)
    assert "sizes 2 4 1 2" in beside.started.out
    assert len(beside.started.said()) == 1, "one line on the terminal"
    assert beside.started.err.splitlines() == beside.started.said()
    written = (beside.home.job(job) / "out").read_text()
    assert "the output of the 2 ranks that attached themselves goes where mpiexec" in written
    assert written.count("\nhere ") == 3, "new ranks write to the job's file"
    story = beside.ask(m.WhyQuery(job))["story"]
    assert story[0]["text"] == "started with mpiexec on 2 processors, and attached: 4 were idle"


def test_the_rank_that_started_it_may_leave(beside: Beside) -> None:
    job = beside.attached(1, RELEASING, attach="1")
    view = beside.over(job)
    assert (view["state"], view["name"]) == ("done", "releasing"), view["reason"]
    assert [stay["processors"] for stay in view["sizes"]] == [1, 3, 2]
    assert beside.started is not None
    assert beside.started.code() == 0, "mpiexec takes the end of its rank for what it is"
    total = sum(3.0 * i + 200 for i in range(300))
    assert f"total {total} on 2" in (beside.home.job(job) / "out").read_text()


@one_agent
def test_a_job_that_was_never_resized_ends_in_mpi_as_usual(beside: Beside) -> None:
    job = beside.attached(3, STAYING, beside.stop)
    beside.settled(job, 3)
    shown = run_dq("job", job, env={**os.environ, "DQ_HOME": str(beside.home.root)}).stdout
    assert "attached:     its first ranks were started by mpiexec" in shown
    beside.stop.touch()
    assert beside.over(job)["state"] == "done"
    assert beside.started is not None
    assert beside.started.code() == 0


# --- ends that nobody wanted ----------------------------------------------------------------------


def grown(beside: Beside) -> int:
    """A job on three processors, two of whose ranks mpiexec has started."""
    job = beside.attached(2)
    beside.settled(job, 2)
    beside.resize(job, 3)
    return job


def test_dq_kill_ends_the_program_of_mpiexec(beside: Beside) -> None:
    job = grown(beside)
    beside.ask(m.Kill(job))
    view = beside.over(job)
    assert (view["state"], view["reason"]) == ("killed", f"killed by {view['user']}")
    assert beside.started is not None
    assert beside.started.code() != 0


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_rank_that_is_killed_ends_the_job(beside: Beside, rank: int) -> None:
    job = grown(beside)
    (pid,) = (int(x.split()[1]) for x in beside.lines(job) if x.startswith("here ")
              and x.split()[2] == str(rank))  # fmt: skip
    os.kill(pid, signal.SIGKILL)
    view = beside.over(job)
    assert view["state"] == "failed"
    assert "signal 9 (SIGKILL)" in view["reason"]


FAILING = """
import resize_lib
with resize_lib.session() as rs:
    for turn in rs.iterations(100):
        if turn == 5 and rs.rank == 1:
            raise RuntimeError("mine")
        rs.comm.barrier()
"""


def test_an_exception_ends_the_job_with_its_traceback(beside: Beside) -> None:
    view = beside.over(beside.attached(2, "-c", FAILING))
    assert (view["state"], view["exit_code"], view["reason"]) == (
        "failed",
        1,
        "the application failed: <string>:6: RuntimeError: mine (rank 1)",
    )
    assert beside.started is not None
    assert "RuntimeError: mine" in beside.started.err
    assert beside.started.code() == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_end_of_mpiexec_ends_the_job(beside: Beside, number: int) -> None:
    job = grown(beside)
    beside.interrupt(number)
    assert beside.over(job)["state"] == "failed"


def test_the_end_of_the_keepers_ends_the_job(beside: Beside) -> None:
    job = grown(beside)
    for folder in beside.holdings():
        os.kill(int((folder / "claim").read_text().split()[0]), signal.SIGKILL)
    view = beside.over(job)
    assert view["state"] == "failed"
    # Whichever is noticed first: the keepers' end, or that of the ranks which they leave.
    assert any(w in view["reason"] for w in ("was killed", "has lost the job's processes"))


def test_it_outlives_server_and_agents_and_is_resized_by_the_next(beside: Beside) -> None:
    job = grown(beside)
    before = set(beside.ranks(job))
    beside.kill_agents()
    time.sleep(0.3)
    assert set(beside.ranks(job)) == before
    beside.restart_agents()
    beside.restart_server()
    assert set(beside.ranks(job)) == before
    beside.resize(job, 4)
    beside.resize(job, 1)
    beside.stop.touch()
    assert beside.over(job)["state"] == "done"
    assert beside.started is not None
    assert beside.started.code() == 0


# --- who cannot attach runs on as it is -----------------------------------------------------------


def plain(beside: Beside, ranks: int, **more: object) -> str:
    """Run a program that must not become a job; why it did not."""
    before = len(beside.states())
    started = beside.start(ranks, STAYING, __file__, **more)  # type: ignore[arg-type]
    assert started.code() == 0, started.err
    assert f"sizes {ranks}" in started.out
    assert len(beside.states()) == before
    assert not started.left()
    (line,) = started.err.splitlines()
    head, tail = "dq: not attached: ", f"; the program runs on with its {ranks} rank"
    assert line.startswith(head)
    assert tail in line
    return line.removeprefix(head).partition(tail)[0]


def test_no_room(beside: Beside) -> None:
    beside.stop.unlink(missing_ok=True)
    job = beside.run(sys.executable, STAYING, beside.stop, initial=3, walltime_s=600, kind="rigid")
    beside.wait_for([job], ("running",))
    nodes = [node.name for node in beside.cluster.nodes]
    where = f"{len(nodes)} nodes from {nodes[0]} to {nodes[-1]}"
    assert plain(beside, 2) == f"its 2 ranks run on {where}: 1 idle processors"
    waits = beside.run("true", initial=4, kind="rigid", walltime_s=600)
    assert plain(beside, 1) == (
        f"it needs 1 processors, 1 are idle, but job {waits}, which waits, would start nobody knows"
        " when"
    )
    for known in (waits, job):
        beside.ask(m.Kill(known))
    beside.ended(job)


@one_agent
def test_no_server(beside: Beside, tmp_path: Path) -> None:
    why = plain(beside, 2, home=tmp_path / "none")
    assert why == f"no server is running in {tmp_path / 'none'}: start one with dq up"


@one_agent
def test_sizes_without_the_one_that_it_has(beside: Beside) -> None:
    assert plain(beside, 3, attach="sizes=1,2,4") == "size 3 is not among the legal sizes 1, 2, 4"


@one_agent
def test_ranks_of_different_programs(beside: Beside) -> None:
    words = [STAYING, __file__, ":", "-n", "1", sys.executable, STAYING, __file__, "0"]
    started = beside.start(1, *words)
    assert started.code() == 0
    assert "its ranks run different programs, and a new one could run either" in started.err
    assert "sizes 2" in started.out


@one_agent
def test_started_without_mpiexec(beside: Beside) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "DQ_HOME": str(beside.home.root)}
    done = subprocess.run(
        [sys.executable, STAYING, __file__],
        env=env | {"DQ_ATTACH": "1"}, capture_output=True, text=True, timeout=HANG_S, check=True,
    )  # fmt: skip
    assert done.stderr == (
        "dq: not attached: resizing needs DQ or mpiexec, and this program was started without them;"
        " the program runs on with its 1 rank\n"
    )


@one_agent
@pytest.mark.parametrize("attach", ["0", None])
def test_who_does_not_ask_is_left_alone(beside: Beside, attach: str | None) -> None:
    before = len(beside.states())
    started = beside.start(1, STAYING, __file__, attach=attach)
    assert started.code() == 0
    assert started.err == ""
    assert len(beside.states()) == before


@one_agent
def test_words_that_make_no_sense_end_the_program_before_it_begins(beside: Beside) -> None:
    started = beside.start(2, STAYING, beside.stop, attach="sizes=1,x")
    assert started.code() == 2
    assert started.out == ""
    (line,) = started.err.splitlines()
    assert line == (
        "dq: DQ_ATTACH=sizes=1,x: sizes 1,x: give numbers with commas between, as 2,4,6, or grids,"
        " as 2x2,1x4"
    )


@one_agent
def test_a_program_that_dq_has_started_may_ask_in_vain(beside: Beside) -> None:
    job = beside.run(sys.executable, RELEASING, initial=1, kind="evolving", sizes=m.Sizes(max=3))
    view = beside.ended(job)
    assert (view["state"], view["attached"]) == ("done", False)
    assert [stay["processors"] for stay in view["sizes"]] == [1, 3, 2]
