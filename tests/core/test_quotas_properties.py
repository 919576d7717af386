"""Quotas under any sequence of events: never more than the limit, and nobody waits for nothing."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dq_server.core.explain import explain
from dq_server.core.model import events as ev
from dq_server.core.model.errors import SchedulerError
from dq_server.core.model.jobs import ACTIVE, ENDED, Job, JobState
from dq_server.core.model.quotas import Limits, QuotaOptions
from dq_server.core.scheduler import Scheduler
from dq_server.core.settings import configured
from dq_server.live.store import snapshot
from tests.core.cluster import Cluster

USERS = ("ada", "bob", "eve")
MEMBERS = ("ada", "bob")
QUOTAS = QuotaOptions(
    user={"ada": Limits(processors=5, jobs=3), "*": Limits(processors=4, queued=6)},
    group={"physics": Limits(members=MEMBERS, processors=7, jobs=4)},
)
POLICIES: tuple[dict[str, Any], ...] = (
    {"start": "fcfs"},
    {"start": "easy"},
    {"start": "easy", "moldable": True, "resize": "spare"},
    {"start": "conservative", "moldable": True},
    {"start": "reservations"},
    {"start": "easy", "order": "priority"},
)
ACTIONS = ("submit", "malleable", "array", "end", "fail", "point", "hold", "release", "kill",
           "resize", "vacate", "pause", "tick", "evolving", "profile", "ask")  # fmt: skip


def held(c: Cluster, *users: str) -> int:
    active = c.scheduler.state.active.values()
    return sum(len(job.holds()) for job in active if job.spec.user in users)


def count(c: Cluster, *users: str) -> int:
    return sum(job.spec.user in users for job in c.scheduler.state.active.values())


def check(c: Cluster) -> None:
    assert held(c, "ada") <= 5
    assert count(c, "ada") <= 3
    assert held(c, "bob") <= 4
    assert held(c, "eve") <= 4
    assert held(c, *MEMBERS) <= 7
    assert count(c, *MEMBERS) <= 4
    for job in c.scheduler.state.jobs.values():
        if job.state is JobState.WAITING:
            assert explain(c.scheduler, job, c.now), "it waits, and nobody can say why"


def act(c: Cluster, data: st.DataObject, what: str) -> None:
    state, user = c.scheduler.state, data.draw(st.sampled_from(USERS))
    jobs = [job for job in state.jobs.values() if job.state not in ENDED]
    if what == "submit":
        more: dict[str, Any] = {"retry": 1, "estimate_s": 5.0, "user": user}
        c.submit(
            data.draw(st.sampled_from((1, 1, 1, 2, 3, 5, 6))),
            priority=data.draw(st.integers(0, 3)),
            **more,
        )
    elif what == "malleable":
        c.submit(1, 2, 4, 6, start=data.draw(st.sampled_from((1, 4, 6))), user=user, estimate_s=9.0)
    elif what == "evolving":
        c.submit(1, 2, 4, kind="evolving", user=user, estimate_s=9.0)
    elif what == "profile":
        steps = data.draw(st.sampled_from((((5, 1), (5, 4)), ((5, 3), (5, 2)))))
        sizes = sorted(size for _, size in steps)
        c.submit(*sizes, start=steps[0][1], kind="evolving", profile=steps, user=user)
    elif what == "array" and jobs:
        c.do(ev.ArraySubmitted(jobs[0].spec, (1, 2, 3), data.draw(st.integers(0, 2))))
    elif what == "vacate":
        c.do(ev.ProcessorsVacated(data.draw(st.integers(1, state.next_job)), ()))
    elif what == "pause":
        c.do(ev.GrantsPaused(not state.paused, "" if state.paused else "upkeep"))
    elif what == "tick":
        c.now += 100.0
        c.do(ev.Tick())
    elif jobs:
        to(c, data, what, data.draw(st.sampled_from(jobs)))


def to(c: Cluster, data: st.DataObject, what: str, job: Job) -> None:
    if what in ("end", "fail") and job.state in ACTIVE:
        code, late = int(what == "fail"), data.draw(st.booleans())
        c.do(ev.JobEnded(job.id, job.instance, code), vacate=not late)
    elif what == "point" and job.state in ACTIVE:
        c.point(job, data.draw(st.sampled_from((1.0, 5.0))), carry_out=data.draw(st.booleans()))
    elif what == "ask":
        number = job.remap_points + 1
        c.do(ev.DynamicRequested(job.id, job.instance, number, data.draw(st.integers(1, 4)), 50.0))
    elif what == "resize":
        c.do(ev.ResizeRequested(job.id, data.draw(st.sampled_from((1, 2, 4, 6)))))
    elif what == "hold":
        c.do(ev.HoldRequested(job.id))
    elif what == "release":
        c.do(ev.ReleaseRequested(job.id))
    elif what == "kill":
        c.do(ev.KillRequested(job.id, "somebody"))


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_no_limit_is_ever_exceeded_and_nobody_starves(
    policy: dict[str, Any], data: st.DataObject
) -> None:
    c = Cluster(9, quotas=QUOTAS, samples=1, discard=0, settle=0, **policy)
    for what in data.draw(st.lists(st.sampled_from(ACTIONS), max_size=40)):
        with suppress(SchedulerError):
            act(c, data, what)
        check(c)
    stored(c)
    drain(c)
    check(c)


def stored(c: Cluster) -> None:
    """A snapshot says the same of everybody who waits."""
    again, _ = snapshot.decode(snapshot.encode(c.scheduler, c.now))
    assert said(again) == said(c.scheduler)


def said(scheduler: Scheduler) -> list[Any]:
    """What quotas know of the state and of each job."""
    owners = [scheduler.state.records, *(job.records for job in scheduler.state.jobs.values())]
    names = ("QuotaWaits", "QuotaHeld", "HoursUsed", "Metered")
    return [[records.said().get(name) for name in names] for records in owners]


CHANGES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "processors": st.integers(0, 9),
        "jobs": st.integers(0, 4),
        "hours": st.sampled_from((0.0, 0.01, 0.1)),
        "window_s": st.sampled_from((50.0, 1000.0)),
    },
)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_limits_that_change_leave_nobody_behind(data: st.DataObject) -> None:
    c = Cluster(9, start="easy", samples=1, discard=0, settle=0)
    for what in data.draw(st.lists(st.sampled_from((*ACTIONS, "limits")), max_size=40)):
        if what == "limits":
            ada, lab = Limits(**data.draw(CHANGES)), Limits(**data.draw(CHANGES), members=MEMBERS)
            quotas = QuotaOptions(user={"ada": ada}, group={"lab": lab})
            c.do(ev.Configured(configured(c.scheduler.config, quotas=quotas)))
        with suppress(SchedulerError):
            act(c, data, what) if what != "limits" else None
        for job in c.scheduler.state.jobs.values():
            if job.state is JobState.WAITING:
                assert explain(c.scheduler, job, c.now), "it waits, and nobody can say why"
    stored(c)
    c.do(ev.Configured(configured(c.scheduler.config, quotas=QuotaOptions())))
    drain(c)


def drain(c: Cluster) -> None:
    """Everything that may ever run ends in the end, if all that runs does."""
    state = c.scheduler.state
    if state.paused:
        c.do(ev.GrantsPaused(False))
    for job in [job for job in state.jobs.values() if job.state is JobState.HELD]:
        c.do(ev.ReleaseRequested(job.id))
    for job_id in list(state.jobs):
        c.do(ev.ProcessorsVacated(job_id, ()))
    for _ in range(4 * len(state.jobs) + 4):
        for job in list(state.active.values()):
            c.end(job)
        c.now += 10.0
        c.do(ev.Tick())
    assert all(job.state in ENDED for job in state.jobs.values())
