"""Iterators, files and readers: where they stand, and how those of another rank get there.

An iterator whose position can be read (`__reduce__`) is copied as a value. A file that is read, and
a csv reader over it, are moved in place. A generator keeps its position to itself.
"""

from __future__ import annotations

import csv
import ctypes
import gc
import io
import itertools
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import GeneratorType
from typing import Any

from resize_lib.mistakes import Mistake, caller
from resize_lib.state import digests
from resize_lib.state.program import LOOPS, LoopItems, Sequences

CSV_READER = type(csv.reader([]))
STANDARD = (0, 1, 2)  # output that goes to the job's files
ON_DISK = (io.BufferedWriter, io.BufferedRandom, io.FileIO)
WRITTEN_BYTES_MAX = 16 << 20
DEPTH_MAX = 20  # of what a program puts around rs.iterations
BUILT_IN = (enumerate, zip, map, filter)
OVER_ITEMS: tuple[type, ...] = (type(iter([])), type(iter(())))
# of itertools: the others know how far they are, and keep it to themselves
WITHOUT_POSITION = (itertools.chain, itertools.filterfalse, itertools.starmap, itertools.takewhile)
ENUMERATE_INDEX_AT = 2 * ctypes.sizeof(ctypes.c_ssize_t)  # behind reference count and type


class CannotCopyError(Exception):
    """A value that a rank which joins cannot be given."""


def file_position(file: Any) -> Any:
    """Position and size of a file that can be read; None for one that is written or closed."""
    if file.closed or not file.readable() or not file.seekable():
        return None
    try:
        return file.tell(), _size(file)
    except OSError:  # lines are being read by next(): the position is hidden
        raise digests.CannotDigestError("a file that is read line by line") from None


def set_file_position(file: Any, position: Any) -> None:
    """Go on reading there; a file that the rank has written itself stays where it is."""
    if position is not None and position[1] == _size(file):
        file.seek(position[0])


def file_fits(file: Any, position: Any) -> bool:
    """Whether this rank's file can be read from there, too."""
    if position is None:
        return True
    here = not file.closed and file.readable() and file.seekable()
    return here and (file.writable() or position[1] == _size(file))


def written(file: Any) -> tuple[Any, bytes, Any] | None:
    """Position, contents and name of a file on disk that the rank writes; None: it writes none.

    Raises:
        CannotCopyError: what is written does not show in the file, or is too large.
    """
    if file.closed or not file.writable():
        return None
    try:
        number = file.fileno()
    except (OSError, AttributeError):
        number = -1
    if number in STANDARD or (number >= 0 and not stat.S_ISREG(os.fstat(number).st_mode)):
        return None
    plain = type(getattr(file, "buffer", file)) in ON_DISK
    if number < 0 or not plain or os.fstat(number).st_size > WRITTEN_BYTES_MAX:
        raise CannotCopyError(
            f"a file that is open for writing, compressed or above {WRITTEN_BYTES_MAX >> 20} MiB:"
            " open and close it in the iterations that write to it"
        )
    file.flush()
    return file.tell(), Path(f"/proc/self/fd/{number}").read_bytes(), file.name


def rewrite(file: Any, contents: tuple[Any, bytes, Any]) -> None:
    """Give a file what it had; the set-up may have emptied it."""
    if isinstance(file.name, str) and file.name != contents[2]:
        return
    file.flush()
    file.seek(0)
    file.truncate()
    raw = getattr(file, "buffer", file)
    raw.write(contents[1])
    raw.flush()
    file.seek(contents[0])


def _size(file: Any) -> int:
    try:
        return os.fstat(file.fileno()).st_size
    except (OSError, AttributeError):  # an archive's member, for example
        return -1


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


def refuse_generator(generator: Any) -> None:
    """A generator cannot be copied."""
    raise CannotCopyError(
        f"{generator.__name__} is a generator: use a list, a range or an iterator"
    )


# --- what a program has put around rs.iterations itself -----------------------------------------


def wrappers_of(iterations: Any) -> list[Any]:
    """The iterators around the loop's own, innermost first: `enumerate(rs.iterations(n))`."""
    found: list[Any] = []
    inner = iterations
    while len(found) < DEPTH_MAX:
        around = _wrappers(gc.get_referrers(inner))
        if len(around) != 1:
            break
        inner = around[0]
        found.append(inner)
    return found


def _wrappers(referrers: list[Any]) -> list[Any]:
    found = [each for each in referrers if _wraps(each)]
    # zip and map keep their iterators in a tuple.
    tuples = [each for each in referrers if type(each) is tuple]
    for each in tuples:
        found += [outer for outer in gc.get_referrers(each) if _wraps(outer)]
    return list({id(each): each for each in found}.values())


def _wraps(value: Any) -> bool:
    return isinstance(value, BUILT_IN) or type(value).__module__ == "itertools"


