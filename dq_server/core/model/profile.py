"""Evolution profiles: sequences of (duration_s, nodes) steps (Klein & Pérez 2011, 3.1).

The paper uses one notion for three things. Here a *requested* profile is an `EvolutionProfile`, a
*scheduled* one a `ScheduledProfile` (the same steps, expanded, behind a start time), and the
*resource* profile, what the whole cluster has taken, a `StepFunction`.

Placing an application whose needs are known in advance (Euro-Par 2011, RR-7205): `FIT_RULES` are
the six ways to do it, `base_fit` and `compact` do it, `place` is the door. Queues of applications,
planned outside a cluster, are in dq_server/sim/evolution.py.

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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from operator import index, sub

from dq_server.core.model.errors import ConfigError, InfeasibleRequest, InvalidSpec
from dq_server.core.model.stepfunction import StepFunction

Step = tuple[int | float, int]
"""(duration_s, nodes), both whole numbers (kept as they are when a schedule is stored)."""

LARGEST = 2**53
"""Largest duration: beyond it, seconds are no longer exact wherever a float meets them."""


class ProfileError(InvalidSpec):
    """A profile that describes no application; the message names the step, counted from 1."""


class InfeasibleProfileError(ProfileError, InfeasibleRequest):
    """A profile that this cluster can never run, however long it waits."""


@dataclass(frozen=True, slots=True)
class EvolutionProfile:
    """What an application asks for, step by step.

    Durations are seconds and at least 1; nodes are at least 1 too, as an application that holds no
    node is not running. Both are whole numbers: sums and differences of times stay exact, so a node
    given back at t is free for the next application at t.
    """

    steps: tuple[Step, ...]
    duration_s: float = field(init=False, compare=False)
    peak_nodes: int = field(init=False, compare=False)
    node_seconds: float = field(init=False, compare=False)  # what it computes with; never waste

    def __post_init__(self) -> None:
        steps = tuple(
            (_whole(number, "duration", duration_s), _whole(number, "node count", nodes))
            for number, (duration_s, nodes) in enumerate(self.steps, start=1)
        )
        if not steps:
            raise ProfileError("the profile has no step")
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "duration_s", sum(d for d, _ in steps))
        object.__setattr__(self, "peak_nodes", max(n for _, n in steps))
        object.__setattr__(self, "node_seconds", sum(d * n for d, n in steps))

    @property
    def rigid_steps(self) -> tuple[Step, ...]:
        """As a batch system without evolution sees it: the peak during the sum of durations."""
        return ((self.duration_s, self.peak_nodes),)

    def check_fits(self, n_nodes: int) -> None:
        """Raise InfeasibleProfileError if a step asks for more than the cluster has."""
        if self.peak_nodes <= n_nodes:
            return
        number, nodes = next((i, n) for i, (_, n) in enumerate(self.steps, 1) if n > n_nodes)
        raise InfeasibleProfileError(f"step {number}: {nodes} nodes; the cluster has {n_nodes}")


def _whole(step: int, what: str, value: object) -> int:
    """`value` as an int from 1 on (numpy's integers too)."""
    try:
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ProfileError(f"step {step}: {what} {value!r} is not a whole number") from None
    if number < 1:
        raise ProfileError(f"step {step}: {what} {number} is below 1")
    if number > LARGEST:
        raise ProfileError(f"step {step}: {what} is above {LARGEST}")
    return number


@dataclass(frozen=True, slots=True)
class ScheduledProfile:
    """The nodes an application is given: `steps` back to back from `start_s` on."""

    start_s: int | float
    steps: tuple[Step, ...]

    @property
    def end_s(self) -> float:
        return self.start_s + sum(duration_s for duration_s, _ in self.steps)

    @property
    def node_seconds(self) -> float:
        """The area allocated, computing or waiting for the next step."""
        return sum(duration_s * nodes for duration_s, nodes in self.steps)

    def changes(self) -> Iterator[tuple[float, int]]:
        """(time, nodes held from then on) at each change-point, the end (0 nodes) included."""
        at = self.start_s
        for duration_s, nodes in self.steps:
            yield at, nodes
            at += duration_s
        yield at, 0

    def begin_of(self, step: int) -> float:
        """When this step begins, counted from 0; of the one after the last: when the last ends."""
        return self.start_s + sum(duration_s for duration_s, _ in self.steps[:step])

    def step_at(self, t: float) -> int:
        """The step that runs at time t, counted from 0: the first before, past the end one more."""
        end_s = self.start_s
        for step, (duration_s, _) in enumerate(self.steps):
            end_s += duration_s
            if t < end_s:
                return step
        return len(self.steps)

    def nodes_at(self, t: float) -> int:
        """The nodes of that step; past the end 0."""
        step = self.step_at(t)
        return self.steps[step][1] if step < len(self.steps) else 0

    def put_off(self, step: int, by_s: int) -> ScheduledProfile:
        """The step before `step` lasts longer, and all from `step` on come later by as much."""
        if not step or by_s <= 0:
            return self
        duration_s, nodes = self.steps[step - 1]
        longer = (duration_s + by_s, nodes)
        return ScheduledProfile(self.start_s, (*self.steps[: step - 1], longer, *self.steps[step:]))

    def take_from(self, resource: StepFunction) -> None:
        """Book these nodes, as far as the resource profile still reaches back."""
        self._add(resource, 1)

    def give_back(self, resource: StepFunction) -> None:
        """Undo `take_from`."""
        self._add(resource, -1)

    def _add(self, resource: StepFunction, sign: int) -> None:
        for (at, nodes), (until, _) in pairwise(self.changes()):
            resource.add(max(at, resource.origin_s), until, sign * nodes)


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
