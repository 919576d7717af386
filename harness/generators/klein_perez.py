"""Evolving applications drawn as in Klein & Pérez 2011, 5.1.

Whole numbers, uniform, both ends included. The papers leave the cluster's size out: 100 nodes gives
their tables back (`N_NODES`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dq_server.core.model.profile import EvolutionProfile

N_NODES = 100


@dataclass(frozen=True, slots=True)
class KleinPerezRanges:
    """(least, most) of each draw; the paper's figures."""

    applications: tuple[int, int] = (15, 20)
    steps: tuple[int, int] = (1, 10)
    duration_s: tuple[int, int] = (500, 3600)
    nodes: tuple[int, int] = (1, 75)


PAPER_RANGES = KleinPerezRanges()


def draw_test(
    rng: np.random.Generator, ranges: KleinPerezRanges = PAPER_RANGES
) -> list[EvolutionProfile]:
    """The applications of one test, in the order they queue."""
    count = int(rng.integers(*ranges.applications, endpoint=True))
    lengths = rng.integers(*ranges.steps, size=count, endpoint=True)
    profiles = []
    for length in lengths:
        durations = rng.integers(*ranges.duration_s, size=length, endpoint=True)
        nodes = rng.integers(*ranges.nodes, size=length, endpoint=True)
        steps = zip(durations.tolist(), nodes.tolist(), strict=True)
        profiles.append(EvolutionProfile(tuple(steps)))
    return profiles


def draw_tests(
    seed: int, count: int, ranges: KleinPerezRanges = PAPER_RANGES
) -> list[list[EvolutionProfile]]:
    """`count` tests; test k is the same however many are drawn."""
    return [draw_test(np.random.default_rng([seed, k]), ranges) for k in range(count)]
