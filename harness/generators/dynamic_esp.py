"""The dynamic ESP benchmark: 161 rigid and 69 evolving jobs (Prabhakaran et al. 2014, IV-B).

Table I gives sizes as fractions. They are fractions of 128, rounded up, although the cluster has
15 nodes of 8 cores: DET = SET n / (n + 4) holds only for F = 8, G = 16, H = 21, I = 4 and J = 8.
Jobs larger than the cluster (Z) take all of it.

What the paper leaves open is a field of `EspOptions`; the defaults are what we chose, before
looking at any result:

* order: one random order of the 228 jobs per seed (the paper's "particular order" is unpublished);
* walltimes: `walltime_factor` times SET, the users' estimates being exact by default. A job that is
  granted processors ends before its walltime, which stays as it was (III-D);
* a grant: `rest_only = False`, the whole run takes DET as Table I says; True: only the part that is
  left when it is granted gets faster;
* the Z jobs: both are submitted 30 minutes after the last other job; or `z_gap_s` apart;
* packing: `spread = False`, processors are taken in order, which fills nodes; True: nodes in turn.
  Matters only if the 4 extra cores must be on one node (DfsConfig.one_node, off by default).

`DfsConfig` holds the rest: decay, and whether delays to jobs that could start at once count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from math import ceil

import numpy as np

from dq_server.core.model.jobs import JobKind, JobSpec
from dq_server.core.model.processors import Processors
from dq_server.sim.applications import Rigid
from dq_server.sim.evolving import Evolving
from dq_server.sim.workload import ListedJob, ListedWorkload, configuration

CORES = 120
CORES_PER_NODE = 8
FRACTIONS_OF = 128
MORE = 4
ASK_AT = (0.16, 0.25)  # of SET
AT_ONCE = 50
EVERY_S = 30.0
Z_AFTER_S = 1800.0
Z_PRIORITY = 1  # to be set as SchedulerConfig.drain_priority: nothing else starts while a Z waits


@dataclass(frozen=True, slots=True)
class JobType:
    """A line of Table I; evolving if it has a DET."""

    name: str
    user: str
    fraction: float
    count: int
    set_s: float
    det_s: float | None = None

    @property
    def size(self) -> int:
        """Cores."""
        return min(ceil(self.fraction * FRACTIONS_OF), CORES)


TABLE_I = (
    JobType("A", "user01", 0.03125, 75, 267),
    JobType("B", "user02", 0.06250, 9, 322),
    JobType("C", "user03", 0.50000, 3, 534),
    JobType("D", "user04", 0.25000, 3, 616),
    JobType("E", "user05", 0.50000, 3, 315),
    JobType("F", "user06", 0.06250, 9, 1846, 1230),
    JobType("G", "user06", 0.12500, 6, 1334, 1067),
    JobType("H", "user06", 0.15820, 6, 1067, 896),
    JobType("I", "user06", 0.03125, 24, 1432, 716),
    JobType("J", "user06", 0.06250, 24, 725, 483),
    JobType("K", "user07", 0.09570, 15, 487),
    JobType("L", "user08", 0.12500, 36, 366),
    JobType("M", "user09", 0.25000, 15, 187),
    JobType("Z", "user10", 1.00000, 2, 100),
)


@dataclass(frozen=True, slots=True)
class EspOptions:
    """See the module's docstring. `timeout_s`: how long a request may wait; the paper's cannot."""

    walltime_factor: float = 1.0
    rest_only: bool = False
    z_gap_s: float = 0.0
    spread: bool = False
    timeout_s: float = 0.0


def dynamic_esp(seed: int, options: EspOptions | None = None) -> ListedWorkload:
    """The 230 jobs in an order drawn with `seed`."""
    options = options or EspOptions()
    types = [kind for kind in TABLE_I if kind.name != "Z" for _ in range(kind.count)]
    order = np.random.default_rng(seed).permutation(len(types))
    jobs = []
    for place, which in enumerate(order.tolist()):
        submit_s = EVERY_S * max(0, place - AT_ONCE + 1)
        jobs.append(_job(types[which], submit_s, place + 1, options))
    z, last_s = TABLE_I[-1], jobs[-1].submit_s
    for k in range(z.count):
        submit_s = last_s + Z_AFTER_S + k * options.z_gap_s
        jobs.append(_job(z, submit_s, len(jobs) + 1, options))
    return ListedWorkload(f"dynamic-esp-{seed}", jobs)


def _job(kind: JobType, submit_s: float, number: int, options: EspOptions) -> ListedJob:
    shape = configuration(kind.size)
    spec = JobSpec(
        name=kind.name,
        kind=JobKind.RIGID if kind.det_s is None else JobKind.EVOLVING,
        initial=shape,
        configurations=(shape,),
        estimate_s=options.walltime_factor * kind.set_s,
        user=kind.user,
        priority=Z_PRIORITY if kind.name == "Z" else 0,
    )
    if kind.det_s is None:
        make_rigid = partial(Rigid, kind.set_s)
        return ListedJob(submit_s, spec, make_rigid, number, static_run_s=kind.set_s)
    asks_s = tuple(part * kind.set_s for part in ASK_AT)
    make = partial(
        Evolving,
        kind.set_s,
        kind.det_s,
        asks_s,
        MORE,
        rest_only=options.rest_only,
        timeout_s=options.timeout_s,
    )
    return ListedJob(submit_s, spec, make, number, static_run_s=kind.set_s)


class EspNodes(Processors):
    """15 nodes of 8 cores, for the simulation, which announces one cluster of 120.

    `spread`: processors are taken from the nodes in turn instead of node after node.
    """

    __slots__ = ("_spread",)

    def __init__(self, *, spread: bool = False) -> None:
        super().__init__()
        self._spread = spread

    def join(self, name: str, count: int, speed: float, owned: Iterable[int] = ()) -> None:
        """See Processors: as many nodes as `count` cores make."""
        for k in range(count // CORES_PER_NODE):
            super().join(f"{name}{k + 1}", CORES_PER_NODE, speed, owned)

    def take(self, count: int) -> tuple[int, ...]:
        if not self._spread:
            return super().take(count)
        in_turn = sorted(self.idle, key=lambda p: (p % CORES_PER_NODE, p))
        taken = tuple(in_turn[:count])
        self.claim(taken)
        return taken