def sequences(items: Sequence[LoopItems | None], running: Iterable[Any]) -> Sequences:
    """What loops that run are over, and iterators beside them.

    running: what rs.iterations has returned for these loops
    """
    beside = list[Any]()
    for iterations in running if any(each and each.zipped for each in items) else ():
        inner = iterations
        for wrapper in wrappers_of(iterations):
            if isinstance(wrapper, zip | map):
                before, after = _beside(wrapper, inner)
                beside += [*map(_from_taken, before), *after]  # those before: asked already
            inner = wrapper
    last = next((each for each in reversed(items) if each), None)
    file, line = (last.file, last.line) if last else ("", 0)
    return Sequences(LOOPS, file, 0, line, None, None, tuple(items), tuple(beside))


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


def _beside(wrapper: Any, iterations: Any) -> tuple[list[Any], list[Any]]:
    """The iterators that a zip or a map asks before ours, and after it."""
    parts = list(wrapper.__reduce__()[1])
    at = next(k for k, part in enumerate(parts) if part is iterations)
    return parts[isinstance(wrapper, map) : at], parts[at + 1 :]


def _from_taken(part: Any) -> Any:
    """What an iterator gives, the item included that it has given last, where it is known."""
    if isinstance(part, BUILT_IN):
        return type(part).__name__, *map(_from_taken, part.__reduce__()[1])
    if type(part) not in OVER_ITEMS:
        return part
    _, (items, *_), *index = part.__reduce__()
    return tuple(items[index[0] - 1 :]) if index and index[0] else part


def obstacle(iterations: Any) -> str:
    """Why what a program has put around rs.iterations cannot go on in the midst of the loop."""
    inner = iterations
    for wrapper in wrappers_of(iterations):
        if isinstance(wrapper, zip | map):
            before, after = _beside(wrapper, inner)
            if before and isinstance(wrapper, map):
                return (
                    "a rank that joins cannot begin in the midst of this map: give it"
                    " rs.iterations first"
                )
            for iterator in before + after:
                if isinstance(iterator, GeneratorType):
                    return (
                        f"a rank that joins cannot copy the generator {iterator.__name__} beside"
                        " rs.iterations: use a list or a range"
                    )
        elif _has_position(wrapper) and not isinstance(wrapper, enumerate):
            return (
                f"a rank that joins cannot begin in the midst of this {type(wrapper).__name__}:"
                " write it into the loop over rs.iterations"
            )
        inner = wrapper
    return ""


def go_on(iterations: Any, count: int) -> None:
    """Let what a program has put around rs.iterations go on behind the first `count` iterations.

    Raises:
        Mistake: that is not possible.
    """
    why = obstacle(iterations)
    if why:
        raise Mistake(f"{caller()}: {why}")
    inner = iterations
    for wrapper in wrappers_of(iterations):
        if isinstance(wrapper, enumerate):
            set_index(wrapper, index_of(wrapper) + count)
        elif isinstance(wrapper, zip | map):
            before, after = _beside(wrapper, inner)
            for iterator in after:
                _nth(iterator, count)
            for at, iterator in enumerate(before if count else []):
                _give_instead(wrapper, len(before), at, _nth(iterator, count))
        inner = wrapper


def _has_position(wrapper: Any) -> bool:
    """Whether it knows how many items it has given."""
    if isinstance(wrapper, map):
        return len(wrapper.__reduce__()[1]) > 2  # a function and one iterator: no
    return not isinstance(wrapper, (filter, *WITHOUT_POSITION))


def _nth(iterator: Iterator[Any], count: int) -> Any:
    """The last of the next `count` items; None if there are fewer."""
    item = None
    for item in itertools.islice(iterator, count):  # noqa: B007 (used behind the loop)
        pass
    return item


def _give_instead(wrapper: Any, ours: int, at: int, item: Any) -> None:
    """Let the zip, which waits for our first iteration, give this item at place `at`.

    It has filled the places before ours of the tuple that it gives first, and nobody else has seen
    that tuple.

    Raises:
        Mistake: it is not the first that it gives.
    """
    tuples = [each for each in gc.get_referents(wrapper) if type(each) is tuple]
    given = next((each for each in tuples if each[ours] is None), None)
    address = id(given) + tuple.__basicsize__ + at * ctypes.sizeof(ctypes.c_void_p)
    place = ctypes.c_void_p.from_address(address)
    if given is None or place.value != id(given[at]):
        raise Mistake(
            f"{caller()}: a rank that joins cannot begin in the midst of this zip: put"
            " rs.iterations first in it"
        )
    former = given[at]
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(item))
    place.value = id(item)
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(former))


def go_back(iterations: Any, count: int) -> None:
    """Let what a program has put around rs.iterations give the last `count` iterations once more.

    Raises:
        CannotCopyError: that is not possible.
    """
    for wrapper in wrappers_of(iterations):
        if isinstance(wrapper, enumerate):
            set_index(wrapper, index_of(wrapper) - count)
        elif _has_position(wrapper):
            raise CannotCopyError(f"a {type(wrapper).__name__} around rs.iterations cannot go back")
