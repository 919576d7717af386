"""HTML elements that escape by construction: a string that is not `Markup` is escaped.

Names come from users: a job may be called `<script>`. Because `tag` and `joined` escape, no caller
has to remember it.
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
