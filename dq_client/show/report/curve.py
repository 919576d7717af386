"""The sweet-spot curve: iteration time over processors, redistribution time beneath.

As in the ReSHAPE thesis, Figs. 4 and 7: sizes in the order of the visits, the sweet spot marked,
the cost of moving data in a panel of its own. Each panel has its own scale, from zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby, pairwise

from dq_client.show.report.data import Job, Stay
from dq_client.show.report.markup import Markup, joined, line, picture, rect, tag, tooltip, words
from dq_client.show.report.measures import Fastest, fastest, fastest_label, measured
from dq_client.show.report.scales import WIDE_PX, Linear, Logarithmic, Room, text_width, ticks
from dq_client.show.report.text import processors, seconds

LEFT, RIGHT, TOP = 64.0, 18.0, 26.0
UPPER, GAP, LOWER, BOTTOM = 230.0, 44.0, 74.0, 44.0
TITLE, TITLE_LEFT = "one iteration", 8.0
NUMBERED = 14  # more visits than this are dots without numbers
DOT = 9.5
SAMPLES = 80  # of a line, to keep labels off it


@dataclass(frozen=True, slots=True)
class Dot:
    """One or more visits of a size, drawn at one position."""

    size: int
    time_s: float
    orders: tuple[int, ...]
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class _Frame:
    """The scales of the chart: `time` and `moved` give y, `size` gives x."""

    width: float
    size: Logarithmic
    time: Linear
    moved: Linear
    sizes: tuple[int, ...]

    @property
    def right(self) -> float:
        return self.width - RIGHT


def has_curve(job: Job) -> bool:
    """A curve needs two sizes."""
    return len({stay.processors for _, stay, _ in measured(job)}) > 1


def curve(job: Job, name: str, width: float = WIDE_PX) -> Markup:
    """The picture of one job; see `has_curve`."""
    frame = _frame(job, width)
    dots = _dots(job, frame)
    room = Room(LEFT, 4, frame.right, TOP + UPPER - 2)
    best = fastest(job)
    assert best is not None, "asked for a curve of a job without measurements"
    spot = f"the sweet spot is {best.processors}" if best.sweet_spot else (
        f"the fastest size so far is {best.processors}, no sweet spot was passed"
    )  # fmt: skip
    # The order of these calls is the priority of the labels: each takes its place in turn.
    path = _path(dots, room)
    band = _band(frame, best, fastest_label(job, best), room)
    marks = _marks(dots, best, room, numbered=len(job.sizes) <= NUMBERED)
    ideal = _ideal(frame, dots, room)
    times = ", ".join(f"{d.size}: {seconds(d.time_s)}" for d in dots)
    return picture(
        name,
        width,
        TOP + UPPER + GAP + LOWER + BOTTOM,
        f"Iteration time over processors, job {job.id}",
        f"Seconds per iteration by processors: {times}; {spot}. All figures: table of sizes.",
        band,
        _upper_axes(frame),
        ideal,
        path,
        marks,
        _lower(job, frame),
    )


def _frame(job: Job, width: float) -> _Frame:
    found = measured(job)
    sizes = tuple(sorted({stay.processors for stay in job.sizes}))
    inset = max(34.0, 0.06 * width)
    time_high = ticks(max(time_s for *_, time_s in found), 5)[-1]
    moved_high = ticks(max(stay.redistribution_time_s for stay in job.sizes), 2)[-1]
    lower = TOP + UPPER + GAP
    return _Frame(
        width=width,
        size=Logarithmic(sizes[0], sizes[-1], LEFT + inset, width - RIGHT - inset),
        time=Linear(0, time_high, TOP + UPPER, TOP),
        moved=Linear(0, moved_high, lower + LOWER, lower),
        sizes=sizes,
    )


def _dots(job: Job, frame: _Frame) -> list[Dot]:
    """The dots. Visits of a size that would overlap become one dot, at the latest time."""
    places: list[Dot] = []
    for order, stay, time_s in measured(job):
        x, y = frame.size(stay.processors), frame.time(time_s)
        near = next((d for d in places if d.x == x and abs(d.y - y) < 2 * DOT), None)
        orders: tuple[int, ...] = (order,)
        if near is not None:
            places.remove(near)
            orders = (*near.orders, order)
        places.append(Dot(stay.processors, time_s, orders, x, y))
    return sorted(places, key=lambda d: (d.size, d.orders))


def _band(frame: _Frame, best: Fastest, label: str, room: Room) -> Markup:
    x, bottom = frame.size(best.processors), TOP + UPPER + GAP + LOWER
    half = max(26.0, text_width(label) / 2 + 6)
    title_ends = TITLE_LEFT + text_width(TITLE)  # they stand side by side, above the chart
    at = min(max(x, title_ends + half), frame.right - half)
    room.take(at - half, 0, at + half, TOP)
    spot = " spot" if best.sweet_spot else ""
    return joined(
        rect(x - 26, TOP, 52, bottom - TOP, f"band{spot}"),
        words(at, TOP - 8, label, f"band-label{spot}"),
    )


def _upper_axes(frame: _Frame) -> Markup:
    high = frame.time.high
    return joined(
        (
            joined(
                line(LEFT, frame.time(t), frame.right, frame.time(t), "grid" if t else "axis"),
                words(LEFT - 8, frame.time(t) + 4, seconds(t), "tick", "end"),
            )
            for t in ticks(high, 5)
        ),
        words(TITLE_LEFT, TOP - 12, TITLE, "axis-label", "start"),
    )


def _ideal(frame: _Frame, dots: list[Dot], room: Room) -> Markup:
    """The curve of perfect speed-up from the smallest size measured."""
    first, last_size = dots[0], frame.sizes[-1]
    points = []
    for i in range(SAMPLES + 1):
        size = first.size * (last_size / first.size) ** (i / SAMPLES)
        x, y = frame.size(size), frame.time(first.time_s * first.size / size)
        points.append(f"{x:.1f},{y:.1f}")
        room.take(x - 2, y - 2, x + 2, y + 2)
    label = "perfect speed-up"
    left = x - text_width(label) / 2
    spot = room.place(label, [(left, y + 18), (left, y + 32), (left, y - 8)])
    return joined(
        tag("polyline", points=" ".join(points), class_="ideal"),
        words(*spot, label, "ideal-label") if spot else None,
    )


def _path(dots: list[Dot], room: Room) -> Markup:
    """Lines from visit to visit: solid for expansions, dashed arcs for shrinks.

    Their points are marked as occupied, so that no label covers them.
    """
    at = {order: dot for dot in dots for order in dot.orders}
    shapes = []
    for a, b in pairwise(at[order] for order in sorted(at)):
        if a is b:
            continue
        low = max(a.y, b.y)
        back = b.size < a.size
        depth = min(24.0 + abs(a.x - b.x) / 6, 60.0, TOP + UPPER - low + 8) if back else 0.0
        # A quadratic Bézier curve reaches half way to its control point, hence twice the depth.
        middle, control = (a.x + b.x) / 2, (low + depth if back else (a.y + b.y) / 2)
        for k in range(1, SAMPLES):
            t = k / SAMPLES
            x = a.x + (b.x - a.x) * t
            y = a.y * (1 - t) ** 2 + 2 * control * t * (1 - t) + b.y * t**2
            room.take(x - 2, y - 2, x + 2, y + 2)
        shapes.append(
            tag("path", d=f"M{a.x:.1f} {a.y:.1f}Q{middle:.1f} {control:.1f} {b.x:.1f} {b.y:.1f}",
                class_="way back" if back else "way")
        )  # fmt: skip
    return joined(shapes)


def _marks(dots: list[Dot], best: Fastest, room: Room, *, numbered: bool) -> Markup:
    """Dots with the numbers of their visits, and their times where there is room."""
    for dot in dots:
        room.take(dot.x - DOT, dot.y - DOT, dot.x + DOT, dot.y + DOT)
    shapes = [_mark(dot, best, numbered=numbered) for dot in dots]
    labels = []
    # The time of the sweet spot is placed first: it must find room.
    for dot in sorted(dots, key=lambda d: (d.size != best.processors, d.orders)):
        text = seconds(dot.time_s)
        aside = text_width(text) / 2 + DOT + 4
        spots = [(dot.x, dot.y - DOT - 6), (dot.x, dot.y + DOT + 15),
                 (dot.x + aside, dot.y + 4), (dot.x - aside, dot.y + 4)]  # fmt: skip
        spot = room.place(text, spots) or (spots[0] if dot.size == best.processors else None)
        if spot is not None:
            labels.append(words(*spot, text, f"value{_best(dot, best)}"))
    return joined(shapes, labels)


def _mark(dot: Dot, best: Fastest, *, numbered: bool) -> Markup:
    class_ = f"dot{_best(dot, best)}"
    visits = ", ".join(map(str, dot.orders))
    tip = tooltip(f"{processors(dot.size)}: {seconds(dot.time_s)} per iteration (visit {visits})")
    if not numbered:
        return tag("circle", tip, cx=dot.x, cy=dot.y, r=5.0, class_=class_)
    text = " ".join(map(str, dot.orders)) if len(dot.orders) < 4 else f"{dot.orders[0]}…"
    half = max(DOT, text_width(text) / 2 + 4)
    return joined(
        tag("rect", tip, x=dot.x - half, y=dot.y - DOT, width=2 * half, height=2 * DOT,
            rx=DOT, class_=class_),
        words(dot.x, dot.y + 4, text, "number"),
    )  # fmt: skip


def _best(dot: Dot, best: Fastest) -> str:
    return " best" if best.sweet_spot and dot.size == best.processors else ""


def _lower(job: Job, frame: _Frame) -> Markup:
    """The lower panel: a bar for each visit that moved data, those of one size side by side."""
    by_size = sorted(job.sizes, key=lambda stay: stay.processors)
    bars: list[Markup] = []
    for size, group in groupby(by_size, key=lambda stay: stay.processors):
        bars += _bars(frame, size, [stay for stay in group if stay.redistribution_time_s > 0])
    base = frame.moved(0)
    room = Room(LEFT - 30, base, frame.width, base + 40)
    labels = []
    for size in frame.sizes:
        x = frame.size(size)
        if spot := room.place(f"{size} ", [(x, base + 18)]):
            labels += [words(*spot, str(size), "tick"), line(x, base, x, base + 4, "axis")]
    middle = (LEFT + frame.right) / 2
    return joined(
        (
            joined(
                line(LEFT, frame.moved(t), frame.right, frame.moved(t), "grid" if t else "axis"),
                words(LEFT - 8, frame.moved(t) + 4, seconds(t), "tick", "end"),
            )
            for t in ticks(frame.moved.high, 2)
        ),
        words(8, frame.moved.stop - 12, "redistribution on the way there", "axis-label", "start"),
        bars,
        labels,
        words(middle, base + 36, "processors (doubling is the same distance)", "axis-label"),
    )


def _bars(frame: _Frame, size: int, stays: list[Stay]) -> Iterable[Markup]:
    width = min(14.0, 44.0 / max(1, len(stays)))
    left = frame.size(size) - width * len(stays) / 2
    base = frame.moved(0)
    for i, stay in enumerate(stays):
        y = frame.moved(stay.redistribution_time_s)
        tip = tooltip(f"to {processors(size)}: {seconds(stay.redistribution_time_s)}")
        yield rect(left + i * width + 1, y, width - 2, max(1.0, base - y), "moved", tip)
