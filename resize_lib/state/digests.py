"""Canonical digests of values: equal values have equal digests in every process.

`pickle` does not give that: its bytes depend on which equal objects are identical, and on the order
of sets. Plain values go through `marshal` (version 2: no references, sets sorted), in C; everything
else is read structure by structure.
"""

from __future__ import annotations

import ast
import contextvars
import copy
import copyreg
import enum
import functools
import hashlib
import itertools
import marshal
import queue
import random
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

WEAK = (weakref.ref, weakref.WeakValueDictionary)
LOCK = type(threading.Lock())
ATOMS = frozenset((int, float, bool, type(None), str, bytes, complex))
MARSHAL_VERSION = 2
DIGEST_BYTES = 12
SHORT_BYTES = 24  # what is not longer stands for itself
X87_BITS = 63  # of the mantissa of a number that has 10 bytes and takes 16
HASHED_BYTES_MAX = 1 << 16  # larger arrays get a checksum that runs at memory speed
CHUNK_WORDS = 1 << 13
HALF_WORD = np.uint64(32)
SAMPLED_FROM_BYTES = 256 << 20  # larger than anything that may travel: a sample has to do
SAMPLES = 1 << 12
DEPTH_MAX = 200
OF_RANDOM = random.random.__self__  # type: ignore[attr-defined]  # it is read as a setting


class CannotDigestError(Exception):
    """A value whose contents cannot be read: the state of a socket, of a running generator."""


_sha1 = functools.partial(hashlib.sha1, usedforsecurity=False)  # the fastest that there is


def short(data: bytes) -> bytes:
    """`data`, or its digest where it is long."""
    return data if len(data) <= SHORT_BYTES else _sha1(data).digest()[:DIGEST_BYTES]


def digest_of(data: bytes) -> bytes:
    """The digest of `data`, however short."""
    return _sha1(data).digest()[:DIGEST_BYTES]


def plain(value: Any) -> bytes | None:
    """The digest of a value made of Python's own plain types only, of an array too; else None."""
    if isinstance(value, np.ndarray):
        return array(value)
    try:
        return short(marshal.dumps(value, MARSHAL_VERSION))
    except (ValueError, BufferError):
        return None


def array(value: NDArray[Any]) -> bytes:
    """The digest of a numpy array: shape, type and contents.

    Raises:
        CannotDigestError: an item that cannot be read.
    """
    if value.dtype.names is not None:  # field by field: what is between them is anything
        parts = [name.encode() + array(value[name]) for name in value.dtype.names]
        return short(f"{value.shape}{value.dtype!r}".encode() + b"".join(parts))
    head = f"{value.shape}{value.dtype.str}"
    if value.dtype.hasobject:
        return short(head.encode() + of(value.tolist()))
    data = value if value.flags.c_contiguous else np.ascontiguousarray(value)
    raw = data.reshape(-1).view(np.uint8) if data.size else np.empty(0, np.uint8)
    if value.dtype.kind in "fc" and data.size and np.finfo(value.dtype).nmant == X87_BITS:
        raw = np.ascontiguousarray(raw.reshape(-1, 16)[:, :10]).reshape(-1)  # the rest is anything
    if raw.nbytes <= HASHED_BYTES_MAX:
        return short(head.encode() + raw.tobytes())
    if raw.nbytes > SAMPLED_FROM_BYTES:
        step = raw.nbytes // SAMPLES
        return short(head.encode() + b"sample" + raw[::step].tobytes() + raw[-64:].tobytes())
    return short(head.encode() + b"sum%d" % _checksum(raw))


_weights = np.empty(0, np.uint64)


def _checksum(raw: NDArray[np.uint8]) -> int:
    """Of all bytes and their places, faster than any hash.

    A sum of words times weights keeps the bits of a difference that lie above its lowest one. Two
    floats often differ in their highest bits only, so the upper halves are summed by themselves:
    33 bits at least remain of any difference.
    """
    global _weights
    if not len(_weights):
        count = CHUNK_WORDS + 1
        drawn = np.random.Generator(np.random.PCG64(7)).integers(0, 1 << 63, count, np.uint64)
        _weights = drawn | np.uint64(1)  # odd: no bit of a word is lost
    upper = np.empty(CHUNK_WORDS, np.uint64)
    whole = raw.nbytes // 8 * 8
    words = raw[:whole].view(np.uint64) if raw.ctypes.data % 8 == 0 else None
    if words is None:
        words = raw[:whole].copy().view(np.uint64)
    found = int.from_bytes(raw[whole:].tobytes(), "little")
    for start in range(0, len(words), CHUNK_WORDS):
        chunk = words[start : start + CHUNK_WORDS]
        n = len(chunk)
        np.right_shift(chunk, HALF_WORD, out=upper[:n])
        high, low = np.dot(upper[:n], _weights[1 : n + 1]), np.dot(chunk, _weights[:n])
        found = (found * 0x9E3779B97F4A7C15 + (int(high) << 64) + int(low)) % (1 << 128)
    return found


