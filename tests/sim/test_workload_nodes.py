"""Simulated jobs that ask for memory, GPUs and features of nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dq_server.core.model import events as ev
from dq_server.core.model.jobs import JobKind, JobSpec
from dq_server.core.model.needs import Needs
from dq_server.core.model.sizes import configurations
from dq_server.core.settings import configured
from dq_server.sim.applications import Rigid
from dq_server.sim.engine import Simulation
from dq_server.sim.errors import WorkloadError
from dq_server.sim.journal import read_journal, replay
from dq_server.sim.journal_workload import jobs_of
from dq_server.sim.toml_workload import read_toml
from dq_server.sim.workload import ListedJob, ListedWorkload
from tests.sim.test_replay import Recorder

NODES = """\
[[node]]
count = 2
processors = 2
[[node]]
processors = 2
memory = "8G"
gpus = 1
features = ["gpu"]
"""


def job(**fields: object) -> str:
    shown = "".join(f"{k} = {v!r}\n".replace("'", '"') for k, v in fields.items())
    return f"[[job]]\n{shown}"


def simulated(folder: Path, text: str, nodes: int = 6, start: str = "easy") -> list[float]:
    """When each job started (s)."""
    file = folder / "jobs.toml"
    file.write_text(text)
    workload = read_toml(file)
    return list(Simulation(workload, nodes, configured(start=start)).run().start_s)


@pytest.mark.parametrize("start", ["fcfs", "easy", "conservative", "reservations"])
def test_jobs_wait_for_nodes_with_what_they_need(tmp_path: Path, start: str) -> None:
    jobs = [
        job(processors=1, run_s=10, gpus=1),
        job(processors=1, run_s=10, gpus=1, submit_s=1),
        job(processors=1, run_s=10, memory="5G", submit_s=2),
        job(processors=1, run_s=10, memory="5G", submit_s=3),
    ]
    text = NODES + "".join(jobs)
    # The second waits for the GPU, and the idle processor beside it is kept for that; the fourth
    # needs the memory that the third has.
    assert simulated(tmp_path, text, start=start) == [0, 10, 10, 20]


def test_what_jobs_ask_for_is_read(tmp_path: Path) -> None:
    file = tmp_path / "jobs.toml"
    file.write_text(NODES + job(run_s=1, memory="1.5G", constraint="gpu|x") + job(run_s=1))
    workload = read_toml(file)
    assert [j.spec.needs for j in workload.jobs] == [Needs(3 << 29, 0, "gpu|x"), None]
    assert [node.processors for node in workload.nodes] == [2, 2, 2]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (job(run_s=1, gpus=1), r"job 1 asks for certain nodes, and there is no \[\[node\]\]"),
        (NODES + job(run_s=1, gpus=-1), "gpus = -1"),
        (NODES + job(run_s=1, memory="4X"), "memory = '4X'"),
        (NODES + job(run_s=1, constraint="a&"), "a feature is missing"),
        ("[[node]]\ncores = 1\n" + job(run_s=1), r"\[\[node\]\]: unknown key 'cores'"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(WorkloadError, match=why):
        simulated(tmp_path, text)


def test_the_nodes_are_those_that_are_simulated(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="have 6 processors, not 5"):
        simulated(tmp_path, NODES + job(run_s=1), nodes=5)


def test_a_journals_jobs_run_on_its_nodes_under_another_policy(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "journal.db")
    recorder.do(ev.NodeJoined("n1", 2))
    recorder.do(ev.NodeJoined("n2", 2, memory=4 << 30, gpus=1))
    one = configurations([1])
    for _ in range(2):
        spec = JobSpec("job", JobKind.RIGID, one[0], one, needs=Needs(gpus=1))
        recorder.do(ev.JobSubmitted(spec))
    for job in (1, 2):
        recorder.do(ev.JobStarted(job, 1))
        recorder.now += 5.0
        recorder.do(ev.JobEnded(job, 1, 0))
        recorder.do(ev.ProcessorsVacated(job, ()))
    recorder.journal.close()
    entries = list(read_journal(recorder.path))
    workload, processors, _ = jobs_of(recorder.path, entries)
    assert processors == 4
    runs = Simulation(workload, processors, configured(start="conservative")).run()
    assert list(runs.start_s) == [0, 5]
    assert replay(read_journal(recorder.path)) == (len(entries), None)


def test_a_node_whose_time_ends_drains_in_a_simulation_too() -> None:
    """A job that cannot be moved is not placed over its end; it gets the node that stays."""
    (two,) = configurations([2])
    rigid = JobSpec("job", JobKind.RIGID, two, (two,), estimate_s=80.0)
    nodes = [ev.NodeJoined("short", 2, until_s=100.0), ev.NodeJoined("long", 2)]
    jobs = [
        ListedJob(at_s, rigid, lambda: Rigid(80.0), n) for n, at_s in enumerate((0.0, 0.0, 70.0))
    ]
    simulation = Simulation(ListedWorkload("ends", jobs, nodes=nodes), 4, configured(start="easy"))
    assert list(simulation.run().start_s) == [0.0, 0.0, 80.0]
    assert not simulation.scheduler.state.processors.nodes["short"].up, "it was empty, and left"
