"""Iterators, files and readers: where they stand, and how those of another rank get there.

An iterator whose position can be read (`__reduce__`) is copied as a value. A file that is read, and
a csv reader over it, are moved in place. A generator keeps its position to itself.
"""

from __future__ import annotations

import csv
import ctypes
import gc
import itertools
from types import GeneratorType
from typing import Any

from resize_lib.mistakes import Mistake, caller
from resize_lib.state import digests

CSV_READER = type(csv.reader([]))
WRAPPERS = (enumerate, zip, map, filter)  # that a program may put around rs.iterations
DEPTH_MAX = 3
ENUMERATE_INDEX_AT = 2 * ctypes.sizeof(ctypes.c_ssize_t)  # behind reference count and type


class CannotCopyError(Exception):
    """A value that a rank which joins cannot be given."""


def file_position(file: Any) -> Any:
    """Name and position of a file that is read; None for one that is written or closed."""
    if file.closed or not _reads(file):
        return None
    try:
        return file.tell()
    except OSError:  # lines are being read by next(): the position is hidden
        raise digests.CannotDigestError("a file that is read line by line") from None


def set_file_position(file: Any, position: Any) -> None:
    """Go on reading there."""
    if position is not None:
        file.seek(position)


def file_fits(file: Any, position: Any) -> bool:
    """Whether this rank's file can be read from there, too."""
    return position is None or (not file.closed and _reads(file) and file.seekable())


def _reads(file: Any) -> bool:
    try:
        return bool(file.readable()) and not file.writable()
    except ValueError:
        return False


def advance_reader(reader: Any, line: int) -> None:
    """Read on up to this line."""
    while reader.line_num < line:
        next(reader)


def generator_position(generator: GeneratorType[Any, Any, Any]) -> Any:
    """Where a generator is; comparable, of no use elsewhere."""
    frame = generator.gi_frame
    if frame is None:
        return "ended"
    if generator.gi_running:
        return "running"  # it is one of the functions around the loop
    return frame.f_lasti, sorted(
        (name, value) for name, value in frame.f_locals.items() if type(value) in digests.ATOMS
    )


def refuse_generator(generator: Any, position: Any) -> None:
    """A generator cannot be given a position."""
    raise CannotCopyError(f"a generator cannot be copied ({generator.__name__}, {position})")


# --- what a program has put around rs.iterations itself -----------------------------------------


def wrappers_of(turns: Any) -> list[Any]:
    """The iterators around the loop's own, innermost first: `enumerate(rs.iterations(n))`."""
    found: list[Any] = []
    inner = turns
    while len(found) < DEPTH_MAX:
        around = [
            each
            for each in gc.get_referrers(inner)
            if isinstance(each, WRAPPERS) or type(each) is itertools.islice
        ]
        if len(around) != 1:
            break
        inner = around[0]
        found.append(inner)
    return found


def index_of(counter: enumerate[Any]) -> int:
    """The next number that it gives."""
    return int(counter.__reduce__()[1][1])


def set_index(counter: enumerate[Any], index: int) -> None:
    """Let it go on with this number.

    Raises:
        CannotCopyError: this Python keeps the number elsewhere.
    """
    place = ctypes.c_ssize_t.from_address(id(counter) + ENUMERATE_INDEX_AT)
    if place.value != index_of(counter):
        raise CannotCopyError("the position of enumerate cannot be set in this version of Python")
    place.value = index


def beside(wrapper: Any, turns: Any) -> tuple[list[Any], list[Any]]:
    """The iterators that a zip asks before ours, and after it."""
    parts = list(wrapper.__reduce__()[1])
    at = next(k for k, part in enumerate(parts) if part is turns)
    return parts[:at], parts[at + 1 :]


def go_on(turns: Any, count: int) -> None:
    """Let what a program has put around rs.iterations go on behind the first `count` turns.

    Raises:
        Mistake: that is not possible.
    """
    inner = turns
    for wrapper in wrappers_of(turns):
        if isinstance(wrapper, enumerate):
            set_index(wrapper, index_of(wrapper) + count)
        elif isinstance(wrapper, zip):
            before, after = beside(wrapper, inner)
            if before:
                raise Mistake(
                    f"{caller()}: a rank that joins cannot begin in the midst of this zip: put"
                    " rs.iterations first in it"
                )
            for iterator in after:
                if isinstance(iterator, GeneratorType):
                    raise Mistake(
                        f"{caller()}: a rank that joins cannot copy the generator"
                        f" {iterator.__name__} beside rs.iterations: use a list or a range"
                    )
                for _ in itertools.islice(iterator, count):
                    pass
        inner = wrapper
