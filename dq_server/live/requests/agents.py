"""Requests of agents: they report, send heartbeats, and tell what became of processes.

An agent may report about its own nodes only: all agents share one key, and an agent that was cut
off may speak of what is no longer its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

from dq_client.base import codec, versions
from dq_client.base import messages as m
from dq_client.base.messages.base import AGENT
from dq_server.core.model import events as ev
from dq_server.core.model.jobs import ENDED, Job, JobState
from dq_server.core.model.launching import Worlds
from dq_server.live.access import Principal
from dq_server.live.agents.registry import AgentLink
from dq_server.live.context import Desk
from dq_server.live.engines.link import admit
from dq_server.live.orders.dispatch import copies_environment
from dq_server.live.orders.job_ranks import (
    ended_after_all,
    has_part,
    leaving,
    no_part,
    ranks_ended,
    ranks_run,
    spawn_world,
    world_is_over,
)
from dq_server.live.orders.reconciliation import join_new, reconcile
from dq_server.live.orders.startup import resume
from dq_server.live.rate_limited_log import RateLimitedLog
from dq_server.live.requests.call import VERSION, B, Call, handles

log = logging.getLogger("dq.server")
complaints = RateLimitedLog(log)
UNKNOWN_AGENT = m.Error("later", "report with an agent hello first")
OfAgent: TypeAlias = Callable[[Desk, AgentLink, B], m.ReplyBody]


def from_agent(message: type[B]) -> Callable[[OfAgent[B]], OfAgent[B]]:
    """Register the handler of a message of an agent; one that we do not know is refused."""

    def register(handler: OfAgent[B]) -> OfAgent[B]:
        @handles(message)
        def handle(desk: Desk, call: Call[B]) -> m.ReplyBody:
            link = desk.agents.of_identity(call.identity)
            return UNKNOWN_AGENT if link is None else handler(desk, link, call.body)

        return handler

    return register


@handles(m.AgentHello)
def agent_hello(desk: Desk, call: Call[m.AgentHello]) -> m.ReplyBody | None:
    """An agent reports for duty."""
    body = call.body
    if body.protocol != m.PROTOCOL:
        return _refuse(desk, body)
    if (refusal := _too_many(desk, body.nodes)) is not None:
        return refusal
    if (refusal := admit(desk, body.nodes)) is not None:
        return refusal
    link = desk.agents.hello(body, call.identity, desk.monotonic())
    link.since_s = desk.now()
    desk.places.learn(body.nodes)
    welcome = m.Welcome(
        protocol=m.PROTOCOL,
        version=VERSION,
        epoch=desk.epoch,
        role="agent",
        session=link.session,
    )
    # Not returned but sent here, before the orders that follow: they count only in this session.
    desk.reply(call.identity, call.request_id, welcome)
    desk.pairing.welcomed(link)
    if desk.stall:
        return None  # its nodes join with a heartbeat, once that can be saved
    join_new(desk, link)
    resume(desk)
    return None


def refused_version(desk: Desk, principal: Principal, frame: bytes) -> m.Error | None:
    """What to answer a malformed request that is the hello of an agent of another version."""
    found = codec.hello_of_another_version(frame) if principal.role == AGENT else None
    return None if found is None else _refuse(desk, found.body)


def _refuse(desk: Desk, body: m.AgentHello | codec.OldHello) -> m.Error:
    """Refuse an agent of another version, and keep why its nodes are away."""
    name = body.agent[: m.NAME_MAX]
    text = versions.refusal(name, body.version[: m.NAME_MAX], body.protocol)
    complaints.warning("%s", text)
    desk.agents.refuse(name, [node.name for node in body.nodes], text)
    return m.Error("version", text)


def _too_many(desk: Desk, nodes: list[m.NodeInfo]) -> m.Error | None:
    """An error if the server would have to keep more processors than it has memory for."""
    pool = desk.state.processors
    new = sum(node.processors for node in nodes if node.name not in pool.nodes)
    if new == 0 or len(pool.node_of) + new <= m.CLUSTER_PROCESSORS_MAX:
        return None
    text = (
        f"{new} processors of new nodes, besides {len(pool.node_of)} that are known: a cluster has"
        f" {m.CLUSTER_PROCESSORS_MAX} at most"
    )
    complaints.warning("an agent is refused: %s", text)
    return m.Error("refused", text)


@handles(m.Heartbeat)
def heartbeat(desk: Desk, call: Call[m.Heartbeat]) -> m.ReplyBody:
    """An agent is still here. One we do not know is asked to report in full."""
    link = desk.agents.of_identity(call.identity)
    if link is None or link.session != call.body.session:
        return UNKNOWN_AGENT
    if refusal := desk.pairing.hear(call.body.promised, link.name):
        return m.Error("refused", refusal)
    next_s = desk.agents.heard(link, desk.monotonic())
    link.holdings = call.body.holdings
    link.leaving_s, link.leaving_why = call.body.leaving_s, call.body.leaving_why
    link.troubles, link.load = call.body.troubles, call.body.load
    link.promised, link.term = call.body.promised, call.body.term
    link.copies = call.body.copies
    desk.feed.usage.measured(link.name, call.body, desk.state.jobs, desk.now())
    if not desk.stall:  # what follows from it could not be saved; it says it again
        reconcile(desk, link)
    return m.Heard(next_s)


def _not_its_own(desk: Desk, link: AgentLink, job: Job, instance: int) -> m.Error | None:
    """What keeps this agent from reporting about the job: only who started it, or ranks, may."""
    if job.launching.by_agents:
        return None if has_part(desk, link, job, instance) else no_part(link, job)
    node_of = desk.state.processors.node_of
    home = node_of[job.first_processor] if job.first_processor >= 0 else ""
    if desk.agents.by_node.get(home) is not link:
        return m.Error("refused", f"job {job.id} was not started by agent {link.name}")
    return None


@from_agent(m.AppStarted)
def app_started(desk: Desk, link: AgentLink, body: m.AppStarted) -> m.ReplyBody:
    """The application's processes run."""
    job = desk.state.job(body.job)
    refusal = _not_its_own(desk, link, job, body.instance)
    if refusal is not None:
        return refusal
    if not job.launching.by_agents:
        desk.apply(ev.JobStarted(body.job, body.instance))
    elif job.instance == body.instance:
        return ranks_run(desk, link, job)
    return m.Done()


