"""Pools and jobs that ask for memory, GPUs or features: nodes for those that they can help."""

from __future__ import annotations

from typing import Any

import pytest

from dq_server.core.explain import explain
from dq_server.core.model import events as ev
from dq_server.core.model.actions import AskNodes
from dq_server.core.model.jobs import JobState
from dq_server.core.model.needs import Needs
from tests.core.cluster import state
from tests.core.pool_cluster import PoolCluster

GIB = 1 << 30
HOUR_S = 3600.0


class FurnishedPool(PoolCluster):
    """Its nodes have `memory` and `gpus`, which the scheduler learns when one joins."""

    def __init__(self, *, memory: int = 0, gpus: int = 0, **more: Any) -> None:
        self.memory, self.gpus = memory, gpus
        super().__init__(max=4, idle_s=60.0, **more)

    def join(self, number: int) -> None:
        count = self.ticket(number).shape.processors
        self.do(ev.NodeJoined(f"p{number}", count, memory=self.memory, gpus=self.gpus))

    @property
    def reasons(self) -> list[str]:
        return [a.reason.code for a in self.log if isinstance(a, AskNodes)]

    def grants_for(self, seconds: float) -> None:
        """Whatever is asked for comes at once."""
        until_s = self.now + seconds
        while self.now < until_s:
            self.grant()
            self.wait(61.0)


@pytest.mark.parametrize("start", ["fcfs", "easy", "conservative"])
def test_a_job_gets_as_many_nodes_as_have_its_memory(start: str) -> None:
    c = FurnishedPool(processors=4, memory=8 * GIB, config={"start": start})
    job = c.submit(4, needs=Needs(memory=4 * GIB))
    assert len(c.asked) == 1, "what a node has is not known yet"
    c.grant()
    assert state(job) is JobState.QUEUED
    assert len(c.asked) == 2, "two ranks find their memory on each"
    c.grant()
    assert c.started == [job.id]
    second = c.submit(2, needs=Needs(memory=3 * GIB))
    assert len(c.asked) == 3, "one node is enough, and now it is known"
    c.grant()
    assert c.started == [job.id, second.id]
    assert c.reasons == ["pool_for_queue", "pool_for_needs", "pool_for_needs"]


def test_a_job_that_no_node_of_the_pool_can_hold_is_asked_for_once_and_holds_up_nobody() -> None:
    c = FurnishedPool(processors=4, memory=8 * GIB)
    job = c.submit(4, needs=Needs(memory=16 * GIB))
    c.grants_for(HOUR_S)
    assert len(c.asked) == len(c.given) == 1
    assert "no more are requested" in explain(c.scheduler, job, c.now)[0].text
    other, fits = c.submit(4), c.submit(2, needs=Needs(memory=4 * GIB))
    c.grant()
    assert c.started == [other.id, fits.id]
    # Nodes may have become others since: one that is submitted now may hope.
    c.memory = 64 * GIB
    again = c.submit(4, needs=Needs(memory=16 * GIB))
    c.grant()
    assert c.started[2:] == [job.id], "it waited first"
    c.grant()
    assert c.started[3:] == [again.id]


def test_idle_nodes_without_what_is_asked_for_do_not_count() -> None:
    c = FurnishedPool(fixed=4, processors=2, gpus=2)
    job = c.submit(4, needs=Needs(gpus=1))
    assert c.reasons == ["pool_for_needs"]
    assert len(c.asked) == 2
    c.grant()
    assert c.started == [job.id]
    assert {c.scheduler.state.processors.node_of[p] for p in job.allocation} == {"p1", "p2"}


def test_what_is_on_its_way_is_not_asked_for_again() -> None:
    c = FurnishedPool(fixed=4, processors=2, gpus=2)
    c.submit(2, needs=Needs(gpus=1))
    c.do(ev.Tick())
    c.submit(1)
    assert len(c.asked) == 1
    c.wait(30.0)
    assert len(c.asked) == 1


def test_what_has_to_be_new_is_not_withdrawn_because_much_is_idle() -> None:
    c = FurnishedPool(fixed=8, processors=1)
    c.submit(2, needs=Needs(memory=GIB, constraint="big"))
    assert c.asked == [(0.0, 1), (0.0, 2)]
    c.wait(1000.0)
    assert (len(c.asked), c.given) == (2, []), "an engine that takes its time keeps our place"


def test_nodes_that_a_promised_profile_will_need_are_not_withdrawn() -> None:
    """Nobody asks for them again as long as they are on their way: they are promised."""
    c = PoolCluster(fixed=2, max=4, idle_s=10.0, start_s=20.0)
    c.submit(2, estimate_s=HOUR_S)
    profile = ((100, 1), (100, 3))
    c.submit(1, 3, start=1, kind="evolving", profile=profile)
    asked = len(c.asked)
    assert asked > 0
    c.wait(200.0)
    assert (len(c.asked), c.given) == (asked, [])
