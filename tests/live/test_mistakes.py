"""Mistakes of programs under a real server: right, or one clear error that names the line.

All jobs of a program run at once, on one cluster; each test looks at one of them. Jobs that may
have one processor or two grow by themselves.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from dq_client.base import messages as m
from dq_client.base.connection import Connection
from dq_client.deploy import local
from harness.bench import until
from harness.commands import ROOT
from harness.live import Job, Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]

PROGRAM = Path(__file__).with_name("mistaken.py")
UNEVEN = Path(__file__).with_name("uneven.py")
LIMIT_S = 10  # many jobs start at once: ranks may come up late
WITHIN_S = 240.0
ITEMS = 4096


@dataclass(frozen=True)
class Case:
    """`told`: in the reason; `also`: more words of it. sizes: "1,2" grows, "2" has two ranks.

    code: the exit code, if it is one that the program names. order: a size that the user orders.
    """

    told: str
    sizes: str = "1,2"
    turns: int = 60
    watch: str = ""
    also: str = ""
    program: Path = PROGRAM
    code: int = 0
    order: int = 0
    job: list[int] = field(default_factory=list, compare=False)


def uneven(told: str, sizes: str = "2,3", **more: Any) -> Case:
    return Case(told, sizes, program=UNEVEN, **more)


FAIL = {
    "kept and written": Case("read-only", also="fetch x.local again"),
    "kept and read": Case("from before a resize", also="x.local"),
    "view of a kept part": Case("from before a resize", also="x.local"),
    "kept communicator": Case("communicator from before a resize"),
    "duplicate of the world": Case("allreduce of a communicator from before a resize"),
    "fails early": Case("ZeroDivisionError: division by zero", "2"),
    "an exception": Case("ValueError: what was expected is not there", "2"),
    "one exits": Case("rank 1 left the job after 5 iterations", "2"),
    "one exits, others communicate": Case("in rs.comm.allreduce", "2"),
    "one leaves the loop": Case("rank 1 left the job after 5 iterations", "2"),
    "one sleeps": Case("no remap point for", "2", watch="kill"),
    "uneven loops": uneven("iteration 1 of 60 of loop 1", also="iteration 1 of 61 of loop 1"),
    "uneven inner loops": uneven("in it iteration 1 of 3 of", also="in it iteration 1 of 4 of"),
    "one breaks early": uneven(
        "come to iteration 57 of loop 1, then", also="come to iteration 58 of loop 1"
    ),
    "one breaks late": uneven("all ranks must make the same iterations"),
    "other names": uneven("loop 1 'loop0'", also="loop 1 'loop1'"),
    "one raises, others communicate": uneven("ValueError: bad"),
    "one exits with 3": uneven("exit code 3", code=3),
    "one is interrupted": uneven("KeyboardInterrupt"),
    "one aborts": uneven("exit code 7", code=7),
    "one ends at once": uneven("rank 1", also="ended without leaving the job"),
    "one spawns": uneven("MPI_Comm_spawn", also="is refused: a malleable job is resized by"),
    "one communicates": uneven("all ranks wait for one another", also="in rs.comm.Bcast"),
    "differing value": Case("'seed' is not the same on all ranks", "2,3"),
    "differing object": Case("rs.keep 'sums' is not the same on all ranks", "2,1", order=1),
}
GO_ON = {
    "joining fails": Case("RuntimeError: no such file"),
    "joining fails early": Case("RuntimeError: no such folder"),
    "name of a hook": Case("'counted' is not defined", also="count, declared by rs.on_resize"),
    "joining leaves": Case("ended with exit code 0"),
    "joining leaves in the session": Case("its program has begun no loop"),
    "joining hangs": Case(f"have not come to their loop in {LIMIT_S} s", turns=600),
    "unpicklable value": Case("cannot pickle"),
    "kept split": Case("split cannot be copied", also="it holds a communicator"),
    "read by a thread": uneven("a thread of the program runs beside the loop", "1,2"),
    "message under way": Case("with tag 5 has not been received", also="after 8 remap points"),
    "sent between loops": Case("communication (reduce) before the loop"),
    "another size": uneven("Block1D(n=11"),
    "another order": uneven("rank 0 has 'y'", also="rank 1 has 'z'"),
    "declared by some": uneven("rank 0 declared 2 arrays, rank 1 1"),
    "declared late": uneven("rank 0 declared 2 arrays, rank 1 1", "1,2"),
    "another shape": uneven("'y': the local array has shape (7,)"),
    "leaving is caught": uneven("2 to 1 done", "2,1", order=1, turns=200),
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """With a short limit for ranks that are missing."""
    folder = tmp_path_factory.mktemp("dq")
    (folder / "dq.toml").write_text(f"[watch]\nlimit_s = {LIMIT_S}\n")
    for case in (*FAIL.values(), *GO_ON.values()):
        case.job.clear()  # of an earlier cluster, if other tests came between
    live = Live(folder / "home")
    live.up(64, "--config", folder / "dq.toml", "--lost-after", 30)
    yield live
    live.clear()


def submit(cluster: Live, program: Path) -> None:
    """All cases of a program, at once."""
    connection = Connection.to(cluster.home)  # a command for each would take most of the time
    try:
        for name, case in {**FAIL, **GO_ON}.items():
            if case.program != program:
                continue
            sizes = [int(size) for size in case.sizes.split(",")]
            job = m.Submit(
                request=name,
                name="mistaken",
                argv=[sys.executable, str(program), name, str(case.turns)],
                cwd=str(ROOT),
                initial=sizes[0],
                sizes=m.Sizes(listed=[*sizes]),
                inherited=dict(os.environ),
                watch=case.watch,
            )
            reply = connection.call(job, timeout_s=60.0)
            assert isinstance(reply, m.Submitted)
            case.job.append(reply.job)
            if case.order:  # at once, before it ends
                until(lambda: is_running(connection, reply.job), "it does not start")  # noqa: B023
                connection.call(m.Resize(reply.job, case.order), timeout_s=60.0)
    finally:
        connection.close()
    until(lambda: bool(ranks_of(cluster)), "ranks of jobs that run are not found")


def is_running(connection: Connection, job: int) -> bool:
    reply = connection.call(m.JobQuery(job), timeout_s=60.0)
    return isinstance(reply, m.Data) and reply.data["state"] == "running"


def line(name: str, program: Path) -> str:
    """`file:line` of the mistake, if the program marks one."""
    for number, text in enumerate(program.read_text().splitlines(), 1):
        if text.endswith(f"# HERE: {name}"):
            return f"{program.name}:{number}:"
    return ""


def story(cluster: Live, job: int) -> list[str]:
    """All that `dq why` tells, now and so far."""
    found = json.loads(cluster.dq("why", job, "--json"))
    return [entry["text"] for entry in [*found["now"], *found["story"]]]


def ended(cluster: Live, case: Case) -> Job:
    if not case.job:
        submit(cluster, case.program)
    return cluster.wait(
        case.job[0], lambda job: job["state"] in ("done", "failed", "killed"), WITHIN_S
    )


@pytest.mark.parametrize("name", GO_ON)
def test_the_resize_is_given_up_and_the_job_goes_on(cluster: Live, name: str) -> None:
    case = GO_ON[name]
    job = ended(cluster, case)
    assert job["state"] == "done"
    told = [text for text in story(cluster, case.job[0]) if case.told in text]
    assert told, story(cluster, case.job[0])
    for words in (case.also, line(name, case.program).removesuffix(":")):
        assert words in told[0]
    turns = case.turns + 2 * (name == "sent between loops")
    total = ITEMS * (1.0 + turns)
    assert f"sum {total} ranks" in cluster.dq("logs", case.job[0])


@pytest.mark.parametrize("name", FAIL)
def test_the_job_fails_and_says_why(cluster: Live, name: str) -> None:
    case = FAIL[name]
    job = ended(cluster, case)
    assert job["state"] == "failed"
    assert job["exit_code"] == case.code if case.code else job["exit_code"] != 0
    for words in (case.told, case.also, line(name, case.program).removesuffix(":")):
        assert words in job["reason"], job["reason"]


def test_no_leaver_takes_along_what_only_it_has(cluster: Live) -> None:
    case = FAIL["differing object"]
    ended(cluster, case)
    told = story(cluster, case.job[0])
    refused = [text for text in told if text.startswith("2 to 1 did not happen: ")]
    assert any("rs.keep 'sums' is not the same" in text for text in refused), told


def test_no_process_is_left_of_any(cluster: Live) -> None:
    for case in [*FAIL.values(), *GO_ON.values()]:
        ended(cluster, case)
    until(lambda: not ranks_of(cluster), "processes of jobs that have ended are there")


def ranks_of(cluster: Live) -> list[str]:
    """Command lines of the jobs' processes that this cluster still has."""
    lines = []
    for pid in local.leftovers(cluster.home):
        with suppress(psutil.Error):
            lines.append(" ".join(psutil.Process(pid).cmdline()))
    return [text for text in lines if PROGRAM.name in text or UNEVEN.name in text]
