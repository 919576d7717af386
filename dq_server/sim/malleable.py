"""Make a share of a rigid workload's jobs malleable.

Source: MEBF paper, 2.2, 4.2 and table 2. Jobs drawn at random become malleable. By default the size
in the log is the preferred one, the smallest is half of it, the largest five times it (never more
than the machine), and the scalability rho and the overhead constants are drawn per job. Other
models of speed-up are in speedup.py; sizes may also follow from thresholds of efficiency.

The work of a job is that of the log: a job whose preferred size is another one than in the log runs
there as long as its model says, and its estimate changes in proportion.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import JobKind, JobSpec
from dq_server.core.model.sizes import Configuration, Scalability
from dq_server.sim.applications import Application, Iterating
from dq_server.sim.errors import WorkloadError
from dq_server.sim.speedup import MODELS, ModelledScalability, Speedup, largest_with, nearest_rho
from dq_server.sim.workload import MOST_SIZES, RigidWorkload, configuration

SCALABILITY = {"high": (0.0, 0.1), "medium": (0.1, 0.2), "low": (0.2, 0.3)}  # ranges of rho, 4.2
CONSTANT = (0.005, 0.05)  # range of alpha, beta and b, 4.3
Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Malleability:
    """How malleable jobs are drawn. A range: a normal distribution within it, cut off.

    fraction    share of the jobs
    rho         range of the scalability parameter of the model "power"
    overhead_s  scale of the cost of a resize: seconds per unit of the paper's equations 1 and 2
    iterations  remap points that a job passes, one more than its resizes can be
    rho_error   added to the true rho, unknown to the scheduler (the paper's last scenario)
    model       of speed-up, with the ranges of its parameters: serial, parallelism, sigma, loss
    smallest, preferred, largest  sizes as factors of that in the log
    efficiency  instead of the factors: the smallest, preferred and largest size are the largest
                ones with at least these efficiencies, of which the first is the highest
    chain       legal sizes: "any" between the smallest and the largest, or "powers" of two
    """

    fraction: float = 1.0
    rho: Range = SCALABILITY["medium"]
    overhead_s: float = 10.0
    iterations: int = 100
    rho_error: float = 0.0
    model: str = "power"
    serial: Range = MODELS["amdahl"].ranges["serial"]
    parallelism: Range = MODELS["downey"].ranges["parallelism"]
    sigma: Range = MODELS["downey"].ranges["sigma"]
    loss: Range = MODELS["linear"].ranges["loss"]
    smallest: float = 0.5
    preferred: float = 1.0
    largest: float = 5.0
    efficiency: tuple[float, float, float] | None = None
    chain: Literal["any", "powers"] = "any"

    @property
    def keeps_sizes(self) -> bool:
        """Whether every job prefers the size that it has in the log."""
        return self.preferred == 1.0 and self.efficiency is None


def resizes_nobody(config: SchedulerConfig) -> bool:
    """Whether all jobs run on the size that they ask for, malleable or not."""
    own = any(":" in name for name in (config.order, config.start, config.resize, config.grant))
    shrinks = config.shrink != "resize"
    return config.resize == "none" and not config.moldable and not own and not shrinks


class MalleableWorkload:
    """A rigid workload some of whose jobs are malleable. See Workload.

    rigid  the same jobs on their preferred sizes, none of them malleable
    """

    def __init__(self, rigid: RigidWorkload, nodes: int, how: Malleability, seed: int) -> None:
        self._nodes, self._how = nodes, how
        random = np.random.default_rng(seed)
        n = len(rigid)
        chosen = np.zeros(n, dtype=bool)
        chosen[random.permutation(n)[: round(how.fraction * n)]] = True
        self._chosen = bytearray(chosen.tobytes())
        self._parameters = []
        for name in MODELS[how.model].ranges:
            low, high = getattr(how, name)
            drawn = random.normal((low + high) / 2, (high - low) / 4, n)
            self._parameters.append(array("d", np.clip(drawn, low, high).tobytes()))
        self._constants = array("d", random.uniform(*CONSTANT, (n, 3)).tobytes())
        self._logged = rigid.processors
        self.rigid = rigid = rigid if how.keeps_sizes else self._preferring(rigid)
        self.name, self.submit_s, self.static_run_s = rigid.name, rigid.submit_s, rigid.static_run_s
        self.notes, self.follows = rigid.notes, rigid.follows
        self.enforce_estimates = rigid.enforce_estimates

    def _preferring(self, rigid: RigidWorkload) -> RigidWorkload:
        """The jobs on their preferred sizes."""
        sizes = array("q", rigid.processors)
        run_s, estimate_s = array("d", rigid.run_s), array("d", rigid.estimate_s)
        for k, logged in enumerate(self._logged):
            if self._chosen[k] and logged <= self._nodes:
                speedup = self._speedup(k)
                sizes[k] = self._sizes(k, speedup)[1]
                ratio = speedup(logged) / speedup(sizes[k])
                run_s[k] *= ratio
                estimate_s[k] *= ratio
        return rigid.on_sizes(sizes, run_s, estimate_s)

    def __len__(self) -> int:
        return len(self.rigid)

    def number(self, k: int) -> int:
        return self.rigid.number(k)

    def size(self, k: int) -> int:
        return self.rigid.size(k)

    def malleable(self, k: int) -> bool:
        """Whether job k was drawn."""
        return bool(self._chosen[k])

    def _speedup(self, k: int) -> Speedup:
        """Speed-up of job k by its model and its drawn parameters."""
        drawn = (column[k] for column in self._parameters)
        return MODELS[self._how.model].make(self._logged[k], *drawn)

    def _sizes(self, k: int, speedup: Speedup) -> tuple[int, int, int]:
        """The smallest, preferred and largest size of job k."""
        how, logged, nodes = self._how, self._logged[k], self._nodes
        if how.efficiency is not None:
            least, preferred, most = (largest_with(speedup, e, nodes) for e in how.efficiency)
            return least, preferred, most
        preferred = min(nodes, max(1, round(how.preferred * logged)))
        least = min(preferred, max(1, round(how.smallest * logged)))
        return least, preferred, max(preferred, min(nodes, int(how.largest * logged)))

    def _model(self, k: int, error: float = 0.0) -> Scalability:
        """Of job k, as the scheduler believes it to scale, or with `error` more than that."""
        alpha, beta, per_processor = self._constants[3 * k : 3 * k + 3]
        costs = alpha, beta, per_processor, self._how.overhead_s
        size = self.rigid.size(k)
        if self._how.model == "power":
            return Scalability(size, self._parameters[0][k] + error, *costs)
        speedup = self._speedup(k)
        least, _, most = self._sizes(k, speedup)
        rho = nearest_rho(speedup, least, most)
        return ModelledScalability(size, rho, *costs, speedup)

    def spec(self, k: int) -> JobSpec:
        if not self._chosen[k]:
            return self.rigid.spec(k)
        sizes = self._sizes(k, self._speedup(k))
        try:
            legal = _chain(*sizes, self._how.chain)
        except ValueError as error:
            raise WorkloadError(f"{self.name}: job {self.number(k)}: {error}") from error
        return self.rigid.spec(k, JobKind.MALLEABLE, legal, self._model(k))

    def application(self, k: int) -> Application:
        if not self._chosen[k]:
            return self.rigid.application(k)
        true = self._model(k, self._how.rho_error)
        iterations = self._how.iterations
        step_s = self.rigid.run_s[k] / iterations
        return Iterating(iterations, lambda at: step_s * true.ratio(at.size), true.overhead_s)


@lru_cache(maxsize=256)
def _chain(least: int, preferred: int, most: int, kind: str) -> tuple[Configuration, ...]:
    """Legal sizes, ascending; the preferred one is always among them."""
    if kind == "any":
        if most - least >= MOST_SIZES:
            raise ValueError(
                f"sizes from {least} to {most}: more than {MOST_SIZES}; use powers of two"
            )
        return tuple(configuration(size) for size in range(least, most + 1))
    powers = {2**k for k in range(most.bit_length())}
    sizes = {size for size in powers if least <= size <= most} | {preferred}
    return tuple(configuration(size) for size in sorted(sizes))
