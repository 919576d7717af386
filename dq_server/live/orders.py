"""What the scheduler's actions bring about outside of it: orders to agents, above all.

Some functions are methods of the server (server.py): others than `carry_out` need them, too, as
`reconcile` does, which gives orders again that got lost (agents.py).
"""

from __future__ import annotations

import logging
from itertools import islice
from typing import TYPE_CHECKING

from dq_client import messages as m
from dq_server.core.model import actions as act
from dq_server.core.model import events as ev
from dq_server.core.model.jobs import Job, JobState
from dq_server.live import translate
from dq_server.live.agents import AgentLink

if TYPE_CHECKING:
    from dq_server.live.server import Server

log = logging.getLogger("dq.server")

LOG_TICKETS_MAX = 1000
COPIES_FORGOTTEN_MAX = 1000  # of the jobs that ended last


def carry_out(server: Server, action: act.Action) -> None:
    """Let an action of the scheduler have its effect outside of it."""
    match action:
        case act.StartJob():
            job = server.scheduler.job(action.job)
            server.launchers.add(job)
            server.launch(job)
        case act.KillJob():
            for link in _agents_of(server, action.processors):
                server.order(link, m.KillTree(action.job, action.instance))
        case act.VacateProcessors():
            server.vacate(action.job, action.processors)
            _save_elsewhere(server, action)
        case act.JobFinished():
            log.info("job %d %s: %s", action.job, action.state, action.reason.text)
            server.archive(action.job)
            server.access.dismiss_job(action.job)
            _forget_copies(server, action.job)
        case act.JobRestarts():
            log.warning("job %d: %s", action.job, action.reason.text)
            server.access.dismiss_job(action.job)
        case act.WarnJob():
            log.warning("job %d: %s", action.job, action.reason.text)
        case act.CallRemap():
            pass  # it comes after every iteration, and sooner it cannot
        case act.JobAccepted() | act.AnswerRemap() | act.AnswerRequest():
            pass  # the request that caused it answers


def launch(server: Server, job: Job) -> None:
    """Order the agent of the job's first node to start the application."""
    pair = server.access.admit_job(job.id, job.instance)
    places = server.places.of(tuple(job.allocation))
    link = server.agents.by_node.get(places[0].node)
    if link is None:
        return  # reconcile launches it when the agent reports
    env = {
        **job.spec.env,
        "DQ_SERVER": server.address,
        "DQ_SERVER_KEY": server.access.server.public,
        "DQ_JOB_ID": str(job.id),
        "DQ_JOB_INSTANCE": str(job.instance),
        "DQ_JOB_KEY": pair.secret,
    }
    if job.spec.protection is not None:
        env |= translate.protecting(job, server.access.server.public)[1]
    argv, cwd = list(job.spec.argv), job.spec.cwd
    server.order(link, m.Launch(job.id, job.instance, argv, cwd, env, places))


def vacate(server: Server, job_id: int, processors: tuple[int, ...]) -> None:
    """Ask the agents to confirm that released processors are empty."""
    state = server.scheduler.state
    job = state.jobs.get(job_id)
    goes_on = job_id in state.active
    save = None
    if job is not None and job.state is JobState.RESTARTING:
        save = _copy_places(server, job)
    for link in _agents_of(server, processors):
        names = {n.name for n in link.nodes}
        mine = [p for p in processors if state.processors.node_of[p] in names]
        pids = [server.leaving.get((job_id, p), 0) for p in mine]
        if goes_on and not all(pids):
            # A part of a running job whose pids were lost with the last server: they have
            # left long ago, a retiring rank takes milliseconds.
            server.apply(ev.ProcessorsVacated(job_id, tuple(mine)))
            continue
        instance = job.instance if job is not None else 0
        server.order(link, m.Vacate(job_id, instance, mine, pids if goes_on else [], save))


def read_log(server: Server, link: AgentLink, asked: tuple[bytes, str], body: m.LogsQuery) -> None:
    """Order a piece of output; the agent's answer is passed on to who asked."""
    ticket = next(server.tickets)
    server.log_tickets[ticket] = (*asked, link.name)
    if len(server.log_tickets) > LOG_TICKETS_MAX:  # asked of agents that went away
        del server.log_tickets[min(server.log_tickets)]
    server.order(link, m.ReadLog(ticket, body.job, body.stream, body.offset))


def _save_elsewhere(server: Server, action: act.VacateProcessors) -> None:
    """Nodes that an interrupted job had left before may still hold copies of its data."""
    job = server.scheduler.state.jobs.get(action.job)
    if job is None or job.state is not JobState.RESTARTING:
        return
    asked = _agents_of(server, action.processors)
    for link in server.agents.by_name.values():
        if link not in asked:
            server.order(link, m.SaveCopies(job.id, action.instance, _copy_places(server, job)))


def _forget_copies(server: Server, job_id: int) -> None:
    job = server.scheduler.state.jobs.get(job_id)
    if job is not None and job.spec.protection is not None:
        for link in server.agents.by_name.values():
            server.order(link, m.ForgetCopies(job.id, _copy_places(server, job)))


def forget_copies_on(server: Server, link: AgentLink) -> None:
    """An agent that was away when jobs ended still holds their copies in memory."""
    state = server.scheduler.state
    for job_id in islice(reversed(state.ended), COPIES_FORGOTTEN_MAX):
        job = state.jobs[job_id]
        if job.spec.protection is not None and job.spec.protection.how == "partner":
            server.order(link, m.ForgetCopies(job.id, _copy_places(server, job)))


def _copy_places(server: Server, job: Job) -> m.CopyPlaces:
    return translate.protecting(job, server.access.server.public)[0]


def _agents_of(server: Server, processors: tuple[int, ...]) -> list[AgentLink]:
    node_of = server.scheduler.state.processors.node_of
    links: dict[str, AgentLink] = {}
    for p in processors:
        link = server.agents.by_node.get(node_of[p])
        if link is not None:
            links[link.name] = link
    return list(links.values())
