"""On which nodes ranks of a job were started: what they have written may be there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dq_server.core.model.jobs import Job
from dq_server.core.model.records import Record
from dq_server.core.model.state import State


@dataclass(slots=True)
class RanOn(Record):
    """Of a job, all of its starts; in the order of time, the node of its first rank first."""

    key = "RanOn"

    nodes: list[str] = field(default_factory=list)


def note_nodes(state: State, job: Job, processors: Iterable[int]) -> None:
    """Ranks of the job are started there."""
    node_of = state.processors.node_of
    if not node_of:  # anonymous ones, of a simulation
        return
    known = RanOn.of(job).nodes
    known += [n for n in dict.fromkeys(node_of[p] for p in processors) if n not in known]


def ran_on(state: State, job: Job) -> list[str]:
    """Those nodes. Of a job that an earlier version started, what can still be told."""
    node_of = state.processors.node_of
    if not node_of:
        return []
    first = [node_of[job.first_processor]] if job.first_processor >= 0 else []
    return list(dict.fromkeys((*first, *RanOn.of(job).nodes, *(node_of[p] for p in job.holds()))))
