"""`dq submit --array 0-99%8` and `--each-line FILE`."""

from __future__ import annotations

import re
from pathlib import Path

from dq_client.base.errors import UsageError
from dq_client.base.messages import Array

ELEMENTS_MAX, INDEX_MAX, LINE_MAX = 10_000, 10_000_000, 4000
LINES_BYTES_MAX = 500_000  # a submission is one message of at most a mebibyte
PART = r"([0-9]{1,8})(?:-([0-9]{1,8})(?::([0-9]{1,8}))?)?"
HOW = "give 0-99, 1,3,7-9 or 0-20:5, and perhaps %8 behind it for at most 8 at once"


def parse_array(text: str | None, lines_of: Path | None) -> Array | None:
    """The array that the options ask for; None without them. UsageError of one line."""
    if text is None and lines_of is None:
        return None
    lines = _lines(lines_of) if lines_of is not None else []
    which, percent, at_most = (text or "").partition("%")
    if percent and not (
        at_most.isascii() and at_most.isdecimal() and 0 < int(at_most) <= INDEX_MAX
    ):
        raise UsageError(f"--array {text}: {HOW}")
    if lines_of is not None and not which:
        indices = list(range(len(lines)))
    else:
        indices = _indices(text or "", which)
    if lines_of is not None:
        if max(indices) >= len(lines):
            raise UsageError(
                f"--array {text}: {lines_of} has lines 0 to {len(lines) - 1}, none {max(indices)}"
            )
        lines = [lines[k] for k in indices]
    return Array(indices=indices, at_most=int(at_most or 0), lines=lines)


def _indices(text: str, which: str) -> list[int]:
    """The indices in ascending order."""
    found: set[int] = set()
    for word in which.split(","):
        part = re.fullmatch(PART, word)
        if part is None:
            raise UsageError(f"--array {text}: {HOW}")
        first, last, step = int(part[1]), int(part[2] or part[1]), int(part[3] or 1)
        if last > INDEX_MAX:
            raise UsageError(f"--array {text}: an index is at most {INDEX_MAX}; {HOW}")
        if last < first or step < 1:
            raise UsageError(f"--array {text}: {word} names no index; {HOW}")
        if (last - first) // step >= ELEMENTS_MAX or len(found) > ELEMENTS_MAX:
            raise UsageError(f"--array {text}: an array has at most {ELEMENTS_MAX} jobs")
        found.update(range(first, last + 1, step))
    if len(found) > ELEMENTS_MAX:
        raise UsageError(f"--array {text}: an array has at most {ELEMENTS_MAX} jobs")
    return sorted(found)


def _lines(path: Path) -> list[str]:
    """The lines of a file that are not blank."""
    try:
        lines = [line for line in path.read_text().splitlines() if line.strip()]
    except OSError as e:
        raise UsageError(f"--each-line {path}: {e.strerror}") from e
    except UnicodeDecodeError as e:
        raise UsageError(f"--each-line {path}: not text in UTF-8: {e}") from e
    if not 0 < len(lines) <= ELEMENTS_MAX:
        raise UsageError(
            f"--each-line {path}: {len(lines)} lines; an array has 1 to {ELEMENTS_MAX} jobs"
        )
    if max(map(len, lines)) > LINE_MAX or sum(map(len, lines)) > LINES_BYTES_MAX:
        raise UsageError(
            f"--each-line {path}: a line has at most {LINE_MAX} characters, all together"
            f" {LINES_BYTES_MAX}: give the names of files instead"
        )
    return lines
