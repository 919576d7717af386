"""Positions on a chart: scales, their ticks, and free places for labels."""

from __future__ import annotations

import math
from dataclasses import dataclass

CHARACTER_PX = 6.6  # mean width of a character at the font size of the charts
LINE_PX = 15.0
WIDE_PX, NARROW_PX = 880, 400  # each chart is drawn in both; style.css shows one
# Steps between ticks of a time axis that people read easily, in seconds.
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


def text_width(text: str) -> float:
    """The approximate width of `text` when drawn, in pixels."""
    return len(text) * CHARACTER_PX


class Room:
    """The occupied places of a chart: a label goes where nothing has been placed yet."""

    def __init__(self, left: float, top: float, right: float, bottom: float) -> None:
        self.bounds = (left, top, right, bottom)
        self.taken: list[tuple[float, float, float, float]] = []

    def take(self, left: float, top: float, right: float, bottom: float) -> None:
        """Mark a box as occupied."""
        self.taken.append((left, top, right, bottom))

    def place(self, text: str, spots: list[tuple[float, float]]) -> tuple[float, float] | None:
        """The first of `spots` (middle of the base line) free for `text`, now occupied."""
        half = text_width(text) / 2
        for x, y in spots:
            box = (x - half, y - LINE_PX + 3, x + half, y + 3)
            if self._inside(box) and not any(_overlap(box, other) for other in self.taken):
                self.taken.append(box)
                return x, y
        return None

    def _inside(self, box: tuple[float, float, float, float]) -> bool:
        left, top, right, bottom = self.bounds
        return box[0] >= left and box[1] >= top and box[2] <= right and box[3] <= bottom


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
