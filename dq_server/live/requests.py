"""What each request does. One function per message; `answer` finds it.

A function returns the body of the reply, or None if the reply comes later (or none is owed).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from dq_client import messages as m
from dq_server.core import events as ev
from dq_server.core.actions import AnswerRemap, AnswerRequest, JobAccepted
from dq_server.core.errors import (
    InvalidTransition,
    SchedulerError,
    UnknownJob,
    UnknownNode,
)
from dq_server.core.jobs import Job
from dq_server.live import translate, views
from dq_server.live.access import Principal
from dq_server.live.agents import join_new, reconcile

if TYPE_CHECKING:
    from dq_server.live.server import Server

VERSION = "0.1.0"
UNKNOWN_AGENT = m.Error("later", "report with an agent hello first")


class Asked:
    """A request with its circumstances."""

    __slots__ = ("body", "identity", "principal", "request_id")

    def __init__(self, identity: bytes, principal: Principal, request: m.Request) -> None:
        self.identity, self.principal = identity, principal
        self.request_id, self.body = request.id, request.body


def answer(
    server: Server, identity: bytes, principal: Principal, request: m.Request
) -> m.ReplyBody | None:
    """Carry out a request; a refusal becomes an Error with one clear line."""
    try:
        return TABLE[type(request.body)](server, Asked(identity, principal, request), request.body)
    except (UnknownJob, UnknownNode) as e:
        return m.Error("not_found", str(e))
    except SchedulerError as e:
        return m.Error("refused", str(e))


def _job(server: Server, job_id: int) -> Job:
    """The job; 0 stands for the last one submitted."""
    state = server.scheduler.state
    if job_id == 0:
        if not state.jobs:
            raise UnknownJob("no job has been submitted yet")
        job_id = max(state.jobs)
    return state.job(job_id)


# --- anybody ---------------------------------------------------------------------------------


def hello(server: Server, asked: Asked, body: m.Hello) -> m.ReplyBody:
    """Agree on the protocol."""
    if body.protocol != m.PROTOCOL:
        return m.Error(
            "refused",
            f"this server speaks protocol {m.PROTOCOL}, the client {body.protocol}:"
            " install the same version of dq on both sides",
        )
    return m.Welcome(m.PROTOCOL, VERSION, server.epoch, asked.principal.role)


# --- users -----------------------------------------------------------------------------------


def submit(server: Server, asked: Asked, body: m.Submit) -> m.ReplyBody:  # noqa: ARG001
    """A new job."""
    if server.drain:
        return m.Error("refused", "the server is going down and takes no more jobs")
    capacity = server.scheduler.state.processors.capacity
    actions = server.apply(translate.submission(body, server.user, capacity))
    return m.Submitted(next(a.job for a in actions if isinstance(a, JobAccepted)))


def job_query(server: Server, asked: Asked, body: m.JobQuery) -> m.ReplyBody:  # noqa: ARG001
    """One job."""
    return m.Data(views.job_view(_job(server, body.job), server.scheduler.state))


def jobs_query(server: Server, asked: Asked, body: m.JobsQuery) -> m.ReplyBody:  # noqa: ARG001
    """All jobs."""
    return m.Data(views.jobs_view(server.scheduler.state, active_only=body.active_only))


def nodes_query(server: Server, asked: Asked, body: m.NodesQuery) -> m.ReplyBody:  # noqa: ARG001
    """All nodes."""
    return m.Data(views.nodes_view(server.scheduler.state, server.places))


def why_query(server: Server, asked: Asked, body: m.WhyQuery) -> m.ReplyBody:  # noqa: ARG001
    """Why a job is where it is."""
    return m.Data(views.why_view(server.scheduler, _job(server, body.job), server.now()))


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
    server.apply(ev.KillRequested(_job(server, body.job).id, server.user))
    return m.Done()


def hold(server: Server, asked: Asked, body: m.Hold) -> m.ReplyBody:  # noqa: ARG001
    """Hold a queued job."""
    server.apply(ev.HoldRequested(_job(server, body.job).id))
    return m.Done()


def release(server: Server, asked: Asked, body: m.Release) -> m.ReplyBody:  # noqa: ARG001
    """Release a held job."""
    server.apply(ev.ReleaseRequested(_job(server, body.job).id))
    return m.Done()


def resize(server: Server, asked: Asked, body: m.Resize) -> m.ReplyBody:  # noqa: ARG001
    """Bring a job to a size at its next remap point."""
    server.apply(ev.ResizeRequested(_job(server, body.job).id, body.size))
    return m.Done()


def logs_query(server: Server, asked: Asked, body: m.LogsQuery) -> m.ReplyBody | None:
    """Ask the agent that started the job; its answer becomes the reply."""
    job = _job(server, body.job)
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


# --- applications ----------------------------------------------------------------------------


def job_hello(server: Server, asked: Asked, body: m.JobHello) -> m.ReplyBody:
    """The application's first rank reports."""
    if body.protocol != m.PROTOCOL:
        return m.Error("refused", f"this server speaks protocol {m.PROTOCOL}, not {body.protocol}")
    who = asked.principal
    job = server.scheduler.state.job(who.job)
    if job.instance != who.instance or job.configuration is None or not job.allocation:
        raise InvalidTransition(f"job {job.id} is {job.state}: this start of it is over")
    places = server.places.of(tuple(job.allocation))
    shape = job.configuration
    node = server.places.node(places[0].node)
    welcome = m.JobWelcome(job.id, job.instance, server.epoch, places, shape.rows, shape.cols)
    if node is None:
        return welcome
    return msgspec.structs.replace(
        welcome,
        link_mbit=node.link_mbit,
        link_latency_us=node.link_latency_us,
        link_duplex=node.link_duplex,
    )


