"""Output of commands: data on stdout, notes on stderr, plain tables.

Tables are formatted here, not by rich: loading rich takes longer than `dq jobs` itself.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

SCHEMA = 1


def print_json(**data: Any) -> None:
    """Print one JSON object with the schema number."""
    print(json.dumps({"schema": SCHEMA, **data}), flush=True)


def note(text: str) -> None:
    """Print a note for the user on stderr, so that it never mixes with data."""
    print(text, file=sys.stderr, flush=True)


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table of aligned columns; columns of numbers are aligned to the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(head[i]), *(len(r[i]) for r in cells), 0) for i in range(len(head))]
    right = [bool(rows) and all(isinstance(r[i], int | float | None) for r in rows)
             for i in range(len(head))]  # fmt: skip

    def line(words: Sequence[str]) -> str:
        padded = (
            w.rjust(n) if r else w.ljust(n) for w, n, r in zip(words, widths, right, strict=True)
        )
        return "  ".join(padded).rstrip()

    return "\n".join([line(head), *(line(row) for row in cells)])


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def clock(time_s: float | None) -> str:
    """The time of day, in local time."""
    return "-" if time_s is None else time.strftime("%H:%M:%S", time.localtime(time_s))


def duration(seconds: float | None) -> str:
    """A duration for people: 4.2 s, 3:05, 1:02:03."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
