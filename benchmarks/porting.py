"""What it costs to make a program resizable, in lines, over the pairs of docs/examples/porting.

    python -m benchmarks.porting            # --json for programs

Counted are lines of code: without blank lines, comments and docstrings, and without their
indentation, because `with rs:` moves many lines to the right. Both versions are compared as diff
compares them. A block that replaces another one counts line by line: as many as both have are
*changed*, what the new one has more is *added*, what the old one had more is *removed*. *Written*
is changed and added together, every line that the old program does not have: what `diff` marks with
a plus.
"""

from __future__ import annotations

import ast
import difflib
import io
import json
import sys
import tokenize
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from harness.commands import ROOT

PAIRS = ROOT / "docs" / "examples" / "porting"
NO_CODE = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


@dataclass(frozen=True)
class Cost:
    """Of one pair, in lines; `before`: all lines of the old program."""

    name: str
    before: int
    added: int
    changed: int
    removed: int

    @property
    def written(self) -> int:
        """All lines that the old program does not have."""
        return self.added + self.changed


def code_lines(source: str) -> list[str]:
    """The lines of code of a program, without indentation and comments."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if not (isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)):
            continue
        if isinstance(first.value.value, str):
            docstrings.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    ends: dict[int, int] = {}  # line -> column where its code ends
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            for line in range(token.start[0], token.end[0] + 1):
                ends[line] = token.end[1] if line == token.end[0] else sys.maxsize
    lines = source.splitlines()
    return [lines[n - 1][: ends[n]].strip() for n in sorted(ends) if n not in docstrings]


def cost(name: str, before: str, after: str) -> Cost:
    """Compare two versions of a program."""
    old, new = code_lines(before), code_lines(after)
    added = changed = removed = 0
    for what, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what != "equal":
            both = min(j - i, m - k)
            changed += both
            added += m - k - both
            removed += j - i - both
    return Cost(name, len(old), added, changed, removed)


def pairs() -> list[tuple[Path, Path]]:
    """The two versions of each program."""
    return [(path, PAIRS / "after" / path.name) for path in sorted(PAIRS.glob("before/*.py"))]


def costs() -> list[Cost]:
    """Of all pairs."""
    return [cost(old.stem, old.read_text(), new.read_text()) for old, new in pairs()]


def main() -> None:
    """Print the table."""
    found = costs()
    middle = {
        what: median(getattr(c, what) for c in found)
        for what in ("before", "added", "changed", "removed", "written")
    }
    if "--json" in sys.argv[1:]:
        rows = [{**asdict(c), "written": c.written} for c in found]
        print(json.dumps({"schema": 1, "pairs": rows, "median": middle}))
        return
    print(f"{'lines':12} {'before':>7} {'added':>7} {'changed':>8} {'removed':>8} {'written':>8}")
    for c in found:
        print(f"{c.name:12} {c.before:7} {c.added:7} {c.changed:8} {c.removed:8} {c.written:8}")
    print("{:12} {:7g} {:7g} {:8g} {:8g} {:8g}".format("median", *middle.values()))


if __name__ == "__main__":
    main()
