"""Shows the tables of harness/resize_protocol.py as docs/spec/resize.md has them.

python -m harness.resize_tables [--write]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.resize_protocol import TABLES, TRANSITIONS, Failure, Table

PAGE = Path(__file__).parents[1] / "docs/spec/resize.md"
BLOCK = re.compile(r"(<!-- table: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def _rows(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _calls(text: str) -> str:
    return f"`{text}`" if text else ""


def stages(table: Table) -> str:
    """One row for each stage."""
    rows = [
        (
            each.name, each.roles, each.state.value, _calls(each.calls),
            each.failure.name if each.agrees else "END", _calls(each.told),
        )
        for each in table
    ]  # fmt: skip
    head = ("stage", "roles", "state", "calls", "an error leads to", "after calls")
    return _rows(head, rows)


def shown(name: str) -> str:
    """The table of this name."""
    if name == "states":
        rows = [
            (state.value, ", ".join(sorted(each.value for each in then)) or "none")
            for state, then in TRANSITIONS.items()
        ]
        return _rows(("state", "may be followed by"), rows)
    if name == "failures":
        return _rows(("error", "recovery"), [(f.name, f.value) for f in Failure])
    return stages(TABLES[name])


def filled(text: str) -> str:
    """The page with its tables as they are now."""
    return BLOCK.sub(lambda found: f"{found[1]}{shown(found[2])}{found[4]}", text)


if __name__ == "__main__":
    page = filled(PAGE.read_text())
    if "--write" in sys.argv:
        PAGE.write_text(page)
    else:
        print(page)
