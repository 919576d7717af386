"""Draining beside everything else that happens, in any order."""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dq_server.core.features.draining import Drains, NodeState, state_of
from dq_server.core.model import events as ev
from dq_server.core.model.actions import (
    AnswerRemap,
    AnswerSpawn,
    JobRestarts,
    NodeEmptied,
    StartJob,
)
from dq_server.core.model.errors import SchedulerError
from dq_server.core.model.jobs import ACTIVE, Job, JobState
from dq_server.core.model.launching import Launching
from dq_server.core.model.requests import Asked
from dq_server.core.model.spec import Protection
from tests.core.cluster import Cluster

NODES = ("n01", "n02", "n03")
KINDS: tuple[dict[str, Any], ...] = (
    {"kind": "rigid"},
    {"kind": "rigid", "protection": Protection("disk")},
    {"kind": "malleable"},
    {"kind": "evolving"},
)
DEADLINES_S = (None, None, 0.0, 5.0, 20.0)
POLICIES: tuple[dict[str, Any], ...] = (
    {},
    {"start": "easy", "launching": Launching.JOIN},
    {"start": "conservative", "launching": Launching.JOIN},
    {"start": "easy", "resize": "intensive", "moldable": True},
    {"start": "reservations", "grant": "dfs", "confirm_vacated": False},
)


class Watched(Cluster):
    """What it grants is looked at."""

    def do(self, event: ev.Event, *, vacate: bool = True) -> list[Any]:
        withheld = set(self.scheduler.state.processors.withheld)
        actions = super().do(event, vacate=vacate)
        for action in actions:
            if isinstance(action, JobRestarts):  # it counts its remap points anew
                self.seq.pop(action.job, None)
                self.done.pop(action.job, None)
        if not isinstance(event, ev.ResumeRequested | ev.NodeJoined):
            for action in actions:
                assert withheld.isdisjoint(granted(self, action)), action
        return actions

    def request_number(self, job: Job) -> int:
        known = Asked.of(job).answer
        return known.request + 1 if known is not None else 1

    def jobs(self) -> list[Job]:
        return list(self.scheduler.state.active.values())


def granted(c: Cluster, action: object) -> tuple[int, ...]:
    """Processors that a job did not have before."""
    if isinstance(action, StartJob | AnswerSpawn):
        return action.processors
    if isinstance(action, AnswerRemap) and action.answer.what == "expand":
        return action.answer.processors
    return ()


def happen(c: Watched, what: int, which: int, more: int) -> None:
    """One event; what is not legal is refused, and changes nothing."""
    node, jobs = NODES[which % len(NODES)], c.jobs()
    job = jobs[which % len(jobs)] if jobs else None
    c.now += more / 2
    match what:
        case 0 | 1:
            kind = KINDS[more % len(KINDS)]
            sizes = (1, 2, 4) if kind["kind"] == "malleable" else (which % 4 + 1,)
            c.submit(*sizes, start=sizes[which % len(sizes)], estimate_s=5.0 * more + 1, **kind)
        case 2 | 3 | 4:
            if job is not None and job.state is JobState.RUNNING:
                remap(c, job, more)
        case 5:
            if job is not None:
                c.end(job, more % 2)
        case 6:
            c.do(ev.DrainRequested(node, DEADLINES_S[more % len(DEADLINES_S)]))
        case 7:
            c.do(ev.DrainRequested(node, 20.0, leaves=True, life="x" * (more % 2)))
        case 8:
            c.do(ev.ResumeRequested(node, "y" * (more % 2)))
        case 9:
            c.do(ev.NodeLeft(node, "x"))
        case 10:
            c.do(ev.NodeLost(node) if more % 2 else ev.NodeJoined(node, 1 + which % 3))
        case 11:
            if job is not None:
                c.do(
                    ev.DynamicRequested(job.id, job.instance, c.request_number(job), 1, float(more))
                )
        case _:
            c.do(ev.Tick())


def remap(c: Watched, job: Job, more: int) -> None:
    pending = job.resize
    if pending is None:
        c.point(job, 1.0, carry_out=more % 3 > 0)
    elif more % 3 == 0:
        c.do(ev.ResizeAborted(job.id, job.instance, pending.resize_id, "no"))
    elif more % 3 == 1:
        c.done[job.id] = pending.resize_id
        c.do(ev.ResizeCommitted(job.id, job.instance, pending.resize_id, 0.1))
    elif pending.expand:
        c.seq[job.id] = c.seq.get(job.id, 0) + 1
        done = c.done.get(job.id, 0)
        id_, seq, preparing = job.id, c.seq[job.id], pending.resize_id
        c.do(ev.RemapPoint(id_, job.instance, seq, job.size, done, 1.0, preparing=preparing))


happenings = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 5), st.integers(0, 5)), max_size=40
)


def run(policy: int, story: list[tuple[int, int, int]]) -> Watched:
    quick = {"samples": 1, "discard": 0, "threshold": 0.0, "settle": 0}
    c = Watched(6, per_node=2, **quick, **POLICIES[policy])
    for event in story:
        with contextlib.suppress(SchedulerError):
            happen(c, *event)
        c.scheduler.state.check()
    return c


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(POLICIES) - 1), happenings)
def test_a_drained_node_is_empty_at_its_deadline(
    policy: int, story: list[tuple[int, int, int]]
) -> None:
    c = run(policy, story)
    state = c.scheduler.state
    ends = [d.deadline_s for d in Drains.of(state).nodes.values() if d.deadline_s is not None]
    c.now = max([c.now, *ends])
    c.do(ev.Tick())
    for job in c.jobs():
        if job.state is JobState.KILLING:
            c.end(job, 137)
    for name, drain in Drains.of(state).nodes.items():
        node = state.processors.nodes[name]
        if drain.deadline_s is not None and node.up:
            assert state_of(state, node) is NodeState.EMPTY
        if drain.leaves and node.up and state_of(state, node) is NodeState.EMPTY:
            assert [a for a in c.log if a == NodeEmptied(name)]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(POLICIES) - 1), happenings)
def test_no_processor_is_lost(policy: int, story: list[tuple[int, int, int]]) -> None:
    """When all nodes are back and resumed, and all jobs are over, everything is idle."""
    c = run(policy, story)
    state = c.scheduler.state
    while c.jobs() or state.queue:
        for job in [*c.jobs(), *state.queue.values()]:
            if job.state is not JobState.KILLING:
                c.do(ev.KillRequested(job.id))
            if job.state in ACTIVE:
                c.end(job, 137)
    for name in NODES:
        c.do(ev.NodeJoined(name, 2))
        for life in ("z", ""):
            with contextlib.suppress(SchedulerError):
                c.do(ev.ResumeRequested(name, life))
    up = [p for node in state.processors.nodes.values() for p in node.processors]
    assert state.processors.idle == sorted(up)
    assert state.processors.capacity == len(up)