# Returns what stands for an object that is known by another name; None: it is read. The second
# argument is False inside of an object that only its class can read.
Token: TypeAlias = Callable[[Any, bool], bytes | None]


def of(value: Any, token: Token | None = None) -> bytes:
    """The digest of any value.

    Raises:
        CannotDigestError: a part of it cannot be read.
    """
    return short(_Reader(token or (lambda _value, _new: None)).read(value, 0))


class _Reader:
    def __init__(self, token: Token) -> None:
        self._known = token
        self._opaque = 0  # objects around that only their class can read
        self._open: dict[int, int] = {}  # objects that are being read, by id
        self._done: dict[int, tuple[Any, bytes]] = {}  # those that have been

    def _token(self, value: Any) -> bytes | None:
        return self._known(value, not self._opaque)

    def read(self, value: Any, depth: int) -> bytes:
        kind = type(value)
        if kind in ATOMS:
            return marshal.dumps(value, MARSHAL_VERSION)
        known = self._token(value)
        if known is not None:
            return b"@" + known
        if kind is np.ndarray:
            return b"A" + array(value)
        if isinstance(value, types.ModuleType):
            return f"m{value.__name__}".encode()
        if isinstance(value, type) or _is_function_in_c(value):
            return f"N{getattr(value, '__module__', '')}.{_name(value)}".encode()
        if isinstance(value, enum.Enum):
            own = value.value if type(value.value) in ATOMS else ""
            return f"E{kind.__qualname__}.{value.name}{own}".encode()
        if isinstance(value, types.FunctionType):
            return f"F{value.__module__}.{value.__qualname__}".encode()
        if id(value) in self._open:
            return b"^%d" % self._open[id(value)]
        if id(value) in self._done:  # objects that several others refer to are read once
            return self._done[id(value)][1]
        if depth > DEPTH_MAX:
            raise CannotDigestError("nested too deeply")
        self._open[id(value)] = len(self._open)
        try:
            found = short(self._parts(value, kind, depth + 1))
        finally:
            del self._open[id(value)]
        self._done[id(value)] = value, found  # held: no other object gets its id
        return found

    def _parts(self, value: Any, kind: type, depth: int) -> bytes:
        if kind is tuple or kind is list:
            head = b"(" if kind is tuple else b"["
            return head + self._joined(self.read(part, depth) for part in value)
        if kind is dict:
            return b"{" + self._items(value, depth)
        if kind is set or kind is frozenset:
            head = b"<" if kind is set else b">"
            return head + self._joined(sorted(self.read(part, depth) for part in value))
        if isinstance(value, np.generic) and value.dtype.kind in "fcV":
            return f"n{kind.__name__}".encode() + array(np.asarray(value))
        if isinstance(value, weakref.WeakSet):  # in any order: which is first has no meaning
            return b"W%d" % len(value)
        if isinstance(value, WEAK):  # which object it is; inside of a package's objects: any
            parts: Any = [("", value())] if isinstance(value, weakref.ref) else value.items()
            return b"W" + (b"" if self._opaque else self._items(dict(parts), depth))
        if isinstance(value, LOCK):
            return b"L%d" % value.locked()
        if isinstance(value, contextvars.ContextVar):
            return b"V" + self.read(value.get(None), depth)
        if _is_idle(value):
            return f"X{kind.__module__}.{kind.__qualname__}".encode()
        if isinstance(value, PurePath):  # some Pythons keep how it was put together
            return f"P{kind.__qualname__}{value}".encode()
        if isinstance(value, types.CodeType):  # cannot change
            return f"C{value.co_filename}{value.co_names}".encode() + value.co_code
        if functions := wrapped(value):
            return b"D" + self._joined(self.read(each, depth) for each in functions)
        if isinstance(value, types.MethodType | types.BuiltinMethodType):
            return b"M" + value.__name__.encode() + self.read(value.__self__, depth)
        if hasattr(value, "detach") and hasattr(value, "cpu"):  # a tensor of torch
            return b"T" + array(np.asarray(value.detach().cpu().numpy()))
        ma = sys.modules.get("numpy.ma")  # seldom, and large
        if ma is not None and isinstance(value, ma.MaskedArray):  # pickle sets its fill value
            return b"K" + array(np.asarray(ma.getdata(value))) + array(ma.getmaskarray(value))
        self._opaque += 1
        try:
            return self._reduced(value, kind, depth)
        finally:
            self._opaque -= 1

    def _items(self, value: dict[Any, Any], depth: int) -> bytes:
        return self._joined(
            self.read(k, depth) + b":" + self.read(v, depth) for k, v in value.items()
        )

    def _joined(self, parts: Any) -> bytes:
        sha = _sha1()
        for part in parts:
            sha.update(len(part).to_bytes(4, "little") + part)
        return sha.digest()[:DIGEST_BYTES]

    def _reduced(self, value: Any, kind: type, depth: int) -> bytes:
        """Of an object that says itself how it is copied."""
        parts = reduced(value)
        if isinstance(parts, str):
            return b"G" + parts.encode()
        function, arguments, *rest = parts
        state = rest[0] if rest else None
        if kind is itertools.cycle:
            arguments, state = _place_in_cycle(arguments, state)
        if kind is itertools.zip_longest:  # a part that is used up is () or an iterator
            arguments = tuple(iter(part) if part == () else part for part in arguments)
        if function is iter and len(arguments) == 1:
            return b"I" + self._remaining(arguments[0], state, depth)
        items = list(rest[1]) if len(rest) > 1 and rest[1] is not None else []
        pairs = list(rest[2]) if len(rest) > 2 and rest[2] is not None else []
        head = f"R{kind.__module__}.{kind.__qualname__}.{_name(function)}".encode()
        contents = (list(arguments), state, items, pairs)
        if isinstance(value, set | frozenset):
            contents = ([], state, sorted(self.read(part, depth) for part in value), [])
        return head + self._joined(self.read(part, depth) for part in contents)

    def _remaining(self, items: Any, index: Any, depth: int) -> bytes:
        """Of an iterator: what it still gives, however it came to that."""
        known = self._token(items)
        if known is not None or not hasattr(items, "__getitem__"):
            return (known or self.read(items, depth)) + repr(index).encode()
        rest = items[index or 0 :]
        return self.read(rest if isinstance(rest, range | str | bytes) else tuple(rest), depth)


