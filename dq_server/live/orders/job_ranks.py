"""The starts and ends of jobs whose ranks the agents of several nodes look after.

Agents say what became of the ranks on their nodes (rank_reports.py). What they say of all nodes
together is an event: the job runs, it has ended. A failure needs one word only.
"""

from __future__ import annotations

from dq_client.base import messages as m
from dq_server.core.features.spawning import spawned_in
from dq_server.core.model import events as ev
from dq_server.core.model.actions import AnswerSpawn
from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.launching import Worlds
from dq_server.core.transaction import unheard
from dq_server.live import translate
from dq_server.live.agents.job_nodes import nodes_of
from dq_server.live.agents.rank_reports import not_ended, not_started, world_not_ended
from dq_server.live.agents.registry import AgentLink
from dq_server.live.context import Desk
from dq_server.live.orders.dispatch import start_world


def ranks_run(desk: Desk, link: AgentLink, job: Job) -> m.ReplyBody:
    """The ranks on an agent's nodes run; the job does when they all do."""
    if job.state is not JobState.STARTING:
        return m.Done()
    said = desk.rank_reports.of(job)
    said.started.add(link.name)
    node = not_started(said, job, desk.agents, desk.state)
    if node:
        return m.Error("later", f"job {job.id} does not run on {node} yet")
    desk.apply(ev.JobStarted(job.id, job.instance))
    return m.Done()


def ranks_ended(desk: Desk, link: AgentLink, job: Job, body: m.AppEnded) -> m.ReplyBody:
    """One rank has failed, or all of the agent's have ended well; the job is active."""
    if body.exit_code or body.error or job.state is JobState.KILLING:
        if not has_part(desk, link, job, body.instance):
            return no_part(link, job)
        desk.apply(ev.JobEnded(job.id, job.instance, body.exit_code, body.error))
        return m.Done()
    there = nodes_of((*job.allocation, *job.spawned), desk.state)
    if not any(node.name in there for node in link.nodes):
        # Its nodes have left the job, which goes on; they may be about to come back to it, and the
        # agent starts the new ranks when it knows that this end is understood.
        return m.Done()
    if job.spec.workers is not None:
        # The reports of each worker may be lost with the agent once this one is acknowledged.
        mine = {node.name for node in link.nodes}
        node_of = desk.state.processors.node_of
        for p, world in list(Worlds.of(job).started.items()):
            if node_of[p] in mine and world <= body.world:
                desk.apply(ev.WorkerEnded(job.id, job.instance, world))
        return m.Done()
    said = desk.rank_reports.of(job)
    said.ended[link.name] = body.world
    node = not_ended(said, job, desk.agents, desk.state)
    if node:
        return m.Error("later", f"job {job.id} has not ended on {node}")
    desk.apply(ev.JobEnded(job.id, job.instance, 0))
    return m.Done()


def ended_after_all(desk: Desk, link: AgentLink, job: Job, body: m.AppEnded) -> m.ReplyBody:
    """An end of a start that is over for the server; it counts if the job waits to start again.

    An agent that was away while its node was taken for lost says that all ranks there have ended
    well. The job is done when the ranks on all of its nodes have.
    """
    interrupted = unheard(job, body.instance)
    if body.exit_code or body.error or interrupted is None:
        return m.Done()
    if not any(node.name in interrupted.nodes for node in link.nodes):
        return m.Done()
    said = desk.rank_reports.of(job)
    said.ended[link.name] = body.world
    for node in interrupted.nodes:
        other = desk.agents.by_node.get(node)
        if other is None or other.name not in said.ended:
            return m.Error("later", f"job {job.id} has not ended on {node}")
    desk.apply(ev.JobEnded(job.id, job.instance, 0))
    return m.Done()


def spawn_world(desk: Desk, link: AgentLink, job: Job, body: m.SpawnRanks) -> m.ReplyBody:
    """A rank spawns others: those of a granted expansion, or some that its program wants."""
    actions = desk.apply(translate.spawn_requested(body, link.name))
    answer = next((a for a in actions if isinstance(a, AnswerSpawn)), None)
    if answer is None:
        return m.Error("later", f"ranks that job {job.id} has spawned before are about to end")
    if not answer.world:
        return m.Error("refused", answer.reason.text)
    desk.job_nodes.add(job)
    start_world(desk, job, answer.world)
    return m.Done()


def world_is_over(desk: Desk, link: AgentLink, job: Job, world: int) -> m.ReplyBody:
    """The ranks of a spawned world have ended on an agent's nodes; or a worker has, with 0."""
    if job.spec.workers is not None:
        desk.apply(ev.WorkerEnded(job.id, job.instance, world))
        return m.Done()
    if not spawned_in(job, world):
        return m.Done()  # known already, or a world that joined the job
    said = desk.rank_reports.of(job)
    said.worlds_ended.setdefault(world, set()).add(link.name)
    node = world_not_ended(world, said, job, desk.agents, desk.state)
    if node:
        return m.Error("later", f"the ranks on {node} have not ended")
    desk.apply(ev.WorldEnded(job.id, job.instance, world))
    said.worlds_ended.pop(world)
    return m.Done()


def _has_processors(desk: Desk, link: AgentLink, job: Job) -> bool:
    """Whether the agent's nodes have processors that an active job holds."""
    nodes = desk.job_nodes.of(job)
    return any(node.name in nodes for node in link.nodes)


def has_part(desk: Desk, link: AgentLink, job: Job, instance: int) -> bool:
    """Whether the agent has, or had, ranks of this start of a job: it may speak of it."""
    if job.id in desk.state.active:
        ordered = job.instance == instance and link.name in desk.rank_reports.of(job).ordered
        if ordered or _has_processors(desk, link, job):
            return True
    if any((h.job, h.instance) == (job.id, instance) for h in link.holdings):
        return True
    return any(node.name in leaving(desk, job) for node in link.nodes)


def no_part(link: AgentLink, job: Job) -> m.Error:
    """The refusal of what an agent says that has no part in the job."""
    return m.Error("refused", f"job {job.id} has nothing on the nodes of agent {link.name}")


def leaving(desk: Desk, job: Job) -> frozenset[str]:
    """The nodes that have not confirmed yet that the job has left them."""
    vacating = desk.state.processors.vacating
    return nodes_of((p for p, of in vacating.items() if of == job.id), desk.state)
