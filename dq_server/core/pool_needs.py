"""What a job that asks for memory, GPUs or features wants of a pool.

All nodes of a pool are of one shape, and what one of them has beside processors is known when the
first has joined. From then on

* a job takes up as many processors of such nodes as it needs to find its memory and GPUs there,
  though some of them stay idle beside it;
* one that stands aside because what is idle is of no use to it (features/placement.py) wants new
  nodes for the ranks that find no room;
* one of which such a node holds no rank is asked for once, because nodes may have become others
  since, and holds up nobody after that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from dq_server.core.model.ends import Ends
from dq_server.core.model.jobs import Job
from dq_server.core.model.placing import Placed, capable, room
from dq_server.core.model.pool import AskedFor, Pool
from dq_server.core.model.state import State


@dataclass(frozen=True, slots=True)
class Wanted:
    """Processors for a waiting job.

    processors  that it takes up in all
    lacking     those of them that have to be on new nodes, whatever is idle
    """

    processors: int
    lacking: int = 0


def wanted_for(state: State, job: Job) -> Wanted | None:
    """None: nothing, no node of the pool can hold it."""
    needs, size = job.spec.needs, job.needed
    if needs is None:
        return Wanted(size)
    last, each = state.processors.nodes.get(Pool.of(state).last), 1.0
    if last is not None:
        ranks = capable(last, needs)
        if not ranks:
            return None if AskedFor.of(job).hoped else Wanted(size, size)
        each = len(last.processors) / ranks
    lacking = size - room(state, job) if job.id in hidden(state) else 0
    return Wanted(ceil(size * each), ceil(max(0, lacking) * each))


def hidden(state: State) -> list[int]:
    """Waiting jobs that find enough idle processors, but not where they can use them."""
    return Placed.of(state).hidden if Placed.known(state) is not None else []


def with_hidden(state: State, line: Iterable[Job], now: float) -> Iterable[Job]:
    """The queue with those jobs, which policies do not see, in their places."""
    seen = {*hidden(state)}
    if "Ends" in state.records:
        seen -= set(Ends.of(state).aside)  # pool_renewal.py asks for these
    if not seen:
        return line
    seen |= {job.id for job in line}
    return [job for job in state.ordered(state, now) if job.id in seen]
