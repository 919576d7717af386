"""Orders to agents: what the scheduler's actions bring about outside of it.

Orders follow from the state, so one that is lost is given again when a heartbeat shows that it did
not arrive (reconciliation.py).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import assert_never

from dq_client.base import keys
from dq_client.base import messages as m
from dq_server.core.features.arrays import environment_of
from dq_server.core.features.draining import Drains, NodeState, state_of
from dq_server.core.features.lifecycle import Attached
from dq_server.core.features.nodes import walltime_end
from dq_server.core.features.spawning import world_to_start
from dq_server.core.model import actions as act
from dq_server.core.model import events as ev
from dq_server.core.model.jobs import ACTIVE, ENDED, Job, JobState, Remap
from dq_server.core.model.launching import Launching, Worlds
from dq_server.core.model.state import State
from dq_server.core.model.watch import WatchOptions
from dq_server.core.transaction import Succession
from dq_server.live import translate
from dq_server.live.agents.output_paths import output_paths
from dq_server.live.agents.registry import AgentLink
from dq_server.live.configuration import launching_words
from dq_server.live.context import Desk
from dq_server.live.orders.welcome import welcome_variable

log = logging.getLogger("dq.server")

NOT_STARTED = 127  # exit code, as a shell says of a program that cannot be run


def carry_out(desk: Desk, action: act.Action) -> None:
    """Let an action of the scheduler have its effect outside of it."""
    match action:
        case act.StartJob():
            job = desk.scheduler.state.job(action.job)
            desk.job_nodes.add(job)
            if job.spec.workers is not None:
                start_workers(desk, job, action.processors)
            elif job.launching.by_agents:
                start_ranks(desk, job)
            else:
                launch(desk, job)
        case act.KillJob():
            for link in desk.agents.of_processors(action.processors, desk.state):
                desk.order(link, m.KillTree(action.job, action.instance))
        case act.VacateProcessors():
            vacate(desk, action.job, action.processors)
            _save_elsewhere(desk, action)
        case act.NodeEmptied():
            owner = desk.agents.by_node.get(action.node)
            if owner is not None:  # else it is told when it reports
                let_go(desk, owner)
        case act.JobFinished():
            log.info("job %d %s: %s", action.job, action.state, action.reason.text)
            desk.archive(action.job)
            desk.access.dismiss_job(action.job)
            desk.rank_reports.forget(action.job)
            desk.silent.end(action.job)
            _forget_copies(desk, action.job)
        case act.JobRestarts():
            log.warning("job %d: %s", action.job, action.reason.text)
            desk.access.dismiss_job(action.job)
            desk.rank_reports.forget(action.job)
            desk.silent.end(action.job)
        case act.WarnJob():
            log.warning("job %d: %s", action.job, action.reason.text)
        case act.CallRemap():
            pass  # a remap point comes after every iteration; a job that rests is rung
        case act.AnswerRemap():
            # The handler answers. The new ranks come up while the application goes on.
            job = desk.scheduler.state.job(action.job)
            if job.resize is not None and job.resize.resize_id == action.answer.resize_id:
                grow(desk, job)
        case act.ResizeWorkers():
            job = desk.scheduler.state.job(action.job)
            if action.what is Remap.EXPAND:  # those that leave do so by VacateProcessors
                desk.job_nodes.add(job)
                start_workers(desk, job, action.processors)
        case act.AskNodes() | act.GiveNode():
            pass  # the engine goes by the tickets, once they are safe (engines/link.py)
        case act.JobAccepted() | act.ArrayAccepted() | act.AnswerRequest() | act.AnswerSpawn():
            pass  # the handler of the request that caused it answers
        case _:
            assert_never(action)


def launch(desk: Desk, job: Job) -> None:
    """Order the agent of the job's first node to start the application by mpiexec."""
    if job.spec.needs_agents:  # submitted to a server with another launcher
        why = translate.needs_agents(job.spec)
        desk.apply(ev.JobEnded(job.id, job.instance, NOT_STARTED, why))
        return
    env = _environment(desk, job)
    places = desk.places.of(tuple(job.allocation))
    link = desk.agents.by_node.get(places[0].node)
    if link is None:
        return  # reconcile launches it when the agent reports
    order = m.Launch(
        job=job.id,
        instance=job.instance,
        argv=list(job.spec.argv),
        cwd=job.spec.cwd,
        env=env,
        places=places,
    )
    desk.order(link, order)


