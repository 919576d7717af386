"""The first start on a journal that was mended, or restored from a backup.

Agents may have processes of what happened in events that the journal has lost: jobs and starts that
are unknown now, which reconciliation ends, and ranks of expansions that are unknown. Nothing is
granted before each node that the journal says is up has reported and is clear of them; a node that
comes later joins when it is.
"""

from __future__ import annotations

from dq_client.base import messages as m
from dq_server.core.features.spawning import Spawns
from dq_server.core.model import events as ev
from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.launching import Worlds
from dq_server.live.agents.registry import AgentLink
from dq_server.live.context import Desk

GREW = "the server: it was resized in events that the journal has lost"


def cleared(desk: Desk) -> bool:
    """Whether all that the agents hold is known; a job that is not as it should be is killed."""
    clear = True
    for link in list(desk.agents.by_name.values()):
        for holding in link.holdings:
            job = desk.state.active.get(holding.job)
            if not holding.running:
                continue
            if job is None or job.instance != holding.instance:
                clear = False
            elif _strayed(desk, link, job, holding):
                clear = False
                if job.state is not JobState.KILLING:
                    desk.apply(ev.KillRequested(job.id, GREW))
        clear &= link.heard
    if not clear:
        return False
    if unknown := tuple(job.id for job in desk.state.active.values() if _start_is_over(desk, job)):
        desk.apply(ev.EventsLost(unknown=unknown))
    return not unknown  # what others have of these starts has to end first


def _start_is_over(desk: Desk, job: Job) -> bool:
    """Whether it starts as far as is known, and an agent that should has no processes of that.

    Meanwhile it was not ordered again (reconciliation.py): it may have ended long ago.
    """
    first = job.holds() if job.launching.by_agents else (job.first_processor,)
    links = desk.agents.of_processors(first, desk.state)
    known = [any((h.job, h.instance) == (job.id, job.instance) for h in k.holdings) for k in links]
    return job.state is JobState.STARTING and not all(known)


def _strayed(desk: Desk, link: AgentLink, job: Job, holding: m.Holding) -> bool:
    """Whether the agent has ranks of the job of which the state knows nothing."""
    node_of = desk.state.processors.node_of
    worlds, vacating = Worlds.of(job), desk.state.processors.vacating
    known = {*worlds.started.values(), *worlds.ending.values(), *Spawns.of(job).worlds}
    if job.resize is not None:
        known.add(job.resize.resize_id)
    places = {*job.holds(), *worlds.ending, *(p for p, of in vacating.items() if of == job.id)}
    here = {node.name for node in link.nodes}
    has_place = any(node_of[p] in here for p in places)
    return not has_place or not known.issuperset(holding.worlds)