def _place_in_cycle(arguments: Any, state: Any) -> tuple[Any, Any]:
    """The items and which is next, where `cycle` has seen them all; else as they are."""
    saved, complete = state
    if not complete or not saved:
        return arguments, state
    left = len(list(copy.copy(arguments[0])))
    return [saved, (len(saved) - left) % len(saved)], None


def count_by_text(counter: itertools.count[Any]) -> tuple[type, tuple[Any, ...]]:
    """How a counter is copied by what its text says: `count(7, 2)`.

    Raises:
        ValueError: it counts by other numbers than Python's own.
    """
    said = ast.literal_eval(repr(counter).removeprefix("count"))
    return itertools.count, said if isinstance(said, tuple) else (said,)


if sys.version_info >= (3, 14):  # no longer copies anything of itertools itself
    copyreg.pickle(itertools.count, count_by_text)


def reduced(value: Any) -> str | tuple[Any, ...]:
    """What pickle would make of an object: a function, its arguments, and the state.

    Raises:
        CannotDigestError: it cannot be pickled.
    """
    special = copyreg.dispatch_table.get(type(value))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # itertools, from Python 3.12 on
            found: str | tuple[Any, ...] = (
                special(value) if special is not None else value.__reduce_ex__(4)
            )
    except Exception as e:  # any class may raise anything
        raise CannotDigestError(f"cannot copy a {type(value).__name__}: {e}") from e
    return found


def wrapped(value: Any) -> list[Any]:
    """The functions in what a class has as a property, a static or class method; else none."""
    match value:
        case staticmethod() | classmethod():
            return [value.__func__]
        case property():
            return [value.fget, value.fset, value.fdel]
        case functools.cached_property():
            return [value.func]
    return []


def _is_idle(value: Any) -> bool:
    """Whether this is an empty queue, or a pool of threads in which no call waits for one.

    Each rank has threads of its own, which know nothing between two calls.
    """
    if type(value) is queue.SimpleQueue:
        return value.empty()
    futures = sys.modules.get("concurrent.futures.thread")  # without: there is no such pool
    is_pool = futures is not None and type(value) is futures.ThreadPoolExecutor
    return is_pool and value._work_queue.empty()


def _is_function_in_c(value: Any) -> bool:
    """Whether it is one of a module or class, or draws from the generator of `random`.

    Not a method of an object, as in `pop = [1, 2].pop`.
    """
    if not isinstance(value, types.BuiltinFunctionType):
        return False
    owner = value.__self__
    return owner is None or isinstance(owner, types.ModuleType | type) or owner is OF_RANDOM


def _name(value: Any) -> str:
    return str(getattr(value, "__qualname__", getattr(value, "__name__", type(value).__name__)))
