"""What an iteration is expected to take on sizes that were not measured, and how sure that is.

A few sizes were measured, with noise. Two layers, in logarithms of times, so that errors are
relative:

* Trend: T(p) = a + b/p + c*log2(p + 1) + d*p, no coefficient negative (nonnegative least squares:
  Lawson & Hanson, "Solving Least Squares Problems", 1974). The terms are serial work, shared work
  (Amdahl 1967), trees of messages and messages to all; Downey, "A model for speedup of parallel
  programs", 1997, uses two of them. Few points suit several choices of terms, which differ where
  nothing was measured. So all choices are fitted and averaged, weighted by how well they fit and
  how few terms they need (Bayesian information criterion; Hoeting et al., "Bayesian model
  averaging", Statistical Science 14 (1999), 382-417); where they disagree the error is large.
* Rest: what is left of the measured times is interpolated by a Gaussian process over log2(p) with
  an exponential covariance (kriging: Jones, Schonlau & Welch, "Efficient global optimization of
  expensive black-box functions", Journal of Global Optimization 13 (1998), 455-492). A valley or a
  ragged curve lives here: near a measured size its own times count, far from all only the trend.

Some tens of sizes and a dozen points: plain Python is fast enough, and a server starts without
numpy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import exp, log, log2, sqrt

from dq_server.core.model.scalability import least_squares

TERMS = 4
RAGGED = 0.06  # usual relative distance of a true time from its trend
RAGGED_WEIGHT = 4.0  # points that this prior counts for
REACH = 1.0  # doublings over which distances from the trend are alike (covariance 1/e)
BEYOND = 0.1  # error of the trend per doubling outside the measured sizes
USUAL_EXPONENT, EXPONENT_ERROR = 0.75, 0.3  # of the speed-up, where one size alone was measured


@dataclass(frozen=True, slots=True)
class Time:
    """Seconds of an iteration, measured or expected; `error`: its relative standard error."""

    time_s: float
    error: float


@cache
def _terms(size: int) -> tuple[float, ...]:
    return 1.0, 1.0 / size, log2(size + 1), float(size)


_CHOICES = tuple(
    choice for count in range(1, TERMS + 1) for choice in combinations(range(TERMS), count)
)


@dataclass(frozen=True, slots=True)
class Trend:
    """The average of the fitted choices. `fits`: weight and coefficients of each."""

    fits: tuple[tuple[float, tuple[float, ...]], ...]

    def at(self, size: int) -> Time:
        """Expected time, and how far the choices differ there."""
        terms = _terms(size)
        times = [
            (weight, sum(c * t for c, t in zip(own, terms, strict=True)))
            for weight, own in self.fits
        ]
        middle = sum(weight * log(time_s) for weight, time_s in times)
        spread = sum(weight * (log(time_s) - middle) ** 2 for weight, time_s in times)
        return Time(exp(middle), sqrt(spread))

    @classmethod
    def fitted(cls, measured: Mapping[int, Time]) -> Trend:
        """Through measured times by size, at least two of them."""
        found: list[tuple[float, tuple[float, ...]]] = []
        points = [
            (_terms(size), at.time_s, 1 / sqrt(at.error**2 + RAGGED**2))
            for size, at in measured.items()
        ]
        for choice in _CHOICES:
            if len(choice) > len(points):
                break
            rows = [[terms[k] * w / t for k in choice] for terms, t, w in points]
            own = least_squares(rows, [w for *_, w in points])
            if own is None or min(own) < 0:
                continue
            whole = [0.0] * TERMS
            for k, value in zip(choice, own, strict=True):
                whole[k] = value
            off = sum(
                (w * log(sum(c * x for c, x in zip(whole, terms, strict=True)) / t)) ** 2
                for terms, t, w in points
            )
            found.append((off + len(choice) * log(len(points)), tuple(whole)))
        least = min(score for score, _ in found)
        weights = [exp((least - score) / 2) for score, _ in found]
        total = sum(weights)
        return cls(tuple((w / total, own) for w, (_, own) in zip(weights, found, strict=True)))


def expected(measured: Mapping[int, Time], sizes: Sequence[int]) -> dict[int, Time]:
    """What an iteration takes on each of `sizes`, as far as measured times by size tell."""
    if len(measured) == 1:
        ((only, there),) = measured.items()
        return {p: _from_one(only, there, p) for p in sizes}
    trend = Trend.fitted(measured)
    points = sorted(measured.items())
    at = [log2(size) for size, _ in points]
    means = [trend.at(size) for size, _ in points]
    off = [log(own.time_s / mean.time_s) for (_, own), mean in zip(points, means, strict=True)]
    squares = sum(max(0.0, x * x - own.error**2) for x, (_, own) in zip(off, points, strict=True))
    variance = (RAGGED_WEIGHT * RAGGED**2 + squares) / (RAGGED_WEIGHT + len(points))
    cover = [[variance * exp(-abs(x - y) / REACH) for y in at] for x in at]
    for k, (_, own) in enumerate(points):
        cover[k][k] += own.error**2
    lower = _cholesky(cover)
    pull = _solve(lower, off)
    found = {}
    for size in sizes:
        mean, x = trend.at(size), log2(size)
        near = [variance * exp(-abs(x - y) / REACH) for y in at]
        half = _forward(lower, near)
        rest = sum(a * b for a, b in zip(near, pull, strict=True))
        own_variance = max(0.0, variance - sum(h * h for h in half))
        beyond = max(0.0, at[0] - x, x - at[-1])
        # Where a size was measured it does not matter that the choices of terms differ there.
        doubt = mean.error**2 * own_variance / variance + (BEYOND * beyond) ** 2
        found[size] = Time(mean.time_s * exp(rest), sqrt(own_variance + doubt))
    return found


def _from_one(only: int, at: Time, size: int) -> Time:
    """One size was measured: programs that are run in parallel gain from it, but how much?"""
    doublings = log2(size / only)
    error = EXPONENT_ERROR * doublings * log(2)
    return Time(at.time_s * (only / size) ** USUAL_EXPONENT, sqrt(at.error**2 + error**2))


def _cholesky(matrix: Sequence[Sequence[float]]) -> list[list[float]]:
    """The lower triangle whose square is this symmetric, positive definite matrix."""
    lower = list[list[float]]()
    for i, row in enumerate(matrix):
        own = list[float]()
        for j in range(i + 1):
            rest = row[j] - sum(
                a * b for a, b in zip(own, lower[j] if j < i else own, strict=False)
            )
            own.append(sqrt(max(rest, 1e-12)) if i == j else rest / lower[j][j])
        lower.append(own)
    return lower


def _forward(lower: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """x of lower @ x = right."""
    x = list[float]()
    for row, value in zip(lower, right, strict=True):
        x.append((value - sum(a * b for a, b in zip(row, x, strict=False))) / row[len(x)])
    return x


def _solve(lower: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """x of lower @ lower^T @ x = right."""
    half = _forward(lower, right)
    x = [0.0] * len(half)
    for i in reversed(range(len(half))):
        rest = sum(lower[k][i] * x[k] for k in range(i + 1, len(half)))
        x[i] = (half[i] - rest) / lower[i][i]
    return x