def start_ranks(desk: Desk, job: Job, links: Sequence[AgentLink] | None = None) -> None:
    """Order the agents of the job's nodes (or those of them in `links`) to start its ranks."""
    spec, (out, err) = job.spec, output_paths(job)
    order = m.StartRanks(
        job=job.id,
        instance=job.instance,
        world=0,
        programs=[list(argv) for _, argv in spec.parts] or [list(spec.argv)],
        program_of=[k for k, (ranks, _) in enumerate(spec.parts) for _ in range(ranks)],
        cwd=job.spec.cwd,
        env=_environment(desk, job),
        places=desk.places.of(tuple(job.allocation)),
        root=desk.state.processors.node_of[job.allocation[0]],
        input=spec.input,
        label=spec.label,
        exec_only=spec.exec_only or bool(spec.recipe),
        out=out,
        err=err,
        adopted=list(Attached.of(job).pids),
        gpus=desk.places.gpus(tuple(job.allocation), desk.state),
    )
    _to_all(desk, job.allocation, order, links)


def grow(desk: Desk, job: Job) -> None:
    """Order the ranks of the expansion that the job was just granted."""
    if job.resize is not None and job.resize.expand and job.launching.by_agents:
        desk.job_nodes.add(job)
        start_world(desk, job, job.resize.resize_id)


def start_world(desk: Desk, job: Job, world: int, links: Sequence[AgentLink] | None = None) -> None:
    """Order the ranks of a granted expansion, or those that the job has spawned.

    If a rank spawns those of an expansion (Launching.SPAWN), too, it is done when it does.
    """
    spec, spawned, pending = job.spec, world_to_start(job, world), job.resize
    out, err = output_paths(job)
    if spawned is not None:
        processors, cwd = spawned.processors, spawned.cwd or spec.cwd
        programs = [list(words) for words in spawned.programs]
        env = _environment(desk, job)
    elif job.launching is Launching.JOIN and pending is not None and pending.resize_id == world:
        processors, cwd, programs = pending.processors, spec.cwd, [list(spec.argv)]
        env = _environment(desk, job) | welcome_variable(desk, job)
    else:
        return
    order = m.StartRanks(
        job=job.id,
        instance=job.instance,
        world=world,
        programs=programs,
        program_of=[] if spawned is None else list(spawned.program_of),
        cwd=cwd,
        env=env,
        places=desk.places.of(processors),
        root=desk.state.processors.node_of[job.allocation[0]],
        label=spec.label,
        exec_only=spec.exec_only,
        out=out,
        err=err,
        spawned=spawned is not None,
        keys={} if spawned is None else spawned.keys,
        gpus=desk.places.gpus(processors, desk.state),
    )
    _to_all(desk, processors, order, links)


def start_workers(
    desk: Desk,
    job: Job,
    processors: Sequence[int],
    links: Sequence[AgentLink] | None = None,
) -> None:
    """Order a worker on each of these processors of a worker job, as far as they are its still."""
    spec, worlds, (out, err) = job.spec, Worlds.of(job).started, output_paths(job)
    # A worker is no rank: it needs no server, and has no key for one.
    env = {**environment_of(desk.state, job), **_of_array(job)}
    for p in processors:
        if p not in worlds:
            continue
        order = m.StartRanks(
            job=job.id,
            instance=job.instance,
            world=worlds[p],
            programs=[list(spec.argv)],
            program_of=[],
            cwd=spec.cwd,
            env={**env, "DQ_WORKER": str(worlds[p])},
            places=desk.places.of((p,)),
            label=spec.label,
            exec_only=True,
            spawned=True,
            worker=True,
            out=out,
            err=err,
            gpus=desk.places.gpus((p,), desk.state),
        )
        _to_all(desk, (p,), order, links)


