"""Evolution profiles: sequences of (duration_s, nodes) steps (Klein & Pérez 2011, 3.1).

The paper uses one notion for three things. Here a *requested* profile is an `EvolutionProfile`, a
*scheduled* one a `ScheduledProfile` (the same steps, expanded, behind a start time), and the
*resource* profile, what the whole cluster has taken, a `StepFunction`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from dq_server.core.stepfunction import StepFunction

Step = tuple[float, int]
"""(duration_s, nodes)"""

LONGEST_S = 2**53
"""Longest step: beyond it, seconds are no longer exact in a float."""


class ProfileError(ValueError):
    """A profile that describes no application; the message names the step, counted from 1."""


class InfeasibleProfileError(ProfileError):
    """A profile that this cluster can never run, however long it waits."""


@dataclass(frozen=True, slots=True)
class EvolutionProfile:
    """What an application asks for, step by step.

    Durations are seconds, above 0 and finite; nodes are whole and at least 1: an application that
    holds no node is not running.
    """

    steps: tuple[Step, ...]
    duration_s: float = field(init=False, compare=False)
    peak_nodes: int = field(init=False, compare=False)
    node_seconds: float = field(init=False, compare=False)  # what it computes with; never waste

    def __post_init__(self) -> None:
        steps = tuple((duration_s, nodes) for duration_s, nodes in self.steps)
        if not steps:
            raise ProfileError("the profile has no step")
        for number, (duration_s, nodes) in enumerate(steps, start=1):
            if not 0 < duration_s <= LONGEST_S:  # also refuses NaN
                raise ProfileError(
                    f"step {number}: duration {duration_s} s is not between 0 and {LONGEST_S}"
                )
            if not isinstance(nodes, int) or isinstance(nodes, bool) or nodes < 1:
                raise ProfileError(f"step {number}: {nodes} nodes; at least 1 is needed")
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


@dataclass(frozen=True, slots=True)
class ScheduledProfile:
    """The nodes an application is given: `steps` back to back from `start_s` on."""

    start_s: float
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

    def take_from(self, resource: StepFunction) -> None:
        """Book these nodes in the resource profile."""
        resource.add_steps(self.start_s, self.steps)

    def give_back(self, resource: StepFunction) -> None:
        """Undo `take_from`, as far as the resource profile still reaches back."""
        for (at, nodes), (until, _) in pairwise(self.changes()):
            resource.add(max(at, resource.origin_s), until, -nodes)
