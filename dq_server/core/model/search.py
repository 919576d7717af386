"""Which size to try next, and whether that pays: the arithmetic of a search for the sweet spot.

A probe of a size is worth its expected improvement over the best size measured (Mockus 1975;
Jones, Schonlau & Welch 1998, see speedup.py) for the iterations that are left. It costs the way
there, the iterations on it as far as they are longer than on the best size, and, if it loses, the
way back. As much of the error counts as a few iterations there would take away (knowledge
gradient: Frazier, Powell & Dayanik, "The knowledge-gradient policy for correlated normal beliefs",
INFORMS Journal on Computing 21 (2009), 599-613), so a size measured well is not measured again.

A larger size must gain a little for each processor it adds: it has to be faster by a fifth of the
gain threshold for each doubling, so that steps of a dense chain (1 to 16) count like doublings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import erf, exp, log, log2, sqrt
from statistics import median

from dq_server.core.model.speedup import Time

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
