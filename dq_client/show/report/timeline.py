"""The chart of processors over time: jobs stacked on each other below the line of the capacity.

As in the ReSHAPE thesis, Figs. 9 and 10, but with the jobs stacked: the space between the stack and
the line is the idle processors.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from dq_client.show.report.data import Line, Timeline
from dq_client.show.report.markup import Markup, joined, line, picture, tag, tooltip, words
from dq_client.show.report.scales import LINE_PX, WIDE_PX, Linear, text_width, ticks, time_ticks
from dq_client.show.report.text import processors, seconds, shortened

LEFT, RIGHT, TOP, BOTTOM = 44.0, 18.0, 30.0, 44.0
PANEL = 240.0
COLOURS = 8  # classes c0 to c7 of the style sheet


@dataclass(frozen=True, slots=True)
class Piece:
    """A rectangle of the stack: a job from processor `low` to `high` during an interval."""

    since_s: float
    until_s: float
    low: int
    high: int


def colour(index: int) -> str:
    """The CSS class that colours the index-th job."""
    return f"c{index % COLOURS}"


def stacked(
    jobs: list[Line], since_s: float, until_s: float, grain_s: float
) -> tuple[list[list[Piece]], int]:
    """Each job's pieces, in the order given from the bottom up, and the height of the stack.

    Changes closer together than `grain_s` (a fraction of a pixel) are drawn as one: thousands
    of resizes would otherwise make a page of many megabytes.
    """
    # A cut, and the last change that belongs to it: the stack after it holds until the next cut.
    cuts = [(since_s, since_s)]
    for t in sorted({t for job in jobs for t, _ in job.steps if since_s < t < until_s}):
        if t - cuts[-1][0] < grain_s:
            cuts[-1] = (cuts[-1][0], t)
        else:
            cuts.append((t, t))
    cuts.append((until_s, until_s))
    pieces: list[list[Piece]] = [[] for _ in jobs]
    # One pass over the sorted changes. Only jobs that hold processors stay in `active`: with all
    # jobs in it the cost would be cuts times jobs.
    changes = sorted((t, i) for i, job in enumerate(jobs) for t, _ in job.steps)
    starts = [[t for t, _ in job.steps] for job in jobs]
    active: set[int] = set()
    position, peak = 0, 0
    for (since, settled), (until, _) in pairwise(cuts):
        while position < len(changes) and changes[position][0] <= settled:
            active.add(changes[position][1])
            position += 1
        low = 0
        for i in sorted(active):
            size = jobs[i].steps[bisect_right(starts[i], settled) - 1][1]
            if size == 0:
                active.discard(i)
                continue
            _extend(pieces[i], Piece(since, until, low, low + size))
            low += size
        peak = max(peak, low)
    return pieces, peak


def _extend(pieces: list[Piece], piece: Piece) -> None:
    last = pieces[-1] if pieces else None
    if last and (last.until_s, last.low, last.high) == (piece.since_s, piece.low, piece.high):
        pieces[-1] = Piece(last.since_s, piece.until_s, piece.low, piece.high)
    else:
        pieces.append(piece)


def timeline(
    data: Timeline, name: str, since_s: float, until_s: float, focus: int | None,
    width: float = WIDE_PX,
) -> Markup:  # fmt: skip
    """The chart from `since_s` to `until_s`; job `focus` is at the bottom, the others are pale."""
    until_s = max(until_s, since_s + 1e-3)
    colours = {job.id: colour(i) for i, job in enumerate(data.jobs)}
    jobs = [job for job in data.jobs if _within(job, since_s, until_s)]
    jobs.sort(key=lambda job: job.id != focus)
    x = Linear(since_s, until_s, LEFT, width - RIGHT)
    pieces, peak = stacked(jobs, since_s, until_s, (until_s - since_s) / (2 * width))
    levels = ticks(max(data.capacity, peak, 1), 5, whole=True)
    y = Linear(0, levels[-1], TOP + PANEL, TOP)
    shapes = [
        _job(job, colours[job.id], own, x, y, focus) for job, own in zip(jobs, pieces, strict=True)
    ]
    what = f"job {focus}" if focus is not None else f"{len(jobs)} jobs"
    return picture(
        name,
        width,
        TOP + PANEL + BOTTOM,
        f"Processors over time, {what}",
        f"{_summary(jobs, focus)} There are {processors(data.capacity)}; at most {peak} were held"
        f" in {seconds(until_s - since_s)}.",
        _axes(x, y, levels),
        shapes,
        _capacity(data.capacity, x, y),
    )


def _within(job: Line, since_s: float, until_s: float) -> bool:
    return bool(job.steps) and job.steps[0][0] < until_s and job.steps[-1][0] > since_s


def _summary(jobs: list[Line], focus: int | None) -> str:
    own = next((job for job in jobs if job.id == focus), None)
    if own is None:
        return f"The processors of {len(jobs)} jobs stacked on each other."
    sizes = [str(size) for _, size in own.steps if size]
    return f"Job {own.id} ran on {', '.join(sizes)} processors, in this order."


def _axes(x: Linear, y: Linear, levels: list[float]) -> Markup:
    right, base = x.stop, y(0)
    marks = time_ticks(x.high - x.low, max(2, int((right - LEFT) / 90)))
    return joined(
        (
            joined(
                line(LEFT, y(n), right, y(n), "grid" if n else "axis"),
                words(LEFT - 8, y(n) + 4, f"{n:g}", "tick", "end"),
            )
            for n in levels
        ),
        (
            joined(
                line(x(x.low + t), base, x(x.low + t), base + 4, "axis"),
                words(x(x.low + t), base + 18, seconds(t), "tick"),
            )
            for t in marks
        ),
        words(8, TOP - 14, "processors", "axis-label", "start"),
        words((LEFT + right) / 2, base + 36, "time", "axis-label"),
    )


def _capacity(capacity: int, x: Linear, y: Linear) -> Markup | None:
    if not capacity:
        return None
    return joined(
        line(LEFT, y(capacity), x.stop, y(capacity), "capacity"),
        words(x.stop, y(capacity) - 6, f"capacity {capacity}", "capacity-label", "end"),
    )


def _job(
    job: Line, colour_: str, pieces: list[Piece], x: Linear, y: Linear, focus: int | None
) -> Markup:
    paths = "".join(
        f"M{x(p.since_s):.1f} {y(p.low):.1f}V{y(p.high):.1f}H{x(p.until_s):.1f}V{y(p.low):.1f}Z"
        for p in pieces
    )
    own = job.id == focus
    class_ = "area other" if focus is not None and not own else f"area {colour_}"
    labels = list(_labels(job, pieces, x, y, sizes=own))
    tip = tooltip(f"job {job.id} {job.name}: {job.state}")
    return joined(tag("path", tip, d=paths, class_=class_), labels)


def _labels(
    job: Line, pieces: list[Piece], x: Linear, y: Linear, *, sizes: bool
) -> Iterator[Markup]:
    """A size in every piece of the focused job; the name of another job in its largest piece."""

    def fits(piece: Piece, text: str) -> bool:
        return (x(piece.until_s) - x(piece.since_s) > text_width(text) + 6
                and y(piece.low) - y(piece.high) > LINE_PX)  # fmt: skip

    if sizes:
        wanted = [(piece, str(piece.high - piece.low)) for piece in pieces]
    else:

        def area(piece: Piece) -> float:
            return (piece.until_s - piece.since_s) * (piece.high - piece.low)

        # The name if it fits, else the number.
        choices = [(p, t) for t in (f"{job.id} {shortened(job.name, 24)}", str(job.id))
                   for p in sorted(pieces, key=area, reverse=True)]  # fmt: skip
        wanted = next(([c] for c in choices if fits(*c)), [])
    for piece, text in wanted:
        if fits(piece, text):
            middle = (x(piece.since_s) + x(piece.until_s)) / 2
            yield words(middle, (y(piece.low) + y(piece.high)) / 2 + 4, text, "area-label")


def lane(job: Line | None, submit_s: float, since_s: float, until_s: float, index: int,
         peak: int) -> Markup:  # fmt: skip
    """A strip for a table row: a line while the job waits, an area as high as its size after."""
    width, height = 104.0, 28.0
    x = Linear(since_s, max(until_s, since_s + 1e-3), 0, width)
    y = Linear(0, max(1, peak), height - 1, 2)
    steps = job.steps if job is not None else []
    start = steps[0][0] if steps else until_s
    path = "".join(
        f"M{x(t):.1f} {y(0):.1f}V{y(size):.1f}H{max(x(t) + 0.5, x(until)):.1f}V{y(0):.1f}Z"
        for (t, size), (until, _) in pairwise(steps)
        if size
    )
    return tag(
        "svg",
        line(0, y(0), width, y(0), "grid"),
        line(x(submit_s), y(0), x(start), y(0), "waiting"),
        tag("path", d=path, class_=f"area {colour(index)}") if path else None,
        viewBox=f"0 0 {width:g} {height:g}", width=f"{width:g}", height=f"{height:g}",
        class_="lane", aria_hidden="true",
    )  # fmt: skip
