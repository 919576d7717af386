"""Evolution profiles: sequences of (duration_s, nodes) steps (Klein & Pérez 2011, 3.1).

The paper uses one notion for three things. Here a *requested* profile is an `EvolutionProfile`, a
*scheduled* one a `ScheduledProfile` (the same steps, expanded, behind a start time), and the
*resource* profile, what the whole cluster has taken, a `StepFunction`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from operator import index

from dq_server.core.model.errors import InfeasibleRequest, InvalidSpec
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

    def expansion_s(self, requested: EvolutionProfile) -> float:
        """Seconds by which the steps were expanded in all; 0 for a profile only delayed."""
        return self.end_s - self.start_s - requested.duration_s

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
