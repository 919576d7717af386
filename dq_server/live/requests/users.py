"""Requests of users: jobs submitted and changed, and queries."""

from __future__ import annotations

from typing import Any

import msgspec

from dq_client.base import messages as m
from dq_server.core.features.dependencies import WAYS
from dq_server.core.features.history import HistoryOptions
from dq_server.core.features.lifecycle import EnvironmentOptions
from dq_server.core.model import events as ev
from dq_server.core.model.actions import ArrayAccepted, JobAccepted
from dq_server.core.model.errors import UnknownJob
from dq_server.core.model.events import AdvanceReservation, MaintenanceWindow
from dq_server.core.model.pool import PoolOptions, possible
from dq_server.live import translate
from dq_server.live.configuration import launching_words
from dq_server.live.context import Desk
from dq_server.live.requests.call import VERSION, Call, handles
from dq_server.live.requests.output import archived
from dq_server.live.requests.why import why
from dq_server.live.views import tables
from dq_server.live.views.arrays import array_view, why_array
from dq_server.live.views.pool import pool_view
from dq_server.live.views.quotas import quotas_view


@handles(m.Submit)
def submit(desk: Desk, call: Call[m.Submit]) -> m.ReplyBody:
    """A new job."""
    if desk.draining:
        return m.Error("refused", "the server is going down and takes no more jobs")
    body = call.body
    if body.after or body.after_any or body.after_not:
        # The core knows no "last job", and no array to wait for: the event names jobs.
        named = {name: _jobs(desk, getattr(body, name)) for name in WAYS}
        body = msgspec.structs.replace(body, **named)
    config = desk.scheduler.config
    spec = translate.submission(
        with_app_name(desk, body),
        desk.user,
        capacity=possible(desk.state, config.of(PoolOptions)),
        launching=config.launching,
        secrets=config.of(EnvironmentOptions).secrets,
        node=_node_of_several(desk),
        apart=desk.agents.apart(),
    )
    actions = desk.apply(translate.submitted(body, spec))
    for action in actions:
        if isinstance(action, ArrayAccepted):
            return m.Submitted(action.array, list(action.jobs))
    return m.Submitted(next(a.job for a in actions if isinstance(a, JobAccepted)))


def _node_of_several(desk: Desk) -> int | None:
    """Processors of the largest node; None if all nodes are on one machine, or emulated there."""
    pool, links = desk.scheduler.config.of(PoolOptions), desk.agents.by_name.values()
    if not pool.max and len({link.machine for link in links} - {""}) < 2:
        return None
    there = [node.processors for link in links for node in link.nodes]
    return max([pool.shape.processors, *there] if pool.max else there)


def _jobs(desk: Desk, named: list[int]) -> list[int]:
    """The jobs to wait for: of an array those that are still known, for 0 the last submission."""
    found: list[int] = []
    for job_id in named:
        array = desk.array(job_id)
        known = [] if array is None else [k for k in array.jobs if k in desk.state.jobs]
        found += known or [job_id or max(desk.state.jobs, default=0)]
    return list(dict.fromkeys(found))


def with_app_name(desk: Desk, body: m.Submit) -> m.Submit:
    """The same, with a name to learn by where all jobs have one."""
    if desk.scheduler.config.of(HistoryOptions).learn == "always" and not body.app_name:
        return msgspec.structs.replace(body, app_name=translate.program(body))
    return body


@handles(m.JobQuery)
def job_query(desk: Desk, call: Call[m.JobQuery]) -> m.ReplyBody:
    """One job, or an array of them."""
    array = desk.array(call.body.job)
    if array is not None:
        return m.Data(array_view(desk.state, array))
    try:
        job = desk.job(call.body.job)
    except UnknownJob as unknown:
        return m.Data(archived(desk, call.body.job, unknown)["job"])
    return m.Data(tables.job_view(job, desk.state, desk.feed.usage))


@handles(m.JobsQuery)
def jobs_query(desk: Desk, call: Call[m.JobsQuery]) -> m.ReplyBody:
    """Jobs, a page of them or all."""
    body = call.body
    rows = tables.jobs_view(
        desk.state,
        desk.feed.usage,
        active_only=body.active_only,
        after=body.after,
        at_most=body.at_most,
    )
    return _page(rows, body.at_most, "id")


@handles(m.NodesQuery)
def nodes_query(desk: Desk, call: Call[m.NodesQuery]) -> m.ReplyBody:
    """Nodes, a page of them or all."""
    body = call.body
    rows = tables.nodes_view(desk.state, desk.places, after=body.after, at_most=body.at_most)
    return _page(rows, body.at_most, "name")


