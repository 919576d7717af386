"""Pictures: a frame with title and description, and the few shapes our charts need.

Colours and fonts come from the page's style sheet by class, so that light and dark differ there
alone.
"""

from __future__ import annotations

from dq_client.report.markup import Child, Markup, tag

CHARACTER_PX = 6.6  # mean width of a character at the font size of the charts
LINE_PX = 15.0
WIDE_PX, NARROW_PX = 880, 400  # drawn twice: for a desk and for a phone (style.css shows one)


def picture(
    name: str, width: float, height: float, title: str, description: str, *shapes: Child
) -> Markup:
    """An SVG image with an accessible title; `name` must be unique on the page."""
    return tag(
        "svg",
        tag("title", title, id=f"{name}-title"),
        tag("desc", description, id=f"{name}-desc"),
        *shapes,
        id=name,
        viewBox=f"0 0 {width:g} {height:g}",
        width=f"{width:g}",
        height=f"{height:g}",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
    )


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return tag(
        "line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=class_
    )  # fmt: skip


def rect(x: float, y: float, width: float, height: float, class_: str, *inside: Child) -> Markup:
    """A rectangle; `inside` may be a tooltip."""
    return tag(
        "rect", *inside, x=float(x), y=float(y), width=float(width), height=float(height),
        class_=class_,
    )  # fmt: skip


def words(x: float, y: float, text: str, class_: str = "", anchor: str = "middle") -> Markup:
    """A line of text with its base line at y."""
    return tag("text", text, x=float(x), y=float(y), text_anchor=anchor, class_=class_ or None)


def tooltip(text: str) -> Markup:
    """What a shape says under the pointer."""
    return tag("title", text)


def text_width(text: str) -> float:
    """About how wide `text` is drawn."""
    return len(text) * CHARACTER_PX


class Room:
    """Places taken on a picture: labels go where none is yet."""

    def __init__(self, left: float, top: float, right: float, bottom: float) -> None:
        self.bounds = (left, top, right, bottom)
        self.taken: list[tuple[float, float, float, float]] = []

    def take(self, left: float, top: float, right: float, bottom: float) -> None:
        """Nothing shall be written there."""
        self.taken.append((left, top, right, bottom))

    def place(self, text: str, spots: list[tuple[float, float]]) -> tuple[float, float] | None:
        """The first of `spots` (middle of the base line) with room for `text`, now taken."""
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
