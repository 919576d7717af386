"""Jobs that ask for memory, GPUs or features: where they may start, and that nobody starves them.

Policies count processors; they do not see where these are. So a waiting job that would find enough
idle ones, but too few that it can use, is *hidden* from them for a pass: it stands aside, and
others pass it. If it is the first in line, idle processors on nodes that it can use are *kept* for
it, so that those who pass cannot starve it (model/placing.py, `hide_and_keep`).

A job that does not find enough idle processors anywhere waits like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dq_server.core.feature import Feature
from dq_server.core.model.errors import InfeasibleRequest
from dq_server.core.model.jobs import Job, JobSpec, JobState, smallest_start
from dq_server.core.model.needs import Needs
from dq_server.core.model.placing import Placed, capable, check, described, room
from dq_server.core.model.pool import Pool, PoolOptions
from dq_server.core.model.processors import Node
from dq_server.core.model.reasons import Reason, because, declare
from dq_server.core.model.state import Place, PlaceOf, Promises, State
from dq_server.core.turn import Turn

declare(
    needs_room="the job needs {size} processors on nodes with {needs}: {room} of the {idle} idle"
    " ones are there{kept}",
    needs_lost="the job needs {size} processors on nodes with {needs}: those that are up have room"
    " for {most}",
    needs_pool="the job needs {size} processors on nodes with {needs}: those that are up have room"
    " for {most}. Nodes of the pool are as {node} was, which can hold none of it, so no more are"
    " requested",
)


class _Hidden(Promises):
    claimant = "a job that waits for certain nodes"


HIDDEN = _Hidden()


class Placing(Feature):
    def admit(self, turn: Turn, spec: JobSpec, count: int, *, running: bool) -> None:
        """Refuse a job that no nodes could ever hold."""
        needs = spec.needs
        # What the nodes of a pool have is known when they join.
        if needs is None or turn.config.of(PoolOptions).max:
            return
        nodes = [node for node in turn.state.processors.nodes.values() if node.up]
        most = sum(capable(node, needs) for node in nodes)
        if spec.needed > most:
            raise InfeasibleRequest(_refusal(spec.needed, needs, most, nodes))

    def queued(self, turn: Turn, job: Job) -> None:
        if job.spec.needs is not None:
            Placed.of(turn.state).waiting[job.id] = True

    def withdrawn(self, turn: Turn, job: Job) -> None:
        if job.spec.needs is not None:
            _forget(turn.state, job)

    def started(self, turn: Turn, job: Job) -> None:
        if job.spec.needs is not None:
            _forget(turn.state, job)

    def line(self, state: State) -> PlaceOf | None:
        """Jobs that are hidden stand aside."""
        placed = Placed.known(state)
        if placed is None or not placed.hidden:
            return None
        hidden = placed.hidden
        return lambda job: Place.ASIDE if job.id in hidden else Place.IN_ORDER

    def promises(self, state: State) -> Promises | None:
        """What a policy remembers between passes does not know who is hidden."""
        placed = Placed.known(state)
        return HIDDEN if placed is not None and placed.hidden else None

    def explain(self, turn: Turn, job: Job) -> list[Reason]:
        """Why a hidden job waits."""
        state, needs = turn.state, job.spec.needs
        if needs is None or job.state is not JobState.QUEUED:
            return []
        size = smallest_start(job, moldable=False)
        nodes = [node for node in state.processors.nodes.values() if node.up]
        most = sum(capable(node, needs) for node in nodes)
        last = (
            state.processors.nodes.get(Pool.of(state).last)
            if Pool.known(state) is not None
            else None
        )
        if size > most and last is not None and not capable(last, needs):
            words = needs.words
            return [because("needs_pool", size=size, needs=words, most=most, node=last.name)]
        if size > most:
            return [because("needs_lost", size=size, needs=needs.words, most=most)]
        placed = Placed.of(state)
        if job.id not in placed.hidden:
            return []
        kept = ""
        if placed.kept_for == job.id:
            kept = f"; {len(state.processors.kept)} are kept for it on {', '.join(placed.kept_on)}"
        idle = state.idle + len(state.processors.kept)
        here = room(state, job) + (len(state.processors.kept) if kept else 0)
        return [
            because("needs_room", size=size, needs=needs.words, room=here, idle=idle, kept=kept)
        ]

    def view(self, state: State, job: Job) -> Mapping[str, Any]:
        needs = job.spec.needs or Needs()
        return {"memory": needs.memory, "gpus": needs.gpus, "constraint": needs.constraint}

    def check(self, state: State) -> None:
        if Placed.known(state) is not None:
            check(state)
            queued = {j.id for j in state.queue.values() if j.spec.needs is not None}
            assert queued == Placed.of(state).waiting.keys(), "`waiting` disagrees with the queue"


def _forget(state: State, job: Job) -> None:
    placed = Placed.of(state)
    placed.waiting.pop(job.id, None)
    if job.id in placed.hidden:
        placed.hidden.remove(job.id)
    if placed.kept_for == job.id:
        placed.kept_for, placed.kept_on = 0, {}
        state.processors.unkeep()


def _refusal(size: int, needs: Needs, most: int, nodes: list[Node]) -> str:
    """Why no nodes can hold the job, in one line, with the largest of them."""
    if not nodes:
        return "no node is up"
    largest = max(
        nodes, key=lambda n: (capable(n, needs), n.memory, n.gpus, len(n.processors), n.name)
    )
    return (
        f"the job asks for {size} processor{'s' if size > 1 else ''} on nodes with {needs.words}:"
        f" there is room for {most}; the largest node is {described(largest)}"
    )