def _page(rows: list[dict[str, Any]], at_most: int, key: str) -> m.Data:
    """The rows as an answer; there may be more if there are as many as were asked for."""
    return m.Data(rows, rows[-1][key] if rows and len(rows) == at_most else None)


@handles(m.DrainNode)
def drain_node(desk: Desk, call: Call[m.DrainNode]) -> m.ReplyBody:
    """Empty a node, perhaps to remove it."""
    body = call.body
    desk.apply(
        ev.DrainRequested(body.node, body.within_s, body.reason, desk.user, leaves=body.remove)
    )
    return m.Data(tables.node_view(desk.state, desk.places, body.node))


@handles(m.PoolQuery)
def pool_query(desk: Desk, call: Call[m.PoolQuery]) -> m.ReplyBody:  # noqa: ARG001
    """The pool, with its decisions."""
    if not desk.scheduler.config.of(PoolOptions).max:
        return m.Error("not_found", "this cluster has no pool: its nodes are not asked of anybody")
    return m.Data(pool_view(desk.scheduler))


@handles(m.QuotasQuery)
def quotas_query(desk: Desk, call: Call[m.QuotasQuery]) -> m.ReplyBody:  # noqa: ARG001
    """What users and groups may have, and have."""
    return m.Data(quotas_view(desk.scheduler, desk.now()))


@handles(m.ResumeNode)
def resume_node(desk: Desk, call: Call[m.ResumeNode]) -> m.ReplyBody:
    """Let jobs run on a node again."""
    desk.apply(ev.ResumeRequested(call.body.node))
    return m.Data(tables.node_view(desk.state, desk.places, call.body.node))


@handles(m.WhyQuery)
def why_query(desk: Desk, call: Call[m.WhyQuery]) -> m.ReplyBody:
    """Why a job is where it is; of an array, the first of its jobs that has not ended."""
    array = desk.array(call.body.job)
    if array is not None:
        return m.Data(why_array(desk.scheduler, array, desk.now()))
    try:
        job = desk.job(call.body.job)
    except UnknownJob as unknown:
        return m.Data(archived(desk, call.body.job, unknown)["why"])
    return m.Data(why(desk, job))


@handles(m.StatusQuery)
def status_query(desk: Desk, call: Call[m.StatusQuery]) -> m.ReplyBody:  # noqa: ARG001
    """The server itself."""
    state = desk.state
    return m.Data(
        {
            "version": VERSION,
            "epoch": desk.epoch,
            "address": desk.address,
            **launching_words(desk.scheduler.config.launching),
            "now_s": desk.now(),
            "uptime_s": desk.monotonic() - desk.started_s,
            "processors": state.processors.capacity,
            "idle": state.idle,
            "agents": {
                a.name: {
                    "pid": a.pid,
                    "nodes": [n.name for n in a.nodes],
                    "troubles": [t.text for t in a.troubles],
                }
                for a in desk.agents.by_name.values()
            }
            | {
                name: {"pid": 0, "nodes": other.nodes, "troubles": [other.why]}
                for name, other in desk.agents.others.items()
            },
            "paused": state.paused,
            "stalled": desk.stall.text,
            "standby": desk.pairing.view(),
            "jobs": tables.counts(state),
        }
    )


@handles(m.TimelineQuery)
def timeline_query(desk: Desk, call: Call[m.TimelineQuery]) -> m.ReplyBody:  # noqa: ARG001
    """Sizes over time."""
    return m.Data(tables.timeline_view(desk.state, desk.now()))


@handles(m.Since)
def since(desk: Desk, call: Call[m.Since]) -> m.ReplyBody | None:
    """What has changed, now or when something has."""
    return desk.feed.ask(call.identity, call.request_id, call.body, desk.state, desk.places)


@handles(m.Kill)
def kill(desk: Desk, call: Call[m.Kill]) -> m.ReplyBody:
    """Kill a job, or all jobs of an array."""
    if _done_to_array(desk, call.body.job, "kill"):
        return m.Done()
    desk.apply(ev.KillRequested(desk.job(call.body.job).id, desk.user))
    return m.Done()


@handles(m.Hold)
def hold(desk: Desk, call: Call[m.Hold]) -> m.ReplyBody:
    """Hold a queued job, or those of an array."""
    if _done_to_array(desk, call.body.job, "hold"):
        return m.Done()
    desk.apply(ev.HoldRequested(desk.job(call.body.job).id))
    return m.Done()


