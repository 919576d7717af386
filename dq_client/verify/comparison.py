"""The first iteration and variable in which a resized run differs from plain ones.

Which variables can be compared at all, the plain runs on several sizes show. One that is not the
same in all of them is a clock, a random number, or depends on the number of ranks. One that is the
same on rank 0 alone is compared there, and on the other ranks in sum, where it is a number. What
all ranks have alike in the plain runs, all must have alike in the resized one. Differences by
rounding set the tolerance.

Right after a resize a rank that has joined may have another value of a variable. If the next
iteration makes it the same again, it was a temporary.

Two kinds of differences count only as the cause of another one: of sums, because a rank that leaves
may take a count along that nobody needs; and of what the source says depends on the rank, its part
of the data or the size, because buffers and caches have a history of sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from dq_client.verify.records import Fingerprint, Moment, Named, Record, State

EXACT, NUMBERS, SIZES, ITEMS = 0, 1, 2, 4  # places in the fingerprint of a part
ROUNDING = 100.0  # so much more than the plain runs a resized one may differ from one of them
UNSTABLE = 1e-4  # plain runs that differ by more do not differ by rounding
FLOOR = 1e-6  # of the mean: numbers below it are as good as 0
NOTHING = math.inf
# Places: a rank that has joined, or left with its part, is the cause of what other ranks have then.
JOINED, LOST, OTHERS, SEEN, SUMS = range(5)


@dataclass(frozen=True, slots=True)
class Difference:
    """One variable at one moment.

    iteration  the one that has changed it; after a resize the first one on the new size
    rank, size of the resized run; rank -1: all ranks together
    counts     it is one by itself, and not only as the cause of another one
    place      among the differences of one iteration: the smallest is most likely the cause
    """

    iteration: int
    named: Named
    plain: str
    resized: str
    rank: int
    size: int
    counts: bool
    place: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Declared data or a value that cannot be compared: plain runs differ by themselves."""

    name: str
    iteration: int
    texts: tuple[str, str]


@dataclass(slots=True)
class Comparison:
    """What `compare` finds."""

    first: Difference | None = None
    causes: list[Difference] = field(default_factory=list)  # that count only if something does
    compared: dict[str, int] = field(default_factory=dict)  # kind -> variables
    left_out: list[LeftOut] = field(default_factory=list)

    def cause_of(self, iteration: int) -> Difference | None:
        """The most likely cause of what is seen in this iteration, or after it."""
        early = [each for each in self.causes if each.iteration <= iteration]
        return min(early, key=lambda each: (each.iteration, each.place), default=None)


@dataclass(slots=True)
class _Noise:
    """By how much the plain runs differ: rank 0's, any rank's, and sums over the ranks."""

    leading: float = 0.0
    any_rank: float = 0.0
    sums: float = 0.0


def compare(plain: list[Record], resized: Record, tolerance: float) -> Comparison:
    """Compare a resized run with plain ones, on as many sizes as there are."""
    found = Comparison()
    noise = _noise(plain, found)
    _count(plain[0], noise, found)
    reference = {moment.at: moment for moment in plain[0].iterations}
    tolerances = _Tolerances(noise, tolerance)
    pending: list[Difference] = []
    for moment in resized.moments:
        before = reference.get(moment.at)
        if before is None or not moment.complete:
            break
        iteration = before.order + moment.resized
        seen = list(_differences(resized.named, before, moment, iteration, tolerances))
        if moment.resized:
            counting = [each for each in seen if each.counts and each.place == SEEN]
            pending = [each for each in seen if each not in counting]
        else:
            still = {(each.named, each.rank) for each in seen}
            lasting = [each for each in pending if (each.named, each.rank) in still]
            pending = []
            counting = [each for each in (*lasting, *seen) if each.counts]
            found.causes += [each for each in (*lasting, *seen) if not each.counts]
        if counting:
            found.first = min(counting, key=lambda each: each.place)
            break
    found.causes += pending  # the run has ended before it was clear
    if found.first is not None:
        cause = found.cause_of(found.first.iteration)
        if cause is not None and (cause.iteration, cause.place) < (
            found.first.iteration, found.first.place
        ):  # fmt: skip
            found.first = cause
    return found


