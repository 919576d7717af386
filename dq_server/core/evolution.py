"""Place applications whose needs are known in advance: Klein & Pérez, Euro-Par 2011, RR-7205.

`FIT_RULES` are the six ways to place one, `base_fit` and `compact` do it, `place` is the door. The
profiles are in model/profile.py; queues of applications, planned outside a cluster, in
dq_server/sim/evolution.py.

Base fit (Algorithm 2) is the earliest completion of one profile. Find starts s_1 <= ... <= s_N such
that each step i finds its nodes free during its own duration, keeps them (free) until s_{i+1}, and
lasts at most `limit` times its duration. The step-wise minimum of two solutions is a solution too,
so one least solution exists, and raising lower bounds in *any* order ends in it. It is what the
paper's recursion returns, with these corrections to its text:

* prepend the expanded step `if i > 1`, not `if i > 0`: the first step is delayed, not expanded;
* a failed call returns the earliest allowed start of the *previous* step, which is a bound that
  stays true: it is kept here, while the recursion forgets it and searches again;
* `loc` clipped to the window moves second by second: jump to the end of the segment in the way.

Bounds have the form "end of a segment, plus or minus durations along the profile": at most
N x segments values for each of N steps, so the search is polynomial on any input.

Compacting (4.2) is the least waste that keeps the completion found. The last step stays where base
fit put it and never expands; from right to left every other step then starts as late as it can. As
before it is the *earlier* of two steps that holds its nodes through a gap: step i occupies
[s_i, s_{i+1}) entirely and lasts at most `limit` times its duration. Where it cannot, s_{i+1} moves
left and step i + 1 expands. The conditions are closed under the step-wise maximum, so one greatest
solution exists, and lowering upper bounds in any order ends in it. It has the latest start for that
completion. Kept bounds make the search polynomial; the paper's recursion forgets them and can take
exponential time here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from operator import sub

from dq_server.core.model.errors import ConfigError
from dq_server.core.model.profile import (
    EvolutionProfile,
    InfeasibleProfileError,
    ProfileError,
    ScheduledProfile,
    Step,
)
from dq_server.core.model.stepfunction import StepFunction


class UnknownFitError(ConfigError):
    """No rule has this name."""


@dataclass(frozen=True, slots=True)
class FitRule:
    """How a requested profile may be changed so that it fits.

    `expand_limit` (a whole number or infinity) says how many times its duration a step may last
    while the application waits for more nodes: 1 never expands, infinity sets no limit.
    `compacting` then pulls the start as late as the completion found allows. `rigid` first flattens
    the profile to its peak (the CBF baseline: in order, filling holes, moving nobody).
    """

    name: str
    expand_limit: float = 1
    compacting: bool = False
    rigid: bool = False

    def __post_init__(self) -> None:
        whole = isinstance(self.expand_limit, int) and self.expand_limit >= 1
        if not (whole or self.expand_limit == inf):
            raise ConfigError(
                f"{self.name}: expand limit {self.expand_limit} is neither whole nor infinite"
            )


FIT_RULES = {
    rule.name: rule
    for rule in (
        FitRule("rigid", rigid=True),
        FitRule("noX"),
        FitRule("2X", expand_limit=2),
        FitRule("2X+c", expand_limit=2, compacting=True),
        FitRule("infX", expand_limit=inf),
        FitRule("infX+c", expand_limit=inf, compacting=True),
    )
}


def fit_rule(name: str) -> FitRule:
    """The rule called `name`; UnknownFitError lists the names there are."""
    try:
        return FIT_RULES[name]
    except KeyError:
        raise UnknownFitError(f"unknown fit {name!r}: choose from {' '.join(FIT_RULES)}") from None


def place(
    requested: EvolutionProfile,
    resource: StepFunction,
    n_nodes: int,
    rule: FitRule,
    after_s: float = 0,
) -> ScheduledProfile:
    """Where `requested` runs beside what `resource` has taken, from `after_s` on; books nothing.

    All times, those in `resource` too, are whole seconds. The answer is the requested profile
    delayed and, within the rule's limit, expanded (C1), and the sum stays within n_nodes (C2).
    Raises InfeasibleProfileError if there is no such place.
    """
    requested.check_fits(n_nodes)
    if not isinstance(after_s, int):
        raise ProfileError(f"time {after_s} is not in whole seconds")
    steps = requested.rigid_steps if rule.rigid else requested.steps
    starts = base_fit(steps, resource, n_nodes, rule.expand_limit, after_s)
    end = starts[-1] + steps[-1][0]
    # A profile that was only delayed starts as late as its completion allows already.
    if rule.compacting and end - starts[0] > requested.duration_s:
        starts = compact(steps, starts, resource, n_nodes, rule.expand_limit)
    durations = map(sub, [*starts[1:], end], starts)
    return ScheduledProfile(
        starts[0], tuple(zip(durations, (nodes for _, nodes in steps), strict=True))
    )


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
