"""Output of commands: data on stdout, notes on stderr, plain tables.

Tables are formatted here, not by rich: loading rich takes longer than `dq jobs` itself.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any
from unicodedata import combining, east_asian_width

from dq_client.show.report.text import printable

SCHEMA = 1
SHORTEST = 8  # columns that a shortened column keeps
COLOURS = {"running": "32", "starting": "32", "failed": "31", "killed": "33", "done": "2"}


def print_json(**data: Any) -> None:
    """Print one JSON object with the schema number."""
    print(json.dumps({"schema": SCHEMA, **data}), flush=True)


def say(*words: object) -> None:
    """Print a text for people."""
    print(shown(" ".join(map(str, words))), flush=True)


def note(text: str) -> None:
    """Print a note for the user on stderr, so that it never mixes with data."""
    print(shown(text), file=sys.stderr, flush=True)


def shown(text: str) -> str:
    """A text of several lines as it may reach a terminal: much of it are words of others."""
    return "\n".join(printable(line.expandtabs()) for line in text.split("\n"))


def say_coloured(lines: Iterable[str], states: Iterable[str]) -> None:
    """Print the lines of jobs, each in the colour of its job's state."""
    each = zip(lines, states, strict=True)
    text = "\n".join(coloured(shown(line), state) for line, state in each)
    print(text, end="\n" * bool(text), flush=True)


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    width: int | None = None,
    shortened: str = "",
) -> str:
    """A table of aligned columns; columns of numbers are aligned to the right.

    `width`: where it would be wider, the column `shortened` gets shorter, as far as it can.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(columns(head[i]), *(columns(r[i]) for r in cells), 0) for i in range(len(head))]
    right = [bool(rows) and all(isinstance(r[i], int | float | None) for r in rows)
             for i in range(len(head))]  # fmt: skip
    too_wide = sum(widths) + 2 * (len(head) - 1) - (width or 0)
    if width is not None and too_wide > 0 and shortened in head:
        k = list(head).index(shortened)
        widths[k] = max(SHORTEST, columns(shortened), widths[k] - too_wide)
        for row in cells:
            row[k] = shorten(row[k], widths[k])

    def line(words: Sequence[str]) -> str:
        padded = (
            (" " * (n - columns(w))) + w if r else w + " " * (n - columns(w))
            for w, n, r in zip(words, widths, right, strict=True)
        )
        return "  ".join(padded).rstrip()

    return "\n".join([line(head), *(line(row) for row in cells)])


def columns(text: str) -> int:
    """How many columns of a terminal the text takes: wide characters (CJK) take two."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 2 if east_asian_width(c) in ("W", "F") else 1 for c in text)


def shorten(text: str, width: int) -> str:
    """The text in at most `width` columns; one that was cut ends with an ellipsis."""
    if columns(text) <= width:
        return text
    kept = ""
    for c in text:
        if columns(kept + c) >= width:
            break
        kept += c
    return kept + "…"


def terminal_width() -> int | None:
    """Columns of the terminal that stdout is; None if it is none: a pipe gets everything."""
    if not sys.stdout.isatty():
        return None
    import shutil  # it imports three compressors

    return shutil.get_terminal_size().columns


def coloured(line: str, word: str) -> str:
    """The line of a job in this state, in its colour on a terminal (not where NO_COLOR is set)."""
    code = COLOURS.get(word)
    if code is None or not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return line
    return f"\033[{code}m{line}\033[0m"


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return printable(str(value))


def clock(time_s: float | None) -> str:
    """The time of day, in local time."""
    return "-" if time_s is None else time.strftime("%H:%M:%S", time.localtime(time_s))