def _to_all(
    desk: Desk,
    processors: Sequence[int],
    order: m.StartRanks,
    links: Sequence[AgentLink] | None = None,
) -> None:
    """To each agent of these processors once. One that is away gets it when it reports."""
    said = desk.rank_reports.of(desk.scheduler.state.job(order.job))
    for link in desk.agents.of_processors(processors, desk.state):
        if links is None or link in links:
            said.ordered.add(link.name)
            desk.order(link, order)


def _environment(desk: Desk, job: Job) -> dict[str, str]:
    """All variables that the ranks of this start of the job are given."""
    env = {**environment_of(desk.state, job), **told(desk, job)}
    env |= copies_environment(desk, job)
    if inherits := Succession.of(job).inherits:
        env["DQ_RESTART"] = str(inherits)
    if job.spec.recipe:
        # What the program's checkpoints are known by: no other job has it, in no other cluster.
        env["DQ_RECIPE"], env["DQ_RECIPE_ID"] = job.spec.recipe, f"{job.id} {job.spec.request_id}"
        if (end_s := walltime_end(job)) is not None:
            env["DQ_RECIPE_LEFT_S"] = f"{end_s - desk.now():.3f}"
    return env


def copies_environment(desk: Desk, job: Job) -> dict[str, str]:
    """What the ranks of a protected job, and their agents, are told of its copies."""
    return translate.protecting(job, desk.access.server) if job.spec.protection else {}


def told(desk: Desk, job: Job) -> dict[str, str]:
    """What the ranks of this start of the job have to know of DQ."""
    # Before the order leaves: the application's key must be known when it connects.
    pair = desk.access.admit_job(job.id, job.instance)
    words = launching_words(job.launching)
    watch = desk.scheduler.config.of(WatchOptions)
    return {
        "DQ_SERVER": desk.address,
        "DQ_SERVER_KEY": desk.access.server.public,
        "DQ_JOB_ID": str(job.id),
        "DQ_JOB_INSTANCE": str(job.instance),
        "DQ_JOB_KEY": pair.secret,
        # Of all starts: the next one has to know what this one has written.
        "DQ_COPY_KEY": keys.secret_of_job(desk.access.server.secret, "copies", job.id),
        "DQ_LAUNCHER_KIND": words["launcher"],
        "DQ_GROWTH": words["growth"],
        "DQ_WATCH": job.spec.watch or watch.action,
        "DQ_WATCH_S": f"{watch.limit_s:g}",
        **_of_array(job),
    }


def _of_array(job: Job) -> dict[str, str]:
    """What a job of an array is told of its place in it."""
    element = job.spec.element
    if element is None:
        return {}
    told = {"DQ_ARRAY_ID": str(element.array), "DQ_ARRAY_INDEX": str(element.index)}
    return told | ({"DQ_ARRAY_LINE": element.line} if element.line else {})


def vacate(desk: Desk, job_id: int, processors: tuple[int, ...]) -> None:
    """Ask the agents to confirm that released processors are empty."""
    state = desk.state
    job = state.jobs.get(job_id)  # None: ended, and forgotten since (keep_ended)
    goes_on = job_id in state.active
    save = None
    if job is not None and _has_copies_to_save(job):
        save = _copy_places(desk, job)
    for link in desk.agents.of_processors(processors, state):
        names = {n.name for n in link.nodes}
        mine = [p for p in processors if state.processors.node_of[p] in names]
        if job is not None and goes_on and job.launching.by_agents:
            mine = _end_worlds(desk, link, job, mine)
            if not mine:
                continue
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


