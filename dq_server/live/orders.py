"""Orders to agents: what the scheduler's actions bring about outside of it.

Orders follow from the state, so one that is lost is given again when a heartbeat shows that it did
not arrive (reconciliation.py).
"""

from __future__ import annotations

import logging
from itertools import islice
from typing import assert_never

from dq_client import messages as m
from dq_server.core.model import actions as act
from dq_server.core.model import events as ev
from dq_server.core.model.jobs import Job, JobState
from dq_server.live import translate
from dq_server.live.agents import AgentLink
from dq_server.live.desk import Desk

log = logging.getLogger("dq.server")

COPIES_FORGOTTEN_MAX = 1000  # of the jobs that ended last


def carry_out(desk: Desk, action: act.Action) -> None:
    """Let an action of the scheduler have its effect outside of it."""
    match action:
        case act.StartJob():
            job = desk.scheduler.job(action.job)
            desk.launch_nodes.add(job)
            launch(desk, job)
        case act.KillJob():
            for link in desk.agents.of_processors(action.processors, desk.state):
                desk.order(link, m.KillTree(action.job, action.instance))
        case act.VacateProcessors():
            vacate(desk, action.job, action.processors)
            _save_elsewhere(desk, action)
        case act.JobFinished():
            log.info("job %d %s: %s", action.job, action.state, action.reason.text)
            desk.archive(action.job)
            desk.access.dismiss_job(action.job)
            _forget_copies(desk, action.job)
        case act.JobRestarts():
            log.warning("job %d: %s", action.job, action.reason.text)
            desk.access.dismiss_job(action.job)
        case act.WarnJob():
            log.warning("job %d: %s", action.job, action.reason.text)
        case act.CallRemap():
            pass  # a remap point comes after every iteration: nothing could make it come sooner
        case act.JobAccepted() | act.AnswerRemap() | act.AnswerRequest():
            pass  # the handler of the request that caused it answers
        case _:
            assert_never(action)


def launch(desk: Desk, job: Job) -> None:
    """Order the agent of the job's first node to start the application."""
    # Before the order leaves: the application's key must be known when it connects.
    pair = desk.access.admit_job(job.id, job.instance)
    places = desk.places.of(tuple(job.allocation))
    link = desk.agents.by_node.get(places[0].node)
    if link is None:
        return  # reconcile launches it when the agent reports
    env = {
        **job.spec.env,
        "DQ_SERVER": desk.address,
        "DQ_SERVER_KEY": desk.access.server.public,
        "DQ_JOB_ID": str(job.id),
        "DQ_JOB_INSTANCE": str(job.instance),
        "DQ_JOB_KEY": pair.secret,
    }
    if job.spec.protection is not None:
        env |= translate.protecting(job, desk.access.server.public)[1]
    order = m.Launch(
        job=job.id,
        instance=job.instance,
        argv=list(job.spec.argv),
        cwd=job.spec.cwd,
        env=env,
        places=places,
    )
    desk.order(link, order)


def vacate(desk: Desk, job_id: int, processors: tuple[int, ...]) -> None:
    """Ask the agents to confirm that released processors are empty."""
    state = desk.state
    job = state.jobs.get(job_id)  # None: ended, and forgotten since (keep_ended)
    goes_on = job_id in state.active
    save = None
    if job is not None and job.state is JobState.RESTARTING:
        save = _copy_places(desk, job)
    for link in desk.agents.of_processors(processors, state):
        names = {n.name for n in link.nodes}
        mine = [p for p in processors if state.processors.node_of[p] in names]
        pids = [desk.leaving.get((job_id, p), 0) for p in mine]
        if goes_on and not all(pids):
            # A part of a running job whose pids are not known: they were lost with the last server,
            # or with a Committed that never arrived. An order without pids would end the whole job.
            # Nobody confirms here; the ranks left before the job's next remap point at the latest.
            desk.apply(ev.ProcessorsVacated(job_id, tuple(mine)))
            continue
        order = m.Vacate(
            job=job_id,
            instance=job.instance if job is not None else 0,
            processors=mine,
            pids=pids if goes_on else [],
            save=save,
        )
        desk.order(link, order)


def _save_elsewhere(desk: Desk, action: act.VacateProcessors) -> None:
    """Nodes that an interrupted job had left before may still hold copies of its data."""
    job = desk.state.jobs.get(action.job)
    if job is None or job.state is not JobState.RESTARTING:
        return
    asked = desk.agents.of_processors(action.processors, desk.state)
    for link in desk.agents.by_name.values():
        if link not in asked:
            desk.order(link, m.SaveCopies(job.id, action.instance, _copy_places(desk, job)))


def _forget_copies(desk: Desk, job_id: int) -> None:
    job = desk.state.jobs.get(job_id)
    if job is not None and job.spec.protection is not None:
        for link in desk.agents.by_name.values():
            desk.order(link, m.ForgetCopies(job.id, _copy_places(desk, job)))


def forget_copies_on(desk: Desk, link: AgentLink) -> None:
    """An agent that was away when jobs ended still holds their copies in memory."""
    state = desk.state
    for job_id in islice(reversed(state.ended), COPIES_FORGOTTEN_MAX):
        job = state.jobs[job_id]
        if job.spec.protection is not None and job.spec.protection.how == "partner":
            desk.order(link, m.ForgetCopies(job.id, _copy_places(desk, job)))


def _copy_places(desk: Desk, job: Job) -> m.CopyPlaces:
    return translate.protecting(job, desk.access.server.public)[0]
