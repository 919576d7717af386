"""Requests of users: jobs submitted and changed, and queries."""

from __future__ import annotations

from typing import Any

import msgspec

from dq_client import messages as m
from dq_server.core.features.history import HistoryOptions
from dq_server.core.model import events as ev
from dq_server.core.model.actions import JobAccepted
from dq_server.core.model.errors import UnknownJob
from dq_server.core.model.events import AdvanceReservation
from dq_server.live import translate, views
from dq_server.live.configuration import launching_words
from dq_server.live.desk import Desk, LogQuery
from dq_server.live.requests.call import VERSION, Call, handles


@handles(m.Submit)
def submit(desk: Desk, call: Call[m.Submit]) -> m.ReplyBody:
    """A new job."""
    if desk.draining:
        return m.Error("refused", "the server is going down and takes no more jobs")
    body, state = call.body, desk.state
    if 0 in (*body.after, *body.after_any):
        # The core knows no "last job": the event in the journal names it.
        last = max(state.jobs, default=0)
        named = {name: [k or last for k in getattr(body, name)] for name in ("after", "after_any")}
        body = msgspec.structs.replace(body, **named)
    capacity = state.processors.capacity
    launching = desk.scheduler.config.launching
    event = translate.submission(with_app_name(desk, body), desk.user, capacity, launching)
    actions = desk.apply(event)
    return m.Submitted(next(a.job for a in actions if isinstance(a, JobAccepted)))


def with_app_name(desk: Desk, body: m.Submit) -> m.Submit:
    """The same, with a name to learn by where all jobs have one."""
    if desk.scheduler.config.of(HistoryOptions).learn == "always" and not body.app_name:
        return msgspec.structs.replace(body, app_name=translate.program(body))
    return body


@handles(m.JobQuery)
def job_query(desk: Desk, call: Call[m.JobQuery]) -> m.ReplyBody:
    """One job."""
    try:
        job = desk.job(call.body.job)
    except UnknownJob as unknown:
        return m.Data(_archived(desk, call.body.job, unknown)["job"])
    return m.Data(views.job_view(job, desk.state))


def _archived(desk: Desk, job_id: int, unknown: UnknownJob) -> dict[str, Any]:
    """An ended job that the scheduler has forgotten, as it was; raises `unknown` otherwise."""
    found = desk.archived(job_id)
    if found is None:
        raise unknown
    view: dict[str, Any] = msgspec.json.decode(found)
    return view


@handles(m.JobsQuery)
def jobs_query(desk: Desk, call: Call[m.JobsQuery]) -> m.ReplyBody:
    """All jobs."""
    return m.Data(views.jobs_view(desk.state, active_only=call.body.active_only))


@handles(m.NodesQuery)
def nodes_query(desk: Desk, call: Call[m.NodesQuery]) -> m.ReplyBody:  # noqa: ARG001
    """All nodes."""
    return m.Data(views.nodes_view(desk.state, desk.places))


@handles(m.DrainNode)
def drain_node(desk: Desk, call: Call[m.DrainNode]) -> m.ReplyBody:
    """Empty a node, perhaps to remove it."""
    body = call.body
    desk.apply(
        ev.DrainRequested(body.node, body.within_s, body.reason, desk.user, leaves=body.remove)
    )
    return m.Data(views.node_view(desk.state, desk.places, body.node))


@handles(m.ResumeNode)
def resume_node(desk: Desk, call: Call[m.ResumeNode]) -> m.ReplyBody:
    """Let jobs run on a node again."""
    desk.apply(ev.ResumeRequested(call.body.node))
    return m.Data(views.node_view(desk.state, desk.places, call.body.node))


@handles(m.WhyQuery)
def why_query(desk: Desk, call: Call[m.WhyQuery]) -> m.ReplyBody:
    """Why a job is where it is."""
    try:
        job = desk.job(call.body.job)
    except UnknownJob as unknown:
        return m.Data(_archived(desk, call.body.job, unknown)["why"])
    return m.Data(views.why_view(desk.scheduler, job, desk.now()))


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
            "uptime_s": desk.monotonic() - desk.started_s,
            "processors": state.processors.capacity,
            "idle": state.idle,
            "agents": {
                a.name: {"pid": a.pid, "nodes": [n.name for n in a.nodes]}
                for a in desk.agents.by_name.values()
            },
            "paused": state.paused,
            "jobs": views.counts(state),
        }
    )


@handles(m.TimelineQuery)
def timeline_query(desk: Desk, call: Call[m.TimelineQuery]) -> m.ReplyBody:  # noqa: ARG001
    """Sizes over time."""
    return m.Data(views.timeline_view(desk.state, desk.now()))


@handles(m.Kill)
def kill(desk: Desk, call: Call[m.Kill]) -> m.ReplyBody:
    """Kill a job."""
    desk.apply(ev.KillRequested(desk.job(call.body.job).id, desk.user))
    return m.Done()


@handles(m.Hold)
def hold(desk: Desk, call: Call[m.Hold]) -> m.ReplyBody:
    """Hold a queued job."""
    desk.apply(ev.HoldRequested(desk.job(call.body.job).id))
    return m.Done()


@handles(m.Release)
def release(desk: Desk, call: Call[m.Release]) -> m.ReplyBody:
    """Release a held job."""
    desk.apply(ev.ReleaseRequested(desk.job(call.body.job).id))
    return m.Done()


@handles(m.Resize)
def resize(desk: Desk, call: Call[m.Resize]) -> m.ReplyBody:
    """Bring a job to a size at its next remap point."""
    desk.apply(ev.ResizeRequested(desk.job(call.body.job).id, call.body.size, call.body.rows))
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
    return m.Data(views.reservations_view(desk.state))


@handles(m.LogsQuery)
def logs_query(desk: Desk, call: Call[m.LogsQuery]) -> m.ReplyBody | None:
    """Ask the agent that started the job, or the named node's; its answer becomes the reply."""
    body = call.body
    job = desk.job(body.job)
    if job.first_processor < 0:
        return m.LogPiece(data=b"", offset=body.offset, end=job.end_s is not None)
    node = body.node or desk.state.processors.node_of[job.first_processor]
    link = desk.agents.by_node.get(node)
    if link is None:
        return m.Error("refused", f"the agent of node {node}, which has the output, is away")
    others = desk.rank_hosts.of(job.id) - {node.name for node in link.nodes}
    query = LogQuery(call.identity, call.request_id, link.name, tuple(sorted(others)))
    ticket = desk.log_queries.add(query)
    order = m.ReadLog(ticket=ticket, job=job.id, stream=body.stream, offset=body.offset)
    desk.order(link, order)
    return None


@handles(m.Stop)
def stop(desk: Desk, call: Call[m.Stop]) -> m.ReplyBody:
    """Stop the server."""
    active = len(desk.state.active)
    if active and not call.body.force:
        jobs = "1 job is" if active == 1 else f"{active} jobs are"
        return m.Error("refused", f"{jobs} running: wait, or stop with --force to kill them")
    desk.stop(call.body.force)
    return m.Done()
