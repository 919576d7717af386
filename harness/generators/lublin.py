"""Rigid workloads after Lublin & Feitelson's model of supercomputer workloads.

Source: Lublin & Feitelson, The workload on parallel supercomputers, JPDC 63(11), 2003. Sizes:
a share of serial jobs, else log2 of the size is two-stage uniform, and most are powers of two. Run
times: the logarithm is hyper-gamma, larger jobs lean to the longer branch. Arrivals: gamma in the
logarithm with a cycle over the day. Like it, not equal to it: the daily cycle is a cosine, and the
gaps between submissions are scaled so that the offered load is what is asked for.

The model has no estimates. Users' estimates are drawn: the run time times a factor, rounded up to
values that users like (Tsafrir et al., Modeling user runtime estimates, 2005).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dq_server.sim.workload import RigidWorkload

SERIAL, POWER_OF_TWO, SECOND_STAGE = 0.244, 0.576, 0.86
LOG2_LEAST, LOG2_MIDDLE_BELOW_MOST = 0.8, 2.5
SHORT_GAMMA, LONG_GAMMA = (4.2, 0.94), (312.0, 0.03)  # (shape, scale) of ln(run time s)
LONG_BY_SIZE, LONG_AT_0 = -0.0054, 0.78
GAP_GAMMA = (10.23, 0.4871)  # of ln(gap s)
LONGEST_S = 5 * 86_400.0
LIKED_S = np.array([300, 900, 1800, 3600, 7200, 14_400, 28_800, 43_200, 64_800, 86_400, 172_800,
                    432_000])  # fmt: skip

Floats = NDArray[np.float64]


def lublin(
    jobs: int, nodes: int, *, load: float = 0.7, seed: int = 0, exact_estimates: bool = False
) -> RigidWorkload:
    """`jobs` rigid jobs for `nodes` nodes that offer `load` of what the machine can do."""
    random = np.random.default_rng(seed)
    size = _sizes(random, jobs, nodes)
    run_s = _run_times(random, size)
    submit_s = arrivals(random, float((size * run_s).sum()) / (nodes * load), jobs)
    estimate_s = run_s if exact_estimates else estimates(random, run_s)
    return RigidWorkload(
        f"lublin-{jobs}-{nodes}-{seed}",
        submit_s.tolist(),
        run_s.tolist(),
        size.tolist(),
        estimate_s.tolist(),
    )


def _sizes(random: np.random.Generator, jobs: int, nodes: int) -> NDArray[np.int64]:
    most = np.log2(nodes)
    middle = max(LOG2_LEAST, most - LOG2_MIDDLE_BELOW_MOST)
    first = random.uniform(LOG2_LEAST, middle, jobs)
    second = random.uniform(middle, max(middle, most), jobs)
    log2 = np.where(random.random(jobs) < SECOND_STAGE, first, second)
    log2 = np.where(random.random(jobs) < POWER_OF_TWO, np.round(log2), log2)
    size = np.clip(np.round(2.0**log2), 1, nodes).astype(np.int64)
    size[random.random(jobs) < SERIAL] = 1
    return size


def _run_times(random: np.random.Generator, size: NDArray[np.int64]) -> Floats:
    chance_short = np.clip(LONG_BY_SIZE * size + LONG_AT_0, 0.05, 0.95)
    short = random.gamma(*SHORT_GAMMA, len(size))
    long = random.gamma(*LONG_GAMMA, len(size))
    log = np.where(random.random(len(size)) < chance_short, short, long)
    run_s: Floats = np.clip(np.round(np.exp(log)), 1, LONGEST_S)
    return run_s


def arrivals(random: np.random.Generator, span_s: float, jobs: int) -> Floats:
    """Submission times, whole seconds from 0 over about `span_s`: bursts, and more by day."""
    gaps = np.exp(random.gamma(*GAP_GAMMA, jobs))
    gaps = np.minimum(gaps, 50 * np.median(gaps))  # one gap must not be half of the workload
    at = gaps.cumsum()
    at *= span_s / at[-1]
    day = 2 * np.pi / 86_400.0
    # Time runs slower at night: the inverse of a cumulative intensity 1 - 0.6 cos(day t).
    grid = np.linspace(0, span_s, max(1000, int(span_s / 900)))
    intensity = grid - 0.6 * np.sin(day * grid) / day
    submit_s: Floats = np.floor(np.interp(at, intensity * (span_s / intensity[-1]), grid))
    return submit_s


def estimates(random: np.random.Generator, run_s: Floats) -> Floats:
    """Users' estimates: never below the run time, mostly far above, at liked values."""
    wished = run_s * random.uniform(1, 5, len(run_s))
    at = np.searchsorted(LIKED_S, wished)
    liked: Floats = np.where(at < len(LIKED_S), LIKED_S[np.minimum(at, len(LIKED_S) - 1)], wished)
    return np.maximum(liked, run_s)
