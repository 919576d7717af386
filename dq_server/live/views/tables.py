"""The state as plain data: what queries answer and `--json` prints."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from typing import Any

import msgspec

from dq_server.core.explain import explain
from dq_server.core.features.draining import Drain, Drains, holders, state_of
from dq_server.core.features.maintenance import Windows
from dq_server.core.features.reservations import Booked, reservation_of
from dq_server.core.model.jobs import Job, JobState, Stay
from dq_server.core.model.places import Places as JobPlaces
from dq_server.core.model.places import load_of
from dq_server.core.model.placing import in_use
from dq_server.core.model.processors import Node
from dq_server.core.model.state import State
from dq_server.core.scheduler import Scheduler
from dq_server.live.agents.output_paths import output_paths
from dq_server.live.agents.usage import Usages
from dq_server.live.translate import ProcessorNames, grid
from dq_server.live.views.pool import coming_view, queues_of, reason_view, until_s

# What features say of a job, and lists leave out.
LONG = ("places", "ran_on", "profile", "scheduled")
STAYS_FOLLOWED = 200


def job_view(job: Job, state: State, usage: Usages) -> dict[str, Any]:
    """One job, times in seconds since the epoch; `processors`: held now, last held or asked for."""
    spec = job.spec
    output, error = output_paths(job)
    legal = sorted((*spec.configurations, *spec.other_grids), key=attrgetter("size"))
    return {
        **_short(job, state),
        "usage": usage.whole(job),
        "sizes": stays_view(job),
        "legal_sizes": [c.size for c in spec.configurations],
        "legal_grids": [grid(c) for c in legal],
        "argv": list(spec.argv),
        "cwd": spec.cwd,
        "output": output or None,
        "error": error or None,
        **_by_features(job, state),
    }


def listed_view(job: Job, state: State, usage: Usages) -> dict[str, Any]:
    """The same as lists have it: without what may be long."""
    by_features = {k: v for k, v in _by_features(job, state).items() if k not in LONG}
    return {**_short(job, state), "usage": usage.short(job), **by_features}


def _short(job: Job, state: State) -> dict[str, Any]:
    configuration = job.configuration or job.spec.initial
    sweet_spot = job.performance.sweet_spot
    node_of = state.processors.node_of
    return {
        "id": job.id,
        "name": job.spec.name,
        "kind": str(job.spec.kind),
        "state": str(job.state),
        "submit_s": job.submit_s,
        "start_s": job.start_s,
        "end_s": job.end_s,
        "processors": configuration.size,  # of workers 0 is a size as others are
        "grid": grid(configuration),
        "sweet_spot": sweet_spot.size if sweet_spot else None,
        "nodes": sorted({node_of[p] for p in job.allocation}),
        "user": job.spec.user,
        "walltime_s": job.spec.walltime_s,
        "remap_points": job.remap_points,
        "exit_code": job.exit_code,
        "reason": job.end_reason.text if job.end_reason else None,
    }


def _by_features(job: Job, state: State) -> dict[str, Any]:
    return dict(state.features.view(state, job))


def followed_view(job: Job, state: State, usage: Usages) -> dict[str, Any]:
    """What those who follow all jobs get of one: what lists have, and its latest stays."""
    row = listed_view(job, state, usage)
    row["sizes"] = stays_view(job)[-STAYS_FOLLOWED:]
    row["places"] = [
        {"since_s": span.since_s, "until_s": span.until_s, "nodes": span.nodes}
        for span in JobPlaces.of(job).spans[-STAYS_FOLLOWED:]
    ]
    return row


def stays_view(job: Job) -> list[dict[str, Any]]:
    """All stays of a job, each with the slots of nodes that it had."""
    places = {span.since_s: span.nodes for span in JobPlaces.of(job).spans}
    return [stay_view(stay, places.get(stay.since_s, {})) for stay in job.stays]


def stay_view(stay: Stay, nodes: Mapping[str, str]) -> dict[str, Any]:
    """One stay at one size; `nodes`: slots by node, {} if that was not recorded."""
    return {
        "processors": stay.configuration.size,
        "grid": grid(stay.configuration),
        "nodes": dict(nodes),
        "since_s": stay.since_s,
        "iterations": stay.iterations,
        "iteration_time_s": stay.iteration_time_s,
        "iteration_spread_s": list(stay.spread_s) or None,
        "redistribution_time_s": stay.redistribution_time_s,
        "decision": stay.decision,
        "reason": stay.reason.text if stay.reason else "",
    }


def jobs_view(
    state: State, usage: Usages, *, active_only: bool, after: int, at_most: int
) -> list[dict[str, Any]]:
    """Jobs behind `after`, oldest first, without their stories; `at_most` so many, 0: all."""
    found = (
        job
        for number, job in state.jobs.items()
        if number > after and (job.end_s is None or not active_only)
    )
    return [listed_view(job, state, usage) for job in islice(found, at_most or None)]


def nodes_view(
    state: State, places: ProcessorNames, *, after: str = "", at_most: int = 0
) -> list[dict[str, Any]]:
    """Nodes with what their processors do, and those that the pool has asked for; see jobs_view."""
    coming = coming_view(state)
    expected = {row["name"] for row in coming}
    there = [n for n in state.processors.nodes.values() if n.up or n.name not in expected]
    names = [*(n.name for n in there), *(row["name"] for row in coming)]
    first = names.index(after) + 1 if after in names else 0
    last = first + at_most if at_most else len(names)
    nodes = there[first:last]
    now = _Now.of(state, nodes)
    rows = [_node_view(state, places, n, now) for n in nodes]
    return rows + coming[max(0, first - len(there)) : max(0, last - len(there))]


def node_known(state: State, places: ProcessorNames, node: Node) -> dict[str, Any]:
    """Of a node what changes seldom: all but who has its processors, which jobs tell."""
    info, drain = places.node(node.name), Drains.of(state).nodes.get(node.name)
    return {
        "name": node.name,
        "state": str(state_of(state, node)),
        "processors": len(node.processors),
        "speed": node.speed,
        "memory": node.memory or None,
        "gpus": node.gpus,
        "features": list(node.features),
        "host": info.host if info else node.name,
        "drain": drain_view(drain) if drain else None,
        "until_s": until_s(state, node.name) if node.up else None,
        "queue": queues_of(state).get(node.name),
    }


def node_view(state: State, places: ProcessorNames, name: str) -> dict[str, Any]:
    """The row of one node; UnknownNode if there is none."""
    node = state.processors.node(name)
    return _node_view(state, places, node, _Now.of(state, [node]))


@dataclass(frozen=True, slots=True)
class _Now:
    """What some nodes are asked for.

    holder  job that holds a processor; `idle`: processors
    used    memory and GPUs that jobs were granted, by node
    queues  that nodes were requested from
    """

    holder: Mapping[int, int]
    idle: Set[int]
    used: Mapping[str, tuple[int, int]]
    queues: Mapping[str, str]

    @staticmethod
    def of(state: State, nodes: Iterable[Node]) -> _Now:
        there = {p for node in nodes for p in node.processors}
        holder = {
            p: job.id
            for job in state.active.values()
            # Asked of all jobs: a list of what each holds would take longer than the rest.
            if not (
                there.isdisjoint(job.allocation)
                and there.isdisjoint(job.reserved)
                and there.isdisjoint(job.spawned)
            )
            for p in job.holds()
        }
        idle = state.processors.idle  # ascending
        at = ((p, bisect_left(idle, p)) for p in there)
        found = {p for p, place in at if place < len(idle) and idle[place] == p}
        return _Now(holder, found, in_use(state), queues_of(state))


def _node_view(state: State, places: ProcessorNames, node: Node, now: _Now) -> dict[str, Any]:
    info, drain = places.node(node.name), Drains.of(state).nodes.get(node.name)
    holder, idle = now.holder, now.idle
    memory_used, gpus_used = now.used.get(node.name, (0, 0))
    jobs = sorted({holder[p] for p in node.processors if p in holder})
    if drain is not None:  # all that keep it from being empty
        jobs = sorted(job.id for job in holders(state, node))
    return {
        "name": node.name,
        "state": str(state_of(state, node)),
        "processors": len(node.processors),
        "idle": sum(p in idle for p in node.processors),
        "speed": node.speed,
        "memory": node.memory or None,
        "gpus": node.gpus,
        "features": list(node.features),
        "memory_used": memory_used,
        "gpus_used": gpus_used,
        "processors_gone": len(node.former),
        "load": load_of(state, node.name),
        "kept": sum(p in state.processors.kept for p in node.processors),
        "host": info.host if info else node.name,
        "jobs": jobs,
        "owners": [holder.get(p, 0) for p in node.processors],  # 0: nobody
        "drain": drain_view(drain) if drain else None,
        "until_s": until_s(state, node.name) if node.up else None,
        "queue": now.queues.get(node.name),
    }


def drain_view(drain: Drain) -> dict[str, Any]:
    """Why a node drains, times in seconds since the epoch; `leaves`: when it is empty."""
    return {
        "asked_s": drain.asked_s,
        "deadline_s": drain.deadline_s,
        "by": drain.by,
        "reason": drain.reason,
        "leaves": drain.leaves,
    }


def why_view(scheduler: Scheduler, job: Job, now: float, after_s: float = 0.0) -> dict[str, Any]:
    """Why the job is where it is, and its story so far: what was decided after a time."""
    return {
        "job": job.id,
        "state": str(job.state),
        "now": [reason_view(reason) for reason in explain(scheduler, job, now)],
        "story": [
            {"time_s": d.time_s, "what": d.what, **reason_view(d.reason)}
            for d in job.decisions
            if d.time_s > after_s
        ],
    }


def timeline_view(state: State, now: float) -> dict[str, Any]:
    """Sizes of all started jobs over time, for pictures and accounts.

    steps: (time, processors), of all starts, with 0 where the job waits for the next one; work:
    processors, iterations and mean time of one, by stay
    """
    lines = []
    for job in state.jobs.values():
        steps = _steps(job)
        if not steps:
            continue
        steps.append([job.end_s if job.end_s is not None else now, 0])
        line = {"id": job.id, "name": job.spec.name, "state": str(job.state), "steps": steps}
        work = [
            [s.configuration.size, s.iterations, s.iteration_time_s]
            for s in job.stays
            if s.iterations
        ]
        lines.append({**line, "work": work} if work else line)
    return {"now_s": now, "capacity": state.processors.capacity, "jobs": lines}


def _steps(job: Job) -> list[list[float]]:
    """Since when the job has had how many processors; [] if it has not started."""
    if job.configuration is None:
        return []
    stays = {s.since_s: s.configuration.size for s in job.stays}
    if job.start_s is not None and not stays:
        stays[job.start_s] = job.configuration.size  # rigid
    sizes = dict(stays)
    for span in JobPlaces.of(job).spans:
        sizes[span.since_s] = stays.get(span.since_s, job.configuration.size)
        if span.until_s is not None and span.until_s != job.end_s:
            sizes[span.until_s] = 0  # until the next one, which may begin at once
    return [[since_s, size] for since_s, size in sorted(sizes.items())]


def reservations_view(state: State) -> list[dict[str, Any]]:
    """Advance reservations by start, with the jobs that run in them or wait for them."""
    views = []
    for r in sorted(Booked.of(state).by_name.values(), key=lambda r: (r.start_s, r.name)):
        running = [job.id for job in state.active.values() if reservation_of(job) == r.name]
        waiting = [job.id for job in state.queue.values() if job.spec.reservation == r.name]
        views.append(
            {
                "name": r.name,
                "processors": r.processors,
                "start_s": r.start_s,
                "end_s": r.end_s,
                "user": r.user,
                "running": running,
                "waiting": waiting,
            }
        )
    return views


def maintenance_view(state: State) -> list[dict[str, Any]]:
    """Maintenance windows by start; `begun`: their nodes drain, or are empty."""
    windows = Windows.of(state)
    return [
        {
            "name": w.name,
            "nodes": list(w.nodes),
            "start_s": w.start_s,
            "end_s": w.end_s,
            "reason": w.reason,
            "begun": w.name in windows.drained,
        }
        for w in sorted(windows.by_name.values(), key=lambda w: (w.start_s, w.name))
    ]


def counts(state: State) -> dict[str, int]:
    """How many jobs are in which state."""
    found = {str(s): 0 for s in JobState}
    for job in state.jobs.values():
        found[str(job.state)] += 1
    return found


def archive_view(scheduler: Scheduler, job: Job, usage: Usages, now: float) -> bytes:
    """What there is to say of a job that has ended, as JSON."""
    view = job_view(job, scheduler.state, usage)
    return msgspec.json.encode({"job": view, "why": why_view(scheduler, job, now)})
