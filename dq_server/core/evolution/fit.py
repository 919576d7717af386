"""Base fit: the earliest completion of one profile (Klein & Pérez 2011, Algorithm 2).

Find starts s_1 <= ... <= s_N such that each step i finds its nodes free during its own duration,
keeps them (free) until s_{i+1}, and lasts at most `limit` times its duration. The step-wise minimum
of two solutions is a solution too, so one least solution exists, and raising lower bounds in *any*
order ends in it. It is what the paper's recursion returns, with these corrections to its text:

* prepend the expanded step `if i > 1`, not `if i > 0`: the first step is delayed, not expanded;
* a failed call returns the earliest allowed start of the *previous* step, which is a bound that
  stays true: it is kept here, while the recursion forgets it and searches again;
* `loc` clipped to the window moves second by second: jump to the end of the segment in the way.

Bounds have the form "end of a segment, plus or minus durations along the profile": at most
N x segments values for each of N steps, so the search is polynomial on any input.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from dq_server.core.model.profile import InfeasibleProfileError, Step
from dq_server.core.model.stepfunction import StepFunction


def base_fit(
    steps: Sequence[Step], resource: StepFunction, n_nodes: int, limit: float, after_s: float
) -> list[float]:
    """Start of each step in the solution that completes first, none before `after_s`.

    `resource` is what is taken already, never above n_nodes, and is left as it is. Raises
    InfeasibleProfileError when a step never finds its nodes (too many, or taken forever).
    """
    starts = _first_bounds(steps, resource, n_nodes, limit, after_s)
    window = resource.earliest_window
    last = len(steps) - 1
    i = 0
    while True:
        duration_s, nodes = steps[i]
        starts[i] = start = window(n_nodes - nodes, duration_s, starts[i])
        if start == inf:
            raise InfeasibleProfileError(f"step {i + 1}: {nodes} nodes never get free")
        if i:
            before_s, before_nodes = steps[i - 1]
            natural = starts[i - 1] + before_s
            if start > natural:
                # The previous step must hold its nodes from its own start to this one.
                bound = resource.last_excess_end(n_nodes - before_nodes, natural, start)
                shortest = start - limit * before_s
                if bound < shortest:
                    bound = shortest
                if bound > starts[i - 1]:
                    i -= 1
                    starts[i] = bound
                    continue
        if i == last:
            break
        i += 1
        natural = start + duration_s
        if starts[i] < natural:
            starts[i] = natural
    if last:
        starts[0] = starts[1] - steps[0][0]  # delayed, not expanded
    return starts


def _first_bounds(
    steps: Sequence[Step], resource: StepFunction, n_nodes: int, limit: float, after_s: float
) -> list[float]:
    """Lower bounds to begin with: the step with most nodes alone, and what follows from it.

    Any true bound would do; the hungriest step skips most of a busy profile in one scan.
    """
    starts = [after_s] * len(steps)
    most, peak, earliest, at = 0, 0, after_s, after_s
    for i, (duration_s, nodes) in enumerate(steps):
        if nodes > most:
            most, peak, earliest = nodes, i, at
        at += duration_s
    bound = resource.earliest_window(n_nodes - most, steps[peak][0], earliest)
    if bound == inf:
        raise InfeasibleProfileError(f"step {peak + 1}: {most} nodes never get free")
    starts[peak] = bound
    for i in range(peak - 1, -1, -1):
        bound -= limit * steps[i][0]
        if bound <= after_s:
            break
        starts[i] = bound
    return starts
