"""From figures to places on a picture: scales and the ticks on them."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Steps people read time in, seconds.
TIME_STEPS_S = (
    *(m * 10.0**e for e in range(-6, 1) for m in (1, 2, 5)),
    *(10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 14400.0),
    *(28800.0, 86400.0),
)


@dataclass(frozen=True, slots=True)
class Linear:
    """Maps [low, high] onto [start, stop]."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        """The place of `value`."""
        span = self.high - self.low
        share = (value - self.low) / span if span else 0.5
        return self.start + share * (self.stop - self.start)


@dataclass(frozen=True, slots=True)
class Logarithmic:
    """Maps [low, high], both positive, onto [start, stop]: doubling is always the same distance."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        """The place of `value`."""
        inner = Linear(math.log2(self.low), math.log2(self.high), self.start, self.stop)
        return inner(math.log2(value))


def ticks(high: float, about: int, *, whole: bool = False) -> list[float]:
    """Round numbers from 0 up to the first one not below `high`, about `about` of them."""
    if not high > 0:
        return [0.0, 1.0]
    rough = high / max(1, about)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    if whole:
        step = max(1.0, step)
    count = math.ceil(high / step - 1e-9)
    return [i * step for i in range(count + 1)]


def time_ticks(span_s: float, about: int) -> list[float]:
    """Readable times from 0 up to `span_s`, at most about `about` of them."""
    if not span_s > 0:
        return [0.0]
    rough = span_s / max(1, about)
    step = next((s for s in TIME_STEPS_S if s >= rough), None)
    if step is None:
        step = math.ceil(rough / 86400.0) * 86400.0
    return [i * step for i in range(int(span_s / step + 1e-9) + 1)]
