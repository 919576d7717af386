"""Which size to try next, and whether that pays: the arithmetic of a search for the sweet spot.

A probe of a size is worth its expected improvement over the best size measured (Mockus 1975;
Jones, Schonlau & Welch 1998, see below) for the iterations that are left. It costs the way
there, the iterations on it as far as they are longer than on the best size, and, if it loses, the
way back. As much of the error counts as a few iterations there would take away (knowledge
gradient: Frazier, Powell & Dayanik, "The knowledge-gradient policy for correlated normal beliefs",
INFORMS Journal on Computing 21 (2009), 599-613), so a size measured well is not measured again.

A larger size must gain a little for each processor it adds: it has to be faster by a fifth of the
gain threshold for each doubling, so that steps of a dense chain (1 to 16) count like doublings.

What an iteration is expected to take on sizes that were not measured, and how sure that is
(`expected`): a few sizes were measured, with noise. Two layers, in logarithms of times, so that
errors are relative:

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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import erf, exp, log, log2, sqrt
from statistics import median

from dq_server.core.model.sizes import least_squares

USUAL_NOISE, NOISE_WEIGHT = 0.08, 4.0  # of one iteration; iterations that this prior counts for
FIRST_ERROR = 0.25  # of an iteration right after a start or a resize, which may be slow ...
FIRST_WEIGHT = 4.0  # ... measured stays that this prior counts for
FIRST_LEAST, FIRST_MOST = 0.05, 0.5
SINGLE_ERROR = 0.05  # added to that of one iteration alone: it may be an outlier
LEAST_ERROR = 0.005
OUTLYING = 2.5  # standard errors
MAD_TO_SIGMA = 1.4826  # standard deviation over median absolute deviation, normal distribution
MEDIAN_ERROR = 1.2533  # standard error of a median over that of a mean, normal distribution
ITERATIONS = 2  # that a probe is reckoned to take
LEARNED = 3  # iterations there whose information a probe is reckoned to bring
LEAST_LEFT = 80  # iterations reckoned to be left where nothing is known; later those done
MARGIN = 0.001  # of those iterations' time: what a probe must gain beyond its cost
CHEAP = 0.1  # of that time: what a probe may cost that caution alone asks for
APART = 1.4  # such probes are of sizes that differ by this factor at least
PRICE = 0.2  # gain thresholds that a doubling of the processors has to gain


@dataclass(frozen=True, slots=True)
class Probe:
    """A size that may be tried. `gain_s` over all iterations left, `cost_s` of trying it."""

    size: int
    time: Time
    gain_s: float
    cost_s: float

    @property
    def net_s(self) -> float:
        """What trying it is expected to gain."""
        return self.gain_s - self.cost_s


def noise_of(samples: Iterable[Sequence[float]]) -> float:
    """Relative standard deviation of an iteration's time, robustly, from times at several sizes."""
    off = list[float]()
    for times_s in samples:
        if len(times_s) < 2 or min(times_s) <= 0:
            continue
        middle = median(times_s)
        scale = sqrt(len(times_s) / (len(times_s) - 1))
        off += [abs(log(t / middle)) * scale for t in times_s]
    if not off:
        return USUAL_NOISE
    squares = NOISE_WEIGHT * USUAL_NOISE**2 + len(off) * (MAD_TO_SIGMA * median(off)) ** 2
    return sqrt(squares / (NOISE_WEIGHT + len(off)))


def first_error(excess: float, stays: int, noise: float) -> float:
    """Relative error of the first iteration after a resize, beyond the noise of any iteration.

    `excess`: the sum of the squares by which those of `stays` were longer than the next iteration.
    """
    total = FIRST_WEIGHT * FIRST_ERROR**2 + excess - stays * noise**2
    return max(FIRST_LEAST, sqrt(max(0.0, total / (FIRST_WEIGHT + stays))))


def time_of(times_s: Sequence[float], noise: float) -> Time:
    """The time that these iterations tell; of two that differ by more than noise the shorter."""
    count = len(times_s)
    if count == 1:
        return Time(times_s[0], sqrt(noise**2 + SINGLE_ERROR**2))
    if count == 2:
        low, high = sorted(times_s)
        apart = log(high / low) > OUTLYING * sqrt(2) * noise
        return Time(low if apart else sqrt(low * high), noise / sqrt(2))
    return Time(median(times_s), max(LEAST_ERROR, MEDIAN_ERROR * noise / sqrt(count)))


def priced(threshold: float) -> float:
    """The exponent of the number of processors in the score of a size."""
    return -log2(1 - PRICE * threshold)


def score(size: int, time: Time, price: float) -> float:
    """What sizes are compared by, the least is the best: log(time * processors ** price)."""
    return log(time.time_s) + price * log(size)


def best_of(times: Mapping[int, Time], price: float) -> int:
    """The size with the least score."""
    return min(times, key=lambda size: score(size, times[size], price))


def z_of(one: int, other: int, times: Mapping[int, Time], price: float) -> float:
    """By how many standard errors the score of `one` is above that of `other`."""
    apart = score(one, times[one], price) - score(other, times[other], price)
    return apart / max(1e-9, sqrt(times[one].error ** 2 + times[other].error ** 2))


@dataclass(frozen=True, slots=True)
class Terms:
    """What a probe is reckoned with.

    left     iterations that are left, as far as is known
    move_s   what a resize takes
    noise    of an iteration
    price    see `priced`
    """

    left: float
    move_s: float
    noise: float
    price: float


def probe(size: int, time: Time, best: int, best_s: float, away: bool, terms: Terms) -> Probe:
    """What trying `size` is worth beside the `best` one measured; `away`: the job is not there."""
    pays_s = best_s * (best / size) ** terms.price  # a time on `size` below this one pays
    error = max(time.error**2 / sqrt(time.error**2 + terms.noise**2 / LEARNED), 1e-9)
    mean_s = time.time_s * exp(error**2 / 2)
    d = log(pays_s / time.time_s) / error
    gain_s = max(0.0, pays_s * _below(d) - mean_s * _below(d - error)) * terms.left
    moves = 1 + _below(-d) - (1 if away else 0)
    longer_s = ITERATIONS * max(0.0, mean_s - best_s)
    cost_s = longer_s + moves * terms.move_s + MARGIN * terms.left * best_s
    return Probe(size, time, gain_s, cost_s)


def _below(x: float) -> float:
    """The normal distribution function."""
    return 0.5 * (1 + erf(x / sqrt(2)))


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