def _end_worlds(desk: Desk, link: AgentLink, job: Job, processors: list[int]) -> list[int]:
    """End ranks that are no part of the running job any more. Returns the other processors."""
    ending, workers = Worlds.of(job).ending, job.spec.workers
    for world in dict.fromkeys(ending[p] for p in processors if p in ending):
        there = [p for p in processors if ending.get(p) == world]
        order = m.Vacate(
            job=job.id,
            instance=job.instance,
            processors=there,
            pids=[],
            world=world,
            stop_signal=workers.stop_signal if workers is not None else 0,
            grace_s=workers.grace_s if workers is not None else 0.0,
        )
        desk.order(link, order)
    return [p for p in processors if p not in ending]


def let_go(desk: Desk, link: AgentLink) -> None:
    """Take an agent's empty nodes that are to leave out of the cluster, and tell it so.

    Also once more, if it does not know yet. Its last node stays until it holds nothing of any job:
    it still has to be told that the ends of its ranks are known.
    """
    state = desk.state
    out = [node.name for node in link.nodes if _may_go(state, link, node.name)]
    ends = len(out) == len(link.nodes)
    if not out or (ends and link.holdings):
        return
    for name in out:
        node = state.processors.nodes.get(name)
        if node is not None and node.up:
            log.info("node %s leaves", name)
            desk.apply(ev.NodeLeft(name, link.life))
    if ends:
        _save_copies(desk, link)
        desk.agents.forget(link)
    else:
        desk.agents.drop(link, out)
    desk.order(link, m.Retire(out))


def _may_go(state: State, link: AgentLink, name: str) -> bool:
    """Whether an agent's node can leave, or has left already."""
    node, drains = state.processors.nodes.get(name), Drains.of(state)
    if node is not None and node.up:
        drain = drains.nodes.get(name)
        return drain is not None and drain.leaves and state_of(state, node) is NodeState.EMPTY
    # Others are about to join, or to join again.
    return link.leaving_s is not None or bool(link.life and drains.gone.get(name) == link.life)


def _save_copies(desk: Desk, link: AgentLink) -> None:
    """Have an agent that ends save what its nodes have in memory of running jobs' copies.

    The next copy is made without its nodes, but until then the last one is needed.
    """
    for job in desk.state.active.values():
        if job.spec.protection is not None and job.spec.protection.how == "partner":
            desk.order(link, m.SaveCopies(job.id, job.instance, _copy_places(desk, job)))


def _has_copies_to_save(job: Job) -> bool:
    return job.state is JobState.RESTARTING and job.spec.protection is not None


def _save_elsewhere(desk: Desk, action: act.VacateProcessors) -> None:
    """Nodes that an interrupted job had left before may still hold copies of its data."""
    job = desk.state.jobs.get(action.job)
    if job is None or not _has_copies_to_save(job):
        return
    asked = desk.agents.of_processors(action.processors, desk.state)
    for link in desk.agents.by_name.values():
        if link not in asked:
            desk.order(link, m.SaveCopies(job.id, action.instance, _copy_places(desk, job)))


def _forget_copies(desk: Desk, job_id: int) -> None:
    job = desk.state.jobs.get(job_id)
    if job is not None and (job.spec.protection is not None or job.launching.restarts):
        for link in desk.agents.by_name.values():
            desk.order(link, m.ForgetCopies(job.id, _copy_places(desk, job)))


def look_after_copies(desk: Desk, link: AgentLink) -> bool:
    """Have an agent save the copies of jobs that start again, and remove those of ended ones.

    Returns whether its nodes may join: what a job starts again from must be on disk before.
    """
    state, ready = desk.state, True
    for held in link.copies:
        job = state.jobs.get(held.job)
        if job is None or job.state in ENDED:
            # Of a job that this journal does not know yet nothing is removed.
            if held.job < state.next_job:
                places = m.CopyPlaces() if job is None else _copy_places(desk, job)
                desk.order(link, m.ForgetCopies(held.job, places))
        elif held.in_memory and job.state not in ACTIVE:
            ready = False
            desk.order(link, m.SaveCopies(job.id, job.instance, _copy_places(desk, job)))
    return ready


def _copy_places(desk: Desk, job: Job) -> m.CopyPlaces:
    return translate.copy_places(job, desk.access.server)
