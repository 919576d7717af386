"""Compacting: the least waste that keeps the completion found (Klein & Pérez 2011, 4.2).

The last step stays where base fit put it and never expands; from right to left every other step
then starts as late as it can. As before it is the *earlier* of two steps that holds its nodes
through a gap: step i occupies [s_i, s_{i+1}) entirely and lasts at most `limit` times its duration.
Where it cannot, s_{i+1} moves left and step i + 1 expands.

The conditions are closed under the step-wise maximum, so one greatest solution exists, and lowering
upper bounds in any order ends in it. It has the latest start for that completion. Kept bounds make
the search polynomial; the paper's recursion forgets them and can take exponential time here.
"""

from __future__ import annotations

from collections.abc import Sequence

from dq_server.core.model.profile import Step
from dq_server.core.model.stepfunction import StepFunction


def compact(
    steps: Sequence[Step],
    starts: Sequence[float],
    resource: StepFunction,
    n_nodes: int,
    limit: float,
) -> list[float]:
    """Latest start of each step given `starts`, a solution of base fit; its last one is kept."""
    last = len(steps) - 1
    # Until step i is first visited, nothing bounds its start but the end of the profile.
    latest = [starts[last]] * len(steps)
    i = last - 1
    while i >= 0:
        duration_s, nodes = steps[i]
        end = latest[i + 1]
        free = n_nodes - nodes
        natural = end - duration_s
        start = resource.latest_window(free, duration_s, min(natural, latest[i]))
        latest[i] = start
        if start < natural:
            bound = min(
                start + limit * duration_s,
                resource.first_excess_start(free, start, end),
            )
            if bound < end:
                i += 1
                latest[i] = bound
                assert i < last, "base fit left a solution, so the last step stays"
                continue
        i -= 1
    return latest
