"""How much faster a malleable job is on more processors: four models of speed-up.

A model is a function S(n, ...) of the number of processors, 1 at n = 1, and never falls as n grows.

    power    S = n ** (1 - rho)                           MEBF paper, 2.2
    amdahl   S = 1 / (serial + (1 - serial) / n)          Amdahl 1967
    downey   average parallelism A, its variation sigma   Downey 1997, equations 3 and 4
    linear   S / n = 1 - loss * (n - 1) / size in the log, up to the n from which S would fall

Downey's A is `parallelism` times the size in the log: users ask for a size near that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import log

from dq_server.core.model.sizes import Scalability

Speedup = Callable[[int], float]
Range = tuple[float, float]


def power(n: int, rho: float) -> float:
    """Return n ** (1 - rho)."""
    return float(n ** (1.0 - rho))


def amdahl(n: int, serial: float) -> float:
    """Return the speed-up of a program of which the share `serial` is not parallel."""
    return 1.0 / (serial + (1.0 - serial) / n)


def downey(n: int, parallelism: float, sigma: float) -> float:
    """Return Downey's speed-up: at most `parallelism` (A >= 1), earlier for small `sigma`."""
    a = parallelism
    if sigma <= 1.0:
        if n <= a:
            return a * n / (a + sigma * (n - 1) / 2)
        if n <= 2 * a - 1:
            return a * n / (sigma * (a - 0.5) + n * (1 - sigma / 2))
        return a
    if n <= a + a * sigma - sigma:
        return n * a * (sigma + 1) / (sigma * (n + a - 1) + a)
    return a


def linear(n: int, loss: float) -> float:
    """Return the speed-up if each further processor costs the share `loss` of efficiency."""
    falls = loss > 0 and 2.0 * loss * n > 1.0 + loss  # before n
    peak = max(1, int((1.0 + loss) / (2.0 * loss))) if falls else n
    return peak * (1.0 - loss * (peak - 1))


@dataclass(frozen=True, slots=True)
class Model:
    """A model of speed-up: its parameters with what they are drawn from, and what they may be.

    make  the speed-up of a job, of its size in the log and its parameters
    """

    ranges: Mapping[str, Range]
    limits: Mapping[str, Range]
    make: Callable[..., Speedup]


def _downey(size: int, parallelism: float, sigma: float) -> Speedup:
    return partial(downey, parallelism=max(1.0, parallelism * size), sigma=sigma)


MODELS = {
    "power": Model(
        {"rho": (0.1, 0.2)}, {"rho": (0.0, 1.0)}, lambda _size, rho: partial(power, rho=rho)
    ),
    "amdahl": Model(
        {"serial": (0.001, 0.05)},
        {"serial": (0.0, 1.0)},
        lambda _size, serial: partial(amdahl, serial=serial),
    ),
    "downey": Model(
        {"parallelism": (1.0, 4.0), "sigma": (0.0, 2.0)},
        {"parallelism": (0.0, 1e6), "sigma": (0.0, 1e6)},
        _downey,
    ),
    "linear": Model(
        {"loss": (0.1, 0.3)},
        {"loss": (0.0, 1.0)},
        lambda size, loss: partial(linear, loss=loss / size),
    ),
}


@dataclass(frozen=True, slots=True)
class ModelledScalability(Scalability):
    """A job's scalability by a model; `rho` is that of the power law nearest to it."""

    speedup: Speedup = float

    def ratio(self, size: int) -> float:
        return self.speedup(self.preferred) / self.speedup(size)


def nearest_rho(speedup: Speedup, least: int, most: int) -> float:
    """Return the rho of the power law that meets `speedup` at both sizes."""
    if least >= most:
        return 0.0
    slope = log(speedup(most) / speedup(least)) / log(most / least)
    return min(1.0, max(0.0, 1.0 - slope))


def largest_with(speedup: Speedup, efficiency: float, most: int) -> int:
    """Return the largest size up to `most` with at least this efficiency, S(n) / n; at least 1.

    Efficiency falls as sizes grow, in every model, so the sizes are searched by halving.
    """
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        if speedup(middle) / middle >= efficiency:
            low = middle
        else:
            high = middle - 1
    return low
