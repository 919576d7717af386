"""HTML and SVG elements that escape by construction: a string that is not `Markup` is escaped.

Names come from users: a job may be called `<script>`. Because `tag` and `joined` escape, no caller
has to remember it. Colours and fonts of the SVG shapes come from style.css by class, so that light
and dark mode differ in that file alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

from dq_client.show.report.text import printable

Child: TypeAlias = "Markup | str | int | Iterable[Child] | None"
# HTML elements without an end tag.
VOID = frozenset({"meta", "br", "col", "hr"})


class Markup(str):
    """A string that is markup already and is not escaped again; made by this module only."""

    __slots__ = ()


def joined(*children: Child) -> Markup:
    """Concatenated children; plain text among them is escaped."""
    return Markup("".join(_text(child) for child in children))


def tag(name: str, /, *children: Child, **attributes: str | float | None) -> Markup:
    """An element. `class_` is class, `aria_label` aria-label; an attribute of None is left out."""
    words = [name]
    for key, value in attributes.items():
        if value is None:
            continue
        text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
        words.append(f'{key.rstrip("_").replace("_", "-")}="{escape(printable(text))}"')
    head = f"<{' '.join(words)}>"
    return Markup(head if name in VOID else f"{head}{joined(*children)}</{name}>")


def _text(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str):
        return escape(printable(child))
    if isinstance(child, int):
        return str(child)
    return joined(*child)


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
    """A line of text; `y` is its base line."""
    return tag("text", text, x=float(x), y=float(y), text_anchor=anchor, class_=class_ or None)


def tooltip(text: str) -> Markup:
    """The text shown while the pointer is over a shape."""
    return tag("title", text)
