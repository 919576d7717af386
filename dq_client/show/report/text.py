"""Text for people: times, counts and names, formatted alike on the page and on the terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

# Unicode categories of characters that move a cursor, reverse or hide text, or fail to encode:
# names come from users and are printed on other people's terminals.
_UNSAFE = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def printable(text: str) -> str:
    """`text` without control characters: names and reasons come from users."""
    if text.isascii() and text.isprintable():
        return text
    return "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in _UNSAFE else c
                   for c in text)  # fmt: skip


def seconds(value: float | None, digits: int = 3) -> str:
    """A time in seconds with a fitting unit: 430 µs, 82.3 ms, 1.24 s, 2m 05s, 3h 07m, 2d 04h.

    The one format of durations for people: the page's `duration` (web/static/text.js) is the same.
    """
    if value is None:
        return "–"
    if value == 0:
        return "0 s"
    if abs(value) < 1e-3:
        return f"{value * 1e6:.{digits}g} µs"
    if abs(value) < 0.9995:
        return f"{value * 1e3:.{digits}g} ms"
    if abs(value) < 99.5:
        return f"{value:.{digits}g} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02}s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h {minutes:02}m" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days}d {hours:02}h" if hours else f"{days} days"


def size(count: int | None) -> str:
    """Bytes for people: `12 MiB`, `1.5 GiB`."""
    if count is None:
        return "–"
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def share(part: float | None) -> str:
    """A part of one: `50 %`."""
    return "–" if part is None else f"{100 * part:.0f} %"


def processors(count: int) -> str:
    """`1 processor`, `4 processors`."""
    return f"{count} processor" if count == 1 else f"{count} processors"


def grid_words(grid: Sequence[int]) -> str:
    """`2×4`: rows by columns."""
    return f"{grid[0]}×{grid[1]}" if grid[0] else "–"  # no worker, no grid


def shortened(text: str, length: int) -> str:
    """At most `length` characters, the cut marked by an ellipsis."""
    return text if len(text) <= length else text[: max(0, length - 1)].rstrip() + "…"
