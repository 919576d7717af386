"""Workloads of the shape that the MEBF paper cuts out of the KIT ForHLR II log.

Source: MEBF paper, 4.1, 4.2. The log itself is not shipped (it is in the Parallel Workloads
Archive: KIT ForHLR II) and nothing here was fitted to it. What is taken from the paper: 500 nodes,
whole nodes, 1000 or 5000 jobs, run times known exactly, and an "intensive" variant whose gaps
between submissions are a quarter shorter. The rest is the usual shape of such logs: most jobs
small, few large; run times log-normal; submissions in bursts (several jobs of one kind by one
user).
"""

from __future__ import annotations

import numpy as np

from dq_server.sim.workload import RigidWorkload

NODES = 500
NORMAL, INTENSIVE = 1.0, 0.75  # the gaps between submissions, of the original ones
SIZE_RANGES = ((1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (17, 32), (33, 64), (65, 125))
SIZE_SHARES = (0.40, 0.14, 0.14, 0.12, 0.09, 0.06, 0.035, 0.015)
RUN_MEDIAN_S, RUN_SIGMA, RUN_RANGE_S = 500.0, 1.0, (20.0, 7200.0)
BURST = 4.0  # mean number of jobs submitted together


def kit_like(
    jobs: int, *, gaps: float = NORMAL, load: float = 0.9, seed: int = 0, nodes: int = NODES
) -> RigidWorkload:
    """`jobs` rigid jobs; with gaps = NORMAL they offer `load` of what `nodes` nodes can do."""
    random = np.random.default_rng(seed)
    bursts = random.geometric(1 / BURST, jobs)
    of_burst = np.repeat(np.arange(jobs), bursts)[:jobs]  # jobs of a burst are of one kind
    kind = random.choice(len(SIZE_SHARES), jobs, p=SIZE_SHARES)[of_burst]
    ranges = np.array(SIZE_RANGES)
    low, high = ranges[kind, 0], ranges[kind, 1]
    size = np.minimum(random.integers(low, high + 1), nodes)
    median_s = RUN_MEDIAN_S * np.exp(random.normal(0, 0.8 * RUN_SIGMA, jobs))[of_burst]
    run_s = median_s * np.exp(random.normal(0, 0.6 * RUN_SIGMA, jobs))
    run_s = np.clip(run_s, *RUN_RANGE_S).round()
    between = np.where(np.diff(of_burst, prepend=-1) > 0, random.exponential(1.0, jobs), 0.01)
    span_s = float((size * run_s).sum()) / (nodes * load)
    submit_s = np.floor(gaps * span_s * between.cumsum() / between.sum())
    name = f"kit-like-{jobs}-{'intensive' if gaps < NORMAL else 'normal'}-{seed}"
    return RigidWorkload(name, submit_s.tolist(), run_s.tolist(), size.tolist())
