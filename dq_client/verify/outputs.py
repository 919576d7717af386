"""What programs print, compared line by line.

Ranks print in any order, and some lines have a clock's or a rank's numbers. Plain runs on several
sizes show which: if they print the same lines, in whatever order, so must the resized run. If not,
it must print the lines that all of them have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


class OutputLine(NamedTuple):
    """A line of output that differs. `number`: counted from 1, in the output that has it."""

    number: int
    plain: str
    resized: str


def first_difference(plain: list[str], resized: str, tolerance: float) -> OutputLine | None:
    """The first line that the resized run prints otherwise than the plain ones, or not at all."""
    first, *others = [text.splitlines() for text in plain]
    lines = resized.splitlines()
    shared = list(range(len(first)))
    alike = True
    for other in others:
        matched = _matches(first, other, tolerance)
        alike = alike and len(matched) == len(first) == len(other)
        shared = [k for k in shared if k in matched]
    there = _matches([first[k] for k in shared], lines, tolerance)
    missing = [shared[k] for k in range(len(shared)) if k not in there]
    extra = [k for k in range(len(lines)) if k not in there.values()]
    if missing:
        at = missing[0]
        return OutputLine(at + 1, first[at], _closest(first[at], [lines[k] for k in extra]))
    if alike and extra:
        return OutputLine(extra[0] + 1, "", lines[extra[0]])
    return None


def _matches(mine: list[str], theirs: list[str], tolerance: float) -> dict[int, int]:
    """For each line the one that equals it, each used once."""
    free: dict[str, list[int]] = {}
    for k, line in enumerate(theirs):
        free.setdefault(NUMBER.sub("#", line), []).append(k)
    found = {}
    for k, line in enumerate(mine):
        candidates = free.get(NUMBER.sub("#", line), [])
        match = next((c for c in candidates if same(line, theirs[c], tolerance)), None)
        if match is not None:
            candidates.remove(match)
            found[k] = match
    return found


def same(a: str, b: str, tolerance: float) -> bool:
    """Whether two lines have the same words, and numbers that are equal but for rounding."""
    if a == b:
        return True
    if NUMBER.sub("#", a) != NUMBER.sub("#", b):
        return False
    pairs = zip(NUMBER.findall(a), NUMBER.findall(b), strict=True)
    return all(_same_number(x, y, tolerance) for x, y in pairs)


def _same_number(x: str, y: str, tolerance: float) -> bool:
    if x == y:
        return True
    if x.lstrip("+-").isdigit() and y.lstrip("+-").isdigit():
        return False
    a, b = float(x), float(y)
    return abs(a - b) <= tolerance * max(abs(a), abs(b))


def _closest(line: str, others: Iterable[str]) -> str:
    """The line with the same words, if there is one."""
    words = NUMBER.sub("#", line)
    return next((other for other in others if NUMBER.sub("#", other) == words), "")