def remap(server: Server, asked: Asked, body: m.RemapPoint) -> m.ReplyBody:
    """A remap point."""
    who = asked.principal
    actions = server.apply(translate.remap_point(body, who.job, who.instance))
    for action in actions:
        if isinstance(action, AnswerRemap) and action.job == who.job:
            standing = server.scheduler.job(who.job).request_answer
            about = translate.dynamic_answer(standing, server.now()) if standing else None
            return translate.remap_answer(action.answer, server.places.of, about)
    return m.RemapAnswer("continue", reason="this remap point is older than the last")


def committed(server: Server, asked: Asked, body: m.Committed) -> m.ReplyBody:
    """A resize was carried out."""
    who = asked.principal
    pending = server.scheduler.state.job(who.job).resize
    if pending is not None and pending.resize_id == body.resize_id and not pending.expand:
        server.leaving.update(
            {(who.job, p): pid for p, pid in zip(pending.processors, body.pids, strict=False)}
        )
    server.apply(
        ev.ResizeCommitted(who.job, who.instance, body.resize_id, body.redistribution_time_s)
    )
    return m.Done()


def aborted(server: Server, asked: Asked, body: m.Aborted) -> m.ReplyBody:
    """A resize did not happen."""
    who = asked.principal
    server.apply(ev.ResizeAborted(who.job, who.instance, body.resize_id, body.why))
    return m.Done()


def dynamic_request(server: Server, asked: Asked, body: m.DynamicRequest) -> m.ReplyBody:
    """An evolving application asks for processors."""
    who = asked.principal
    return _dynamic(server, who, translate.dynamic_request(body, who.job, who.instance))


def dynamic_release(server: Server, asked: Asked, body: m.DynamicRelease) -> m.ReplyBody:
    """An evolving application gives processors back."""
    who = asked.principal
    return _dynamic(server, who, translate.dynamic_release(body, who.job, who.instance))


def _dynamic(
    server: Server, who: Principal, event: ev.DynamicRequested | ev.DynamicReleased
) -> m.ReplyBody:
    """Hand it to the scheduler, which answers every legal one at once."""
    actions = server.apply(event)
    own = (a.answer for a in actions if isinstance(a, AnswerRequest) and a.job == who.job)
    return translate.dynamic_answer(next(own), server.now())


# --- agents ----------------------------------------------------------------------------------


def agent_hello(server: Server, asked: Asked, body: m.AgentHello) -> m.ReplyBody | None:
    """An agent reports for duty."""
    if body.protocol != m.PROTOCOL:
        return m.Error("refused", f"this server speaks protocol {m.PROTOCOL}, not {body.protocol}")
    session = next(server.sessions)
    link = server.agents.hello(body, asked.identity, server.monotonic(), session)
    server.places.learn(body.nodes)
    # Before the orders that follow: they count only in this session.
    welcome = m.Welcome(m.PROTOCOL, VERSION, server.epoch, "agent", session)
    server.reply(asked.identity, asked.request_id, welcome)
    join_new(server, link)
    server.resume()
    return None


def heartbeat(server: Server, asked: Asked, body: m.Heartbeat) -> m.ReplyBody:
    """An agent is still here. One we do not know is asked to report in full."""
    link = server.agents.of_identity(asked.identity)
    if link is None or link.session != body.session:
        return UNKNOWN_AGENT
    link.last_seen = server.monotonic()
    link.holdings = body.holdings
    reconcile(server, link)
    return m.Done()