@from_agent(m.AppEnded)
def app_ended(desk: Desk, link: AgentLink, body: m.AppEnded) -> m.ReplyBody:
    """The application has ended; said again until it is acknowledged, also of an earlier start."""
    state = desk.state
    job = state.job(body.job)
    current = job.id in state.active and job.instance == body.instance
    if has_part(desk, link, job, body.instance):
        desk.feed.usage.ended(link.name, body, job)
    if job.launching.by_agents:
        if current:
            return ranks_ended(desk, link, job, body)
        return ended_after_all(desk, link, job, body)
    refusal = _not_its_own(desk, link, job, body.instance)
    if refusal is None and current:
        desk.apply(ev.JobEnded(body.job, body.instance, body.exit_code, body.error))
    return refusal or m.Done()


@from_agent(m.OutputLost)
def output_lost(desk: Desk, link: AgentLink, body: m.OutputLost) -> m.ReplyBody:
    """Output of a job is lost: its story says so, also if it has ended meanwhile."""
    job = desk.state.jobs.get(body.job)
    if job is None:
        return m.Done()  # it ended long ago
    if body.node not in {node.name for node in link.nodes}:
        return m.Error("refused", f"agent {link.name} has no node {body.node}")
    log.warning(
        "job %d: %d bytes of output on %s are lost: %s",
        body.job, body.lost_bytes, body.node, body.why,
    )  # fmt: skip
    desk.apply(ev.OutputLost(body.job, body.instance, body.node, body.lost_bytes, body.why))
    if job.state in ENDED:
        desk.archive(job.id)
    return m.Done()


@from_agent(m.RankLost)
def rank_lost(desk: Desk, link: AgentLink, body: m.RankLost) -> m.ReplyBody:
    """The others wait for that rank for ever: the job is over, unless that is known already."""
    job = desk.state.active.get(body.job)
    if job is None or job.instance != body.instance or job.state is JobState.KILLING:
        return m.Done()
    node_of = desk.state.processors.node_of
    if all(desk.agents.by_node.get(node_of[p]) is not link for p in job.holds()):
        return m.Error("refused", f"job {body.job} has no processor of agent {link.name}")
    desk.apply(ev.JobEnded(body.job, body.instance, -9, f"on {link.name} {body.why}"))
    return m.Done()


@from_agent(m.Vacated)
def vacated(desk: Desk, link: AgentLink, body: m.Vacated) -> m.ReplyBody:
    """Processors are empty."""
    state = desk.state
    pool = state.processors
    said = [p for p in body.processors if p < len(pool.node_of)]
    if any(desk.agents.by_node.get(pool.node_of[p]) is not link for p in said):
        return m.Error("refused", f"agent {link.name} does not have all of these processors")
    job = state.jobs.get(body.job)
    # An agent repeats it until it is acknowledged. What it said of an earlier start, or of ranks
    # that left before, may come when others leave the same processors: it says nothing of these.
    if job is not None and job.instance != body.instance:
        return m.Done()
    if body.pids or body.world >= 0:
        said = [p for p in said if _is_of(desk, body, p)]
    for p in said:
        desk.leaving.pop((body.job, p), None)
    if any(pool.vacating.get(p) == body.job for p in said):
        desk.apply(ev.ProcessorsVacated(body.job, tuple(said)))
    return m.Done()


