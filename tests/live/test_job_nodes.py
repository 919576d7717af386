"""The index of jobs by node: what agents look after, without looking through all jobs."""

from __future__ import annotations

from typing import Any

from dq_server.core.model import events as ev
from dq_server.core.model.actions import AnswerRemap, JobAccepted, StartJob
from dq_server.core.model.jobs import Job, JobKind, JobSpec
from dq_server.core.model.launching import Launching
from dq_server.core.model.sizes import nearest_square
from dq_server.core.scheduler import Scheduler
from dq_server.core.settings import configured
from dq_server.live.agents.job_nodes import KEPT_MIN, JobNodes


class Indexed:
    """A scheduler of one processor per node, and the index as the server keeps it."""

    def __init__(self, launching: Launching = Launching.JOIN, nodes: int = 4) -> None:
        config = configured(launching=launching, samples=1, discard=0, confirm_vacated=False)
        self.scheduler = Scheduler(config)
        for n in range(nodes):
            self.scheduler.handle(ev.NodeJoined(f"n{n}", 1), 0.0)
        self.index = JobNodes(self.scheduler.state)

    def do(self, event: ev.Event) -> list[Any]:
        actions: list[Any] = self.scheduler.handle(event, 0.0)
        for action in actions:
            job = self.scheduler.state.jobs.get(getattr(action, "job", 0))
            if isinstance(action, StartJob | AnswerRemap) and job is not None:
                self.index.add(job)
        return actions

    def submit(self, *sizes: int) -> Job:
        kind = JobKind.MALLEABLE if len(sizes) > 1 else JobKind.RIGID
        chain = tuple(map(nearest_square, sizes))
        accepted = self.do(ev.JobSubmitted(JobSpec("j", kind, chain[0], chain)))
        return self.scheduler.state.job(next(a.job for a in accepted if isinstance(a, JobAccepted)))

    def on(self, *nodes: str) -> list[list[int]]:
        return [[job.id for job in self.index.jobs(node)] for node in nodes]


def test_agents_look_after_all_nodes_of_a_job() -> None:
    i = Indexed()
    i.submit(2), i.submit(1)
    assert i.on("n0", "n1", "n2", "n3") == [[1], [1], [2], []]


def test_the_first_node_looks_after_mpiexecs_job() -> None:
    i = Indexed(Launching.MPIEXEC)
    i.submit(2), i.submit(1)
    assert i.on("n0", "n1", "n2", "n3") == [[1], [], [2], []]


def test_a_server_that_starts_again_has_the_same_index() -> None:
    i = Indexed()
    i.submit(2), i.submit(1)
    before = i.on("n0", "n1", "n2", "n3")
    i.index = JobNodes(i.scheduler.state)
    assert i.on("n0", "n1", "n2", "n3") == before


def test_what_grows_shrinks_and_ends_is_found_where_it_is() -> None:
    i = Indexed()
    job = i.submit(1, 3)
    i.do(ev.JobStarted(1, 1))
    i.do(ev.ResizeRequested(1, 3))
    i.do(ev.RemapPoint(1, 1, 1, 1, 0, 1.0))
    assert i.on("n0", "n1", "n2", "n3") == [[1], [1], [1], []], "reserved counts"
    i.do(ev.ResizeAborted(1, 1, 1, "no luck"))
    assert i.on("n0", "n1", "n2") == [[1], [], []]
    i.do(ev.ResizeRequested(1, 3))
    i.do(ev.RemapPoint(1, 1, 2, 1, 0, 1.0))
    i.do(ev.ResizeCommitted(1, 1, 2))
    assert i.on("n0", "n1", "n2") == [[1], [1], [1]]
    i.do(ev.ResizeRequested(1, 1))
    i.do(ev.RemapPoint(1, 1, 3, 3, 2, 1.0))
    i.do(ev.ResizeCommitted(1, 1, 3))
    assert (job.size, i.on("n0", "n1", "n2")) == (1, [[1], [], []])
    i.do(ev.JobEnded(1, 1, 0))
    assert i.on("n0", "n1", "n2") == [[], [], []]


def test_what_has_ended_does_not_pile_up() -> None:
    i = Indexed()
    for _ in range(3 * KEPT_MIN):
        i.submit(1)
        i.do(ev.JobEnded(i.scheduler.state.next_job - 1, 1, 0))
        i.on("n0")
    assert len(i.index._known) <= KEPT_MIN + 4
    assert i.index._on["n0"] == {}
