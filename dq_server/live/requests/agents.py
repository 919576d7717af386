"""What agents say: they report, beat, and tell what became of processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dq_client import messages as m
from dq_server.core import events as ev
from dq_server.core.jobs import JobState
from dq_server.live.agents import join_new, reconcile
from dq_server.live.requests.asked import VERSION, Asked, Table, other_protocol

if TYPE_CHECKING:
    from dq_server.core.jobs import Job
    from dq_server.live.server import Server

UNKNOWN_AGENT = m.Error("later", "report with an agent hello first")


def agent_hello(server: Server, asked: Asked, body: m.AgentHello) -> m.ReplyBody | None:
    """An agent reports for duty."""
    if (refusal := other_protocol(body.protocol)) is not None:
        return refusal
    session = next(server.sessions)
    link = server.agents.hello(body, asked.identity, server.monotonic(), session)
    server.places.learn(body.nodes)
    # Before the orders that follow: they count only in this session.
    welcome = m.Welcome(m.PROTOCOL, VERSION, server.epoch, "agent", session)
    server.reply(asked.identity, asked.request_id, welcome)
    server.forget_copies_on(link)
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


def rank_lost(server: Server, asked: Asked, body: m.RankLost) -> m.ReplyBody:
    """The others wait for that rank for ever: the job is over, unless that is known already."""
    link = server.agents.of_identity(asked.identity)
    if link is None:
        return UNKNOWN_AGENT
    job = server.scheduler.state.active.get(body.job)
    if job is None or job.instance != body.instance or job.state is JobState.KILLING:
        return m.Done()
    pool = server.scheduler.state.processors
    if all(server.agents.by_node.get(pool.node_of[p]) is not link for p in job.holds()):
        return m.Error("refused", f"job {body.job} has no processor of agent {link.name}")
    server.apply(ev.JobEnded(body.job, body.instance, -9, f"on {link.name} {body.why}"))
    return m.Done()


def vacated(server: Server, asked: Asked, body: m.Vacated) -> m.ReplyBody:
    """Processors are empty: an agent's word counts for its own nodes.

    It says it until it is acknowledged; what it said of an earlier start may come when the next one
    is leaving the same processors, and says nothing about that.
    """
    link = server.agents.of_identity(asked.identity)
    if link is None:
        return UNKNOWN_AGENT
    pool = server.scheduler.state.processors
    said = [p for p in body.processors if p < len(pool.node_of)]
    if any(server.agents.by_node.get(pool.node_of[p]) is not link for p in said):
        return m.Error("refused", f"agent {link.name} does not have all of these processors")
    job = server.scheduler.state.jobs.get(body.job)
    if job is not None and job.instance != body.instance:
        return m.Done()
    for p in said:
        server.leaving.pop((body.job, p), None)
    if any(pool.vacating.get(p) == body.job for p in said):
        server.apply(ev.ProcessorsVacated(body.job, tuple(said)))
    return m.Done()


def runs(job: Job, instance: int) -> bool:
    """Whether this instance may have processes anywhere: one that is to end gets no more."""
    return job.instance == instance and job.state in (JobState.STARTING, JobState.RUNNING)


def remote_run(server: Server, asked: Asked, body: m.RemoteRun) -> m.ReplyBody:
    """MPI's launcher wants a proxy on another node: only on one that the job holds."""
    link = server.agents.of_identity(asked.identity)
    job = server.scheduler.state.job(body.job)
    if link is None:
        return UNKNOWN_AGENT
    if not runs(job, body.instance):
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


TABLE: Table = {
    m.AgentHello: agent_hello,
    m.Heartbeat: heartbeat,
    m.AppStarted: app_started,
    m.AppEnded: app_ended,
    m.RankLost: rank_lost,
    m.Vacated: vacated,
    m.RemoteRun: remote_run,
    m.RemoteEnded: remote_ended,
    m.LogAnswer: log_answer,
}