class _Tolerances:
    def __init__(self, noise: dict[str, _Noise], tolerance: float) -> None:
        self._noise, self._tolerance = noise, tolerance

    def of(self, key: str, which: Literal["leading", "any_rank", "sums"]) -> float:
        """How much a variable may differ; inf: it is not compared."""
        noise = getattr(self._noise[key], which) if key in self._noise else NOTHING
        return NOTHING if noise > UNSTABLE else max(self._tolerance, ROUNDING * noise)


# --- plain runs ----------------------------------------------------------------------------------


def _noise(plain: list[Record], found: Comparison) -> dict[str, _Noise]:
    noise: dict[str, _Noise] = {}
    others = [{moment.at: moment for moment in run.iterations} for run in plain[1:]]
    for moment in plain[0].iterations:
        there = [other[moment.at] for other in others if moment.at in other]
        for key in {key for each in (moment, *there) for state in each.ranks.values()
                    for key in state}:  # fmt: skip
            named = next(run.named[key] for run in plain if key in run.named)
            own = noise.setdefault(key, _Noise())
            known = own.leading <= UNSTABLE
            _widen(own, key, named.kind, moment, there)
            if known and own.leading > UNSTABLE and named.kind in ("part", "value") and there:
                texts = _text(key, named, moment), _text(key, named, there[-1])
                found.left_out.append(LeftOut(named.name, moment.order, texts))
    return noise


def _widen(noise: _Noise, key: str, kind: str, moment: Moment, others: list[Moment]) -> None:
    """Take in one iteration of all plain runs."""
    if kind == "part":
        mine = _total(key, moment)
        each = [deviation(mine, _total(key, other), of_part=True) for other in others]
        noise.leading = max([noise.leading, *each])
        return
    mine = moment.ranks.get(0, {}).get(key)
    for other in [moment, *others]:
        for rank, state in other.ranks.items():
            found = deviation(mine, state.get(key))
            noise.any_rank = max(noise.any_rank, found)
            if rank == 0:
                noise.leading = max(noise.leading, found)
        noise.sums = max(noise.sums, _sums_deviation(key, moment, other))


def _count(run: Record, noise: dict[str, _Noise], found: Comparison) -> None:
    for key, named in run.named.items():
        if key in noise and noise[key].leading <= UNSTABLE:
            found.compared[named.kind] = found.compared.get(named.kind, 0) + 1


def _text(key: str, named: Named, moment: Moment) -> str:
    if named.kind == "part":
        total = _total(key, moment)
        return str(total[3]) if total is not None else "nothing"
    return shown(moment.ranks.get(0, {}).get(key))


# --- the resized run -----------------------------------------------------------------------------


def _differences(
    known: dict[str, Named], before: Moment, now: Moment, iteration: int, limits: _Tolerances
) -> Iterator[Difference]:
    leading: State = before.ranks.get(0, {})
    size = now.size
    for key, named in known.items():
        if named.kind == "part":
            mine, theirs = _total(key, before), _total(key, now)
            if deviation(mine, theirs, of_part=True) > limits.of(key, "leading"):
                texts = part_texts(mine, theirs)
                yield Difference(iteration, named, *texts, -1, size, counts=True, place=SEEN)
            continue
        mine = leading.get(key)
        if mine is None:
            continue
        for rank, state in sorted(now.ranks.items()):
            leads = named.kind == "value" or rank == 0
            limit = limits.of(key, "leading") if leads else limits.of(key, "any_rank")
            theirs = state.get(key)
            # Not bound yet: a temporary, which the iteration binds before it uses it.
            if theirs is not None and deviation(mine, theirs) > limit:
                place = SEEN if leads else JOINED if now.resized else OTHERS
                texts = shown(mine), shown(theirs)
                counts = named.kind != "local"
                yield Difference(iteration, named, *texts, rank, size, counts=counts, place=place)
                break
        else:
            local = limits.of(key, "any_rank") == NOTHING and _summed(key, now) is not None
            if local and _sums_deviation(key, before, now) > limits.of(key, "sums"):
                texts = _sum_text(key, before), _sum_text(key, now)
                place = LOST if now.resized else SUMS
                yield Difference(iteration, named, *texts, -1, size, counts=False, place=place)