@handles(m.Release)
def release(desk: Desk, call: Call[m.Release]) -> m.ReplyBody:
    """Release a held job, or those of an array."""
    if _done_to_array(desk, call.body.job, "release"):
        return m.Done()
    desk.apply(ev.ReleaseRequested(desk.job(call.body.job).id))
    return m.Done()


@handles(m.Edit)
def edit(desk: Desk, call: Call[m.Edit]) -> m.ReplyBody:
    """Change a job that waits."""
    body = call.body
    array = desk.array(body.job)
    if array is not None:
        first, last = array.jobs[0], array.jobs[-1]
        return m.Error("refused", f"{array.id} is an array: name its jobs, as {first}-{last}")
    event = ev.JobEdited(desk.job(body.job).id, body.walltime_s, body.priority, desk.user)
    desk.apply(event)
    return m.Done()


def _done_to_array(desk: Desk, asked: int, what: str) -> bool:
    """Do it to the jobs of an array, if this is one."""
    array = desk.array(asked)
    if array is not None:
        desk.apply(ev.ArrayRequested(array.id, what, desk.user))
    return array is not None


@handles(m.Resize)
def resize(desk: Desk, call: Call[m.Resize]) -> m.ReplyBody:
    """Bring a job to a size at its next remap point."""
    body, job = call.body, desk.job(call.body.job)
    replaces = job.wanted.size if job.wanted is not None else 0
    held = job.held.size if job.held is not None else 0
    desk.apply(ev.ResizeRequested(job.id, body.size, body.rows, body.hold))
    return m.Ordered(replaces, held, at_once=job.spec.workers is not None)


@handles(m.ReleaseSize)
def release_size(desk: Desk, call: Call[m.ReleaseSize]) -> m.ReplyBody:
    """A job's size may change again."""
    desk.apply(ev.SizeReleased(desk.job(call.body.job).id))
    return m.Done()


@handles(m.Reserve)
def reserve(desk: Desk, call: Call[m.Reserve]) -> m.ReplyBody:
    """Make an advance reservation."""
    body = call.body
    start_s = desk.now() + body.in_s
    reservation = AdvanceReservation(
        name=body.name,
        processors=body.processors,
        start_s=start_s,
        end_s=start_s + body.duration_s,
        user=body.user,
        request_id=body.request,
    )
    desk.apply(ev.ReservationMade(reservation))
    return m.Done()


@handles(m.CancelReservation)
def unreserve(desk: Desk, call: Call[m.CancelReservation]) -> m.ReplyBody:
    """Cancel an advance reservation."""
    desk.apply(ev.ReservationCancelled(call.body.name))
    return m.Done()


@handles(m.ReservationsQuery)
def reservations_query(desk: Desk, call: Call[m.ReservationsQuery]) -> m.ReplyBody:  # noqa: ARG001
    """All advance reservations."""
    return m.Data(tables.reservations_view(desk.state))


@handles(m.PlanMaintenance)
def plan_maintenance(desk: Desk, call: Call[m.PlanMaintenance]) -> m.ReplyBody:
    """Plan a maintenance window."""
    body = call.body
    start_s = desk.now() + body.in_s
    window = MaintenanceWindow(
        name=body.name,
        nodes=tuple(dict.fromkeys(body.nodes)),
        start_s=start_s,
        end_s=start_s + body.duration_s,
        reason=body.reason,
        by="the user",
        request_id=body.request,
    )
    desk.apply(ev.MaintenancePlanned(window))
    return m.Done()


@handles(m.CancelMaintenance)
def cancel_maintenance(desk: Desk, call: Call[m.CancelMaintenance]) -> m.ReplyBody:
    """Cancel a maintenance window."""
    desk.apply(ev.MaintenanceCancelled(call.body.name))
    return m.Done()


@handles(m.MaintenanceQuery)
def maintenance_query(desk: Desk, call: Call[m.MaintenanceQuery]) -> m.ReplyBody:  # noqa: ARG001
    """All maintenance windows."""
    return m.Data(tables.maintenance_view(desk.state))


@handles(m.Stop)
def stop(desk: Desk, call: Call[m.Stop]) -> m.ReplyBody:
    """Stop the server."""
    active = len(desk.state.active)
    if active and not call.body.force:
        jobs = "1 job is" if active == 1 else f"{active} jobs are"
        return m.Error("refused", f"{jobs} running: wait, or stop with --force to kill them")
    desk.stop(call.body.force)
    return m.Done()
