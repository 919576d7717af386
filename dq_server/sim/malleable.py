"""Make a share of a rigid workload's jobs malleable.

Source: MEBF paper, 2.2, 4.2 and table 2. Jobs drawn at random become malleable; the size in the log
is the preferred one, the smallest is half of it, the largest five times it (never more than the
machine); scalability rho and the overhead constants are drawn per job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dq_server.core.model.jobs import JobKind, JobSpec
from dq_server.core.model.scalability import Scalability
from dq_server.core.model.sizes import Configuration
from dq_server.sim.applications import Application, Iterating
from dq_server.sim.workload import Follows, RigidWorkload, configuration

SCALABILITY = {"high": (0.0, 0.1), "medium": (0.1, 0.2), "low": (0.2, 0.3)}  # ranges of rho, 4.2
SMALLEST, LARGEST = 0.5, 5  # of the preferred size, table 2
CONSTANT = (0.005, 0.05)  # range of alpha, beta and b, 4.3


@dataclass(frozen=True, slots=True)
class Malleability:
    """How malleable jobs are drawn.

    fraction    share of the jobs
    rho         range of the scalability parameter; within it a normal distribution, cut off
    overhead_s  scale of the cost of a resize: seconds per unit of the paper's equations 1 and 2
    iterations  remap points that a job passes, one more than its resizes can be
    rho_error   added to the true rho, unknown to the scheduler (the paper's last scenario)
    """

    fraction: float = 1.0
    rho: tuple[float, float] = SCALABILITY["medium"]
    overhead_s: float = 10.0
    iterations: int = 100
    rho_error: float = 0.0


class MalleableWorkload:
    """A rigid workload some of whose jobs are malleable. See Workload."""

    def __init__(self, rigid: RigidWorkload, nodes: int, how: Malleability, seed: int) -> None:
        self._rigid, self._nodes, self._how = rigid, nodes, how
        random = np.random.default_rng(seed)
        n = len(rigid)
        chosen = np.zeros(n, dtype=bool)
        chosen[random.permutation(n)[: round(how.fraction * n)]] = True
        self._chosen = bytearray(chosen.tobytes())
        low, high = how.rho
        drawn = random.normal((low + high) / 2, (high - low) / 4, n)
        self._rho = np.clip(drawn, low, high).tolist()
        self._constants = random.uniform(*CONSTANT, (n, 3)).tolist()
        self._sizes = [configuration(size) for size in range(1, nodes + 1)]

    @property
    def name(self) -> str:
        """See Workload."""
        return self._rigid.name

    @property
    def submit_s(self) -> Sequence[float]:
        """See Workload."""
        return self._rigid.submit_s

    @property
    def notes(self) -> Mapping[str, int]:
        """See Workload."""
        return self._rigid.notes

    @property
    def follows(self) -> Mapping[int, Follows]:
        """See Workload."""
        return self._rigid.follows

    @property
    def enforce_estimates(self) -> bool:
        """See RigidWorkload."""
        return self._rigid.enforce_estimates

    def __len__(self) -> int:
        """See Workload."""
        return len(self._rigid)

    def number(self, k: int) -> int:
        """See Workload."""
        return self._rigid.number(k)

    def size(self, k: int) -> int:
        """See Workload."""
        return self._rigid.size(k)

    def _model(self, k: int, error: float = 0.0) -> Scalability:
        alpha, beta, per_processor = self._constants[k]
        size, rho = self._rigid.size(k), self._rho[k] + error
        return Scalability(size, rho, alpha, beta, per_processor, self._how.overhead_s)

    def _legal(self, k: int) -> tuple[Configuration, ...]:
        size = self._rigid.size(k)
        smallest = max(1, round(SMALLEST * size))
        return tuple(self._sizes[smallest - 1 : LARGEST * size])

    def spec(self, k: int) -> JobSpec:
        """See Workload."""
        if not self._chosen[k]:
            return self._rigid.spec(k)
        return self._rigid.spec(k, JobKind.MALLEABLE, self._legal(k), self._model(k))

    def application(self, k: int) -> Application:
        """See Workload."""
        if not self._chosen[k]:
            return self._rigid.application(k)
        true = self._model(k, self._how.rho_error)
        iterations = self._how.iterations
        step_s = self._rigid.run_s[k] / iterations
        return Iterating(iterations, lambda at: step_s * true.ratio(at.size), true.overhead_s)