def deviation(a: Fingerprint | None, b: Fingerprint | None, *, of_part: bool = False) -> float:
    """How much two values differ, relatively; inf: in what is exact. Nothing equals nothing."""
    if a == b:
        return 0.0
    if a is None or b is None or a[EXACT] != b[EXACT]:
        return math.inf
    return _apart(a[NUMBERS], b[NUMBERS], a[SIZES] if of_part else [])


def _apart(a: list[float], b: list[float], sizes: list[float]) -> float:
    """The largest relative difference. NaN equals NaN.

    sizes: what each number is compared with; empty: the numbers themselves
    """
    if len(a) != len(b):
        return math.inf
    scale = sizes or [max(abs(x), abs(y)) for x, y in zip(a, b, strict=True)]
    floor = FLOOR * sum(x for x in scale if math.isfinite(x)) / max(len(scale), 1)
    return max(
        (_relative(x, y, s + floor) for x, y, s in zip(a, b, scale, strict=True)), default=0.0
    )


def _relative(x: float, y: float, scale: float) -> float:
    if x == y or (math.isnan(x) and math.isnan(y)):
        return 0.0
    if not (math.isfinite(x) and math.isfinite(y)):
        return math.inf
    return abs(x - y) / scale if scale > 0 else math.inf


# --- all ranks together --------------------------------------------------------------------------


def _total(key: str, moment: Moment) -> Fingerprint | None:
    """The fingerprint of a distributed array, from those of its parts; None: it is not there."""
    parts = [state[key] for state in moment.ranks.values() if key in state]
    if not parts:
        return None
    exact = [sum(each) % (1 << 64) for each in zip(*(p[EXACT] for p in parts), strict=False)]
    sums = [math.fsum(each) for each in zip(*(p[NUMBERS] for p in parts), strict=False)]
    sizes = [math.fsum(each) for each in zip(*(p[SIZES] for p in parts), strict=False)]
    return [exact, sums, sizes, parts[0][3], parts[0][ITEMS]]


def part_texts(a: Fingerprint | None, b: Fingerprint | None) -> tuple[str, str]:
    """Where two arrays differ most, and what they have there."""
    if a is None or b is None:
        return ("nothing" if a is None else str(a[3]), "nothing" if b is None else str(b[3]))
    if not a[NUMBERS] or len(a[NUMBERS]) != len(b[NUMBERS]):
        return str(a[3]), str(b[3])
    groups = len(a[NUMBERS]) if not a[ITEMS] else min(a[ITEMS], 256)
    apart = [abs(x - y) if x == x and y == y else math.inf
             for x, y in zip(a[NUMBERS][:groups], b[NUMBERS][:groups], strict=True)]  # fmt: skip
    at = apart.index(max(apart))
    if not a[ITEMS]:
        return f"sum {a[NUMBERS][at]!r}", f"sum {b[NUMBERS][at]!r}"
    low, high = -(-at * a[ITEMS] // groups), -(-(at + 1) * a[ITEMS] // groups) - 1
    where = f"item {low}:" if low == high else f"items {low} to {high} add up to"
    return f"{where} {a[NUMBERS][at]!r}", f"{where} {b[NUMBERS][at]!r}"


def _vector(fingerprint: Fingerprint) -> list[float] | None:
    """The numbers of a value that can be added up; None: it is none."""
    numbers: list[float] = fingerprint[NUMBERS]
    if numbers:
        return numbers
    try:
        return [float(fingerprint[2])]
    except ValueError:
        return None


def _summed(key: str, moment: Moment) -> list[float] | None:
    vectors = [_vector(state[key]) for state in moment.ranks.values() if key in state]
    known = [vector for vector in vectors if vector is not None]
    if len(known) < max(len(vectors), 1) or len({len(vector) for vector in known}) > 1:
        return None
    return [math.fsum(each) for each in zip(*known, strict=True)]


def _sums_deviation(key: str, a: Moment, b: Moment) -> float:
    mine, theirs = _summed(key, a), _summed(key, b)
    return math.inf if mine is None or theirs is None else _apart(mine, theirs, [])


def _sum_text(key: str, moment: Moment) -> str:
    found = _summed(key, moment)
    some = ", ".join(f"{number:.6g}" for number in (found or [])[:4])
    return f"{some} over all ranks"


def shown(fingerprint: Fingerprint | None) -> str:
    """A value for people."""
    return "nothing" if fingerprint is None else str(fingerprint[2])
