"""What people and their programs ask for: jobs in, questions, orders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from dq_client import messages as m
from dq_server.core import events as ev
from dq_server.core.actions import JobAccepted
from dq_server.core.errors import UnknownJob
from dq_server.core.state import AdvanceReservation
from dq_server.live import translate, views
from dq_server.live.requests.asked import VERSION, Asked, Table, the_job

if TYPE_CHECKING:
    from dq_server.live.server import Server


def submit(server: Server, asked: Asked, body: m.Submit) -> m.ReplyBody:  # noqa: ARG001
    """A new job."""
    if server.drain:
        return m.Error("refused", "the server is going down and takes no more jobs")
    state = server.scheduler.state
    if 0 in (*body.after, *body.after_any):
        last = max(state.jobs, default=0)
        named = {name: [k or last for k in getattr(body, name)] for name in ("after", "after_any")}
        body = msgspec.structs.replace(body, **named)
    if server.scheduler.config.history == "always" and not body.app_name:
        body = msgspec.structs.replace(body, app_name=translate.program(body))
    capacity = state.processors.capacity
    actions = server.apply(translate.submission(body, server.user, capacity))
    return m.Submitted(next(a.job for a in actions if isinstance(a, JobAccepted)))


def job_query(server: Server, asked: Asked, body: m.JobQuery) -> m.ReplyBody:  # noqa: ARG001
    """One job."""
    try:
        job = the_job(server, body.job)
    except UnknownJob as unknown:
        return m.Data(_archived(server, body.job, unknown)["job"])
    return m.Data(views.job_view(job, server.scheduler.state))


def _archived(server: Server, job_id: int, unknown: UnknownJob) -> dict[str, Any]:
    """An ended job that the scheduler has forgotten, as it was; raises `unknown` otherwise."""
    found = server.journal.archived(job_id)
    if found is None:
        raise unknown
    view: dict[str, Any] = msgspec.json.decode(found)
    return view


def jobs_query(server: Server, asked: Asked, body: m.JobsQuery) -> m.ReplyBody:  # noqa: ARG001
    """All jobs."""
    return m.Data(views.jobs_view(server.scheduler.state, active_only=body.active_only))


def nodes_query(server: Server, asked: Asked, body: m.NodesQuery) -> m.ReplyBody:  # noqa: ARG001
    """All nodes."""
    return m.Data(views.nodes_view(server.scheduler.state, server.places))


def why_query(server: Server, asked: Asked, body: m.WhyQuery) -> m.ReplyBody:  # noqa: ARG001
    """Why a job is where it is."""
    try:
        job = the_job(server, body.job)
    except UnknownJob as unknown:
        return m.Data(_archived(server, body.job, unknown)["why"])
    return m.Data(views.why_view(server.scheduler, job, server.now()))


def status_query(server: Server, asked: Asked, body: m.StatusQuery) -> m.ReplyBody:  # noqa: ARG001
    """The server itself."""
    state = server.scheduler.state
    return m.Data(
        {
            "version": VERSION,
            "epoch": server.epoch,
            "address": server.address,
            "uptime_s": server.monotonic() - server.started_s,
            "processors": state.processors.capacity,
            "idle": state.idle,
            "agents": {
                a.name: {"pid": a.pid, "nodes": [n.name for n in a.nodes]}
                for a in server.agents.by_name.values()
            },
            "paused": state.paused,
            "jobs": views.counts(state),
        }
    )


def timeline_query(server: Server, asked: Asked, body: m.TimelineQuery) -> m.ReplyBody:  # noqa: ARG001
    """Sizes over time."""
    return m.Data(views.timeline_view(server.scheduler.state, server.now()))


def kill(server: Server, asked: Asked, body: m.Kill) -> m.ReplyBody:  # noqa: ARG001
    """Kill a job."""
    server.apply(ev.KillRequested(the_job(server, body.job).id, server.user))
    return m.Done()


def hold(server: Server, asked: Asked, body: m.Hold) -> m.ReplyBody:  # noqa: ARG001
    """Hold a queued job."""
    server.apply(ev.HoldRequested(the_job(server, body.job).id))
    return m.Done()


def release(server: Server, asked: Asked, body: m.Release) -> m.ReplyBody:  # noqa: ARG001
    """Release a held job."""
    server.apply(ev.ReleaseRequested(the_job(server, body.job).id))
    return m.Done()


def resize(server: Server, asked: Asked, body: m.Resize) -> m.ReplyBody:  # noqa: ARG001
    """Bring a job to a size at its next remap point."""
    server.apply(ev.ResizeRequested(the_job(server, body.job).id, body.size, body.rows))
    return m.Done()


def reserve(server: Server, asked: Asked, body: m.Reserve) -> m.ReplyBody:  # noqa: ARG001
    """Make an advance reservation."""
    start_s = server.now() + body.in_s
    server.apply(
        ev.ReservationMade(
            AdvanceReservation(
                body.name,
                body.processors,
                start_s,
                start_s + body.duration_s,
                body.user,
                body.request,
            )
        )
    )
    return m.Done()


def unreserve(server: Server, asked: Asked, body: m.CancelReservation) -> m.ReplyBody:  # noqa: ARG001
    """Cancel an advance reservation."""
    server.apply(ev.ReservationCancelled(body.name))
    return m.Done()


def reservations_query(
    server: Server,
    asked: Asked,  # noqa: ARG001
    body: m.ReservationsQuery,  # noqa: ARG001
) -> m.ReplyBody:
    """All advance reservations."""
    return m.Data(views.reservations_view(server.scheduler.state))


def logs_query(server: Server, asked: Asked, body: m.LogsQuery) -> m.ReplyBody | None:
    """Ask the agent that started the job; its answer becomes the reply."""
    job = the_job(server, body.job)
    if job.first_processor < 0:
        return m.LogPiece(b"", body.offset, job.end_s is not None)
    node = server.scheduler.state.processors.node_of[job.first_processor]
    link = server.agents.by_node.get(node)
    if link is None:
        return m.Error("refused", f"the agent of node {node}, which has the output, is away")
    query = m.LogsQuery(job.id, body.stream, body.offset)
    server.read_log(link, (asked.identity, asked.request_id), query)
    return None


def stop(server: Server, asked: Asked, body: m.Stop) -> m.ReplyBody:  # noqa: ARG001
    """Stop the server."""
    active = len(server.scheduler.state.active)
    if active and not body.force:
        jobs = "1 job is" if active == 1 else f"{active} jobs are"
        return m.Error("refused", f"{jobs} running: wait, or stop with --force to kill them")
    server.stop(force=body.force)
    return m.Done()


TABLE: Table = {
    m.Submit: submit,
    m.JobQuery: job_query,
    m.JobsQuery: jobs_query,
    m.NodesQuery: nodes_query,
    m.WhyQuery: why_query,
    m.StatusQuery: status_query,
    m.TimelineQuery: timeline_query,
    m.Kill: kill,
    m.Hold: hold,
    m.Release: release,
    m.Resize: resize,
    m.Reserve: reserve,
    m.CancelReservation: unreserve,
    m.ReservationsQuery: reservations_query,
    m.LogsQuery: logs_query,
    m.Stop: stop,
}
