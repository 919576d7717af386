"""What agents have said of the ranks of each start that several of them look after.

A start has begun, and ended well, once all of them have said so. Not journaled: an agent that is
answered "later" says it again, to the next server if need be.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dq_server.core.model.jobs import Job
from dq_server.core.model.launching import Worlds
from dq_server.core.model.state import State
from dq_server.live.agents.registry import Agents


@dataclass(slots=True)
class Said:
    """Of one start of a job, by the names of agents."""

    instance: int
    ordered: set[str] = field(default_factory=set)  # to start ranks
    started: set[str] = field(default_factory=set)
    # All ranks there have ended well, with the newest world that the agent had started then: what
    # was on its way when the next world was ordered there says nothing of that one.
    ended: dict[str, int] = field(default_factory=dict)
    # Spawned world -> agents whose ranks of it have ended.
    worlds_ended: dict[int, set[str]] = field(default_factory=dict)


class RankReports:
    """By job; of its latest start only."""

    def __init__(self) -> None:
        self._said: dict[int, Said] = {}

    def of(self, job: Job) -> Said:
        """What was said of this start of the job."""
        said = self._said.get(job.id)
        if said is None or said.instance != job.instance:
            said = self._said[job.id] = Said(job.instance)
        return said

    def forget(self, job_id: int) -> None:
        """This start of the job is over."""
        self._said.pop(job_id, None)


def not_started(said: Said, job: Job, agents: Agents, state: State) -> str:
    """A node of the job whose agent has not said that its ranks run; empty if there is none."""
    for node in _in_order(job.allocation, state):
        link = agents.by_node.get(node)
        if link is None or link.name not in said.started:
            return node
    return ""


def not_ended(said: Said, job: Job, agents: Agents, state: State) -> str:
    """A node of the job where ranks may still run; empty if there is none."""
    worlds, node_of = Worlds.of(job).started, state.processors.node_of
    newest: dict[str, int] = {}
    for p in (*job.allocation, *job.spawned):
        node = node_of[p]
        newest[node] = max(newest.get(node, 0), worlds.get(p, 0))
    for node, world in newest.items():
        link = agents.by_node.get(node)
        if link is None or said.ended.get(link.name, -1) < world:
            return node
    return ""


def world_not_ended(world: int, said: Said, job: Job, agents: Agents, state: State) -> str:
    """A node where ranks of this spawned world may still run; empty if there is none."""
    of = Worlds.of(job).started
    ended = said.worlds_ended.get(world, set())
    for node in _in_order([p for p in job.spawned if of.get(p) == world], state):
        link = agents.by_node.get(node)
        if link is None or link.name not in ended:
            return node
    return ""


def _in_order(processors: list[int] | tuple[int, ...], state: State) -> list[str]:
    """Their nodes, each once."""
    node_of = state.processors.node_of
    return list(dict.fromkeys(node_of[p] for p in processors))