def _is_of(desk: Desk, body: m.Vacated, processor: int) -> bool:
    """Whether those who have left are those who were to leave this processor last."""
    job = desk.state.active.get(body.job)
    if job is None:
        return False  # all that it has is to end, not only what left before
    ending = Worlds.of(job).ending.get(processor, -1)
    if body.world >= 0 or ending >= 0:
        return ending == body.world
    leaves = desk.leaving.get((body.job, processor))  # None: lost with the last server
    return leaves is None or leaves in body.pids


@from_agent(m.RemoteRun)
def remote_run(desk: Desk, link: AgentLink, body: m.RemoteRun) -> m.ReplyBody:
    """MPI's launcher wants a proxy on another node: only on one that the job holds."""
    job = desk.state.job(body.job)
    if not job.works_in(body.instance):
        return m.Error("refused", f"job {body.job} is not running here")
    place = next((p for p in desk.places.of(tuple(job.holds())) if p.host == body.host), None)
    if place is None:
        return m.Error("refused", f"job {body.job} holds no processor on {body.host}")
    target = desk.agents.by_node.get(place.node)
    if target is None:
        return m.Error("later", f"the agent of {place.node} is away")
    order = m.RunProxy(
        run=body.run,
        job=body.job,
        instance=body.instance,
        argv=body.argv,
        env=body.env | copies_environment(desk, job),
        asker=link.name,
    )
    desk.order(target, order)
    return m.Done()


@handles(m.RemoteEnded)
def remote_ended(desk: Desk, call: Call[m.RemoteEnded]) -> m.ReplyBody:
    """A proxy has ended: tell the agent that asked for it."""
    body = call.body
    asker = desk.agents.by_name.get(body.asker)
    if asker is not None:
        desk.order(asker, m.ProxyEnded(body.run, body.exit_code, body.error))
    return m.Done()


@from_agent(m.Relay)
def relay(desk: Desk, link: AgentLink, body: m.Relay) -> m.ReplyBody:
    """One keeper of a job speaks to another: between nodes that the job has, nowhere else."""
    job = desk.state.job(body.job)
    if not job.works_in(body.instance) or not job.launching.by_agents:
        return m.Error("refused", f"job {job.id} is not running here")
    nodes = desk.job_nodes.of(job)
    everybody = body.node == m.EVERYBODY
    if (not everybody and body.node not in nodes) or not any(
        node.name in nodes for node in link.nodes
    ):
        nodes |= leaving(desk, job)  # rarely: those who leave may have something left to say
    sender = next((node.name for node in link.nodes if node.name in nodes), None)
    if sender is None:
        return no_part(link, job)
    if everybody:
        names = {desk.agents.by_node[n].name for n in nodes if n in desk.agents.by_node}
        for name in sorted(names - {link.name}):
            _relay(desk, desk.agents.by_name[name], job, sender, body.data)
        return m.Done()
    if body.node not in nodes:
        return m.Error("refused", f"job {job.id} has nothing on node {body.node}")
    target = desk.agents.by_node.get(body.node)
    if target is None:
        return m.Error("later", f"the agent of {body.node} is away")
    _relay(desk, target, job, sender, body.data)
    return m.Done()


def _relay(desk: Desk, target: AgentLink, job: Job, sender: str, data: bytes) -> None:
    desk.order(target, m.Relayed(job=job.id, instance=job.instance, node=sender, data=data))


@from_agent(m.SpawnRanks)
def spawn_ranks(desk: Desk, link: AgentLink, body: m.SpawnRanks) -> m.ReplyBody:
    """A rank calls MPI_Comm_spawn."""
    job = desk.state.job(body.job)
    if not job.works_in(body.instance) or not job.launching.by_agents:
        return m.Error("refused", f"job {job.id} is not running here")
    if not has_part(desk, link, job, body.instance):
        return no_part(link, job)
    return spawn_world(desk, link, job, body)


@from_agent(m.WorldEnded)
def world_ended(desk: Desk, link: AgentLink, body: m.WorldEnded) -> m.ReplyBody:
    """All ranks of a spawned world on an agent's nodes have ended."""
    job = desk.state.job(body.job)
    if not job.works_in(body.instance) or not job.launching.by_agents:
        return m.Done()  # all that the job has ends, or has ended
    if not has_part(desk, link, job, body.instance):
        return no_part(link, job)
    return world_is_over(desk, link, job, body.world)


@handles(m.AgentRetired)
def retired(desk: Desk, call: Call[m.AgentRetired]) -> m.ReplyBody:
    """An agent that was told to end does."""
    desk.dismissed.pop(call.identity, None)
    return m.Done()