def _not_its_own(server: Server, asked: Asked, job_id: int) -> m.Error | None:
    """What keeps this agent from reporting about the job: only who started it may."""
    link = server.agents.of_identity(asked.identity)
    if link is None:
        return UNKNOWN_AGENT
    state = server.scheduler.state
    job = state.job(job_id)
    home = state.processors.node_of[job.first_processor] if job.first_processor >= 0 else ""
    if server.agents.by_node.get(home) is not link:
        return m.Error("refused", f"job {job_id} was not started by agent {link.name}")
    return None


def app_started(server: Server, asked: Asked, body: m.AppStarted) -> m.ReplyBody:
    """The start signal."""
    refusal = _not_its_own(server, asked, body.job)
    if refusal is None:
        server.apply(ev.JobStarted(body.job, body.instance))
    return refusal or m.Done()


def app_ended(server: Server, asked: Asked, body: m.AppEnded) -> m.ReplyBody:
    """The end signal."""
    refusal = _not_its_own(server, asked, body.job)
    state = server.scheduler.state
    current = body.job in state.active and state.jobs[body.job].instance == body.instance
    if refusal is None and current:
        server.apply(ev.JobEnded(body.job, body.instance, body.exit_code, body.error))
    return refusal or m.Done()


def vacated(server: Server, asked: Asked, body: m.Vacated) -> m.ReplyBody:
    """Processors are empty: an agent's word counts for its own nodes."""
    link = server.agents.of_identity(asked.identity)
    if link is None:
        return UNKNOWN_AGENT
    pool = server.scheduler.state.processors
    said = [p for p in body.processors if p < len(pool.node_of)]
    if any(server.agents.by_node.get(pool.node_of[p]) is not link for p in said):
        return m.Error("refused", f"agent {link.name} does not have all of these processors")
    for p in said:
        server.leaving.pop((body.job, p), None)
    if any(pool.vacating.get(p) == body.job for p in said):
        server.apply(ev.ProcessorsVacated(body.job, tuple(said)))
    return m.Done()


def remote_run(server: Server, asked: Asked, body: m.RemoteRun) -> m.ReplyBody:
    """MPI's launcher wants a proxy on another node: only on one that the job holds."""
    link = server.agents.of_identity(asked.identity)
    job = server.scheduler.state.job(body.job)
    if link is None:
        return UNKNOWN_AGENT
    if job.instance != body.instance or job.id not in server.scheduler.state.active:
        return m.Error("refused", f"job {body.job} is not running here")
    place = next((p for p in server.places.of(tuple(job.holds())) if p.host == body.host), None)
    if place is None:
        return m.Error("refused", f"job {body.job} holds no processor on {body.host}")
    target = server.agents.by_node.get(place.node)
    if target is None:
        return m.Error("later", f"the agent of {place.node} is away")
    run = m.RunProxy(body.run, body.job, body.instance, body.argv, body.env, link.name)
    server.order(target, run)
    return m.Done()


def remote_ended(server: Server, asked: Asked, body: m.RemoteEnded) -> m.ReplyBody:  # noqa: ARG001
    """A proxy has ended: tell the agent that asked for it."""
    asker = server.agents.by_name.get(body.asker)
    if asker is not None:
        server.order(asker, m.ProxyEnded(body.run, body.exit_code, body.error))
    return m.Done()


def log_answer(server: Server, asked: Asked, body: m.LogAnswer) -> m.ReplyBody:
    """A piece of output for the user who asked, from the agent that was asked."""
    identity, request_id, agent = server.log_tickets.get(body.ticket, (b"", "", ""))
    link = server.agents.of_identity(asked.identity)
    if link is not None and link.name == agent:
        del server.log_tickets[body.ticket]
        server.reply(identity, request_id, m.LogPiece(body.data, body.offset, body.end))
    return m.Done()


TABLE: dict[type, Callable[[Server, Asked, Any], m.ReplyBody | None]] = {
    m.Hello: hello,
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
    m.LogsQuery: logs_query,
    m.Stop: stop,
    m.JobHello: job_hello,
    m.RemapPoint: remap,
    m.Committed: committed,
    m.Aborted: aborted,
    m.DynamicRequest: dynamic_request,
    m.DynamicRelease: dynamic_release,
    m.AgentHello: agent_hello,
    m.Heartbeat: heartbeat,
    m.AppStarted: app_started,
    m.AppEnded: app_ended,
    m.Vacated: vacated,
    m.RemoteRun: remote_run,
    m.RemoteEnded: remote_ended,
    m.LogAnswer: log_answer,
}
