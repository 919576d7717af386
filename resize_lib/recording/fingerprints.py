"""Fingerprints of values: an exact part, and floating-point numbers that are compared by tolerance.

Sums over other numbers of ranks round otherwise, so a digest alone would find a difference in each
program that reduces. A fingerprint therefore has three parts:

    digest   of the structure and of everything in it that is exact: integers, texts, booleans
    numbers  the floating-point numbers, in order; more than NUMBERS_MAX are summed up in groups
    text     for people, short

Parts of a distributed array are summed up by global index, whoever holds them. Fingerprints of all
ranks' parts add up to that of the array on any number of ranks.
"""

from __future__ import annotations

import hashlib
import itertools
import reprlib
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resize_lib.state import digests
from resize_lib.state.objects import has_state_dict

NUMBERS_MAX = 64
GROUPS = 256  # of the global indices of a distributed array
LEAVES_MAX = 50_000  # of one value: what is beyond is not compared
DEPTH_MAX = 20
TEXT_MAX = 60
EXACT = (bool, int, str, bytes, type(None))
FOREIGN = ("resize_lib", "mpi4py")  # packages whose objects belong to no program
SHOWN = 4  # items of a value in a text
BRACKETS: dict[type, str] = {list: "[]", dict: "{}", set: "{}"}

Barred: TypeAlias = Callable[[NDArray[Any]], bool]


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Of one value."""

    digest: str
    numbers: list[float]
    text: str


@dataclass(slots=True)
class PartFingerprint:
    """Of one rank's part of a distributed array; those of all ranks are added up.

    exact    what has no floating-point numbers: hashes of index and contents, by group
    sums     of the numbers, and of the numbers times a weight of their index, by group
    sizes    of the numbers' absolute values, by group: what the sums are compared with
    total    items of the whole array; 0: they have no places
    """

    exact: list[int] = field(default_factory=list)
    sums: list[float] = field(default_factory=list)
    sizes: list[float] = field(default_factory=list)
    total: int = 0


def of(value: Any, barred: Barred) -> Fingerprint:
    """The fingerprint of any value; what cannot be read counts by its type alone.

    barred: whether the memory of an array must not be touched
    """
    reader = _Walk(barred)
    reader.read(value, 0)
    return Fingerprint(reader.digest(), _few(reader.numbers), text(value, barred))


def part(index: NDArray[np.int64], values: NDArray[Any], total: int) -> PartFingerprint:
    """The fingerprint of items of a distributed array of `total` items.

    index: the global number of each item, of the shape of `values`
    """
    flat, items = index.reshape(-1), np.ascontiguousarray(values).reshape(-1)
    group = flat * min(GROUPS, total) // max(total, 1)
    count = min(GROUPS, total)
    found = PartFingerprint(total=total)
    if items.dtype.kind not in "fc":
        found.exact = _hash_sums(flat, items, group, count)
    if items.dtype.kind not in "fciub":
        return found
    weight = (flat * 2654435761 % 4294967291) / 4294967291 + 0.5
    for numbers in [items.real, items.imag] if items.dtype.kind == "c" else [items]:
        wide = numbers.astype(np.float64)
        for each in (wide, wide * weight):
            found.sums += np.bincount(group, each, count).tolist()
            found.sizes += np.bincount(group, np.abs(each), count).tolist()
    return found


def records(items: NDArray[Any]) -> PartFingerprint:
    """The fingerprint of items without places of their own, such as particles: sums by field."""
    found = PartFingerprint(exact=[len(items)])
    names = items.dtype.names or ("",)
    for column in (items[name] if name else items for name in names):
        flat = np.ascontiguousarray(column).reshape(-1)
        if flat.dtype.kind != "f":
            none = np.zeros(len(flat), np.int64)
            found.exact += _hash_sums(none, flat, none, 1)
            continue
        for each in (flat.astype(np.float64), flat.astype(np.float64) ** 2):
            found.sums.append(float(each.sum()))
            found.sizes.append(float(np.abs(each).sum()))
    return found


def text(value: Any, barred: Barred) -> str:
    """A value for people, short."""
    try:
        said = " ".join(_said(value, barred, 0).split())
    except Exception:  # any class may raise anything
        said = f"a {type(value).__name__}"
    return said if len(said) <= TEXT_MAX else f"{said[: TEXT_MAX - 1]}…"


def _said(value: Any, barred: Barred, depth: int) -> str:
    kind = type(value)
    if isinstance(value, np.ndarray):
        if barred(value):
            return "array from before a resize"
        return f"array {value.shape}: {_listed(map(str, value.flat[:SHOWN].tolist()), value.size)}"
    if isinstance(value, np.generic):
        return str(value)
    if depth >= 2 and not isinstance(value, (*EXACT, float, complex)):
        return "…"
    if isinstance(value, dict | list | tuple | set | frozenset | deque):
        some = itertools.islice(value, SHOWN)
        if isinstance(value, dict):
            said = [f"{key!r}: {_said(value[key], barred, depth + 1)}" for key in some]
        else:
            said = [_said(each, barred, depth + 1) for each in some]
        brackets = BRACKETS.get(kind, "()")
        return f"{brackets[0]}{_listed(said, len(value))}{brackets[1]}"
    if hasattr(value, "__next__"):
        return _stand(value)
    if hasattr(value, "__dict__") and not isinstance(value, type):
        inside = itertools.islice(vars(value).items(), SHOWN)
        said = [f"{name}={_said(held, barred, depth + 1)}" for name, held in inside]
        return f"{kind.__name__}({_listed(said, len(vars(value)))})"
    plain: Any = kind.__repr__
    return f"<{kind.__name__}>" if plain is object.__repr__ else reprlib.repr(value)


def _listed(some: Iterable[str], count: int) -> str:
    return f"{', '.join(some)}{', …' if count > SHOWN else ''}"


def _stand(iterator: Any) -> str:
    """Where an iterator stands, for people."""
    kind = type(iterator).__name__
    if isinstance(iterator, types.GeneratorType):
        at = iterator.gi_frame
        return f"{kind} {iterator.__name__} {'ended' if at is None else f'at line {at.f_lineno}'}"
    parts = list(_contents(iterator))
    inside = [*parts, *(each for part in parts if isinstance(part, tuple) for each in part)]
    numbers = [each for each in inside if isinstance(each, int)]
    return f"{kind} at {numbers[0]}" if numbers else kind


def _hash_sums(
    index: NDArray[np.int64], items: NDArray[Any], group: NDArray[np.int64], count: int
) -> list[int]:
    """Sums of hashes of index and bytes of each item, by group; they do not depend on order."""
    if not items.dtype.itemsize or items.dtype.hasobject or not len(items):
        return [0] * count
    octets = items.view(np.uint8).reshape(len(items), items.dtype.itemsize)
    mixed = index.astype(np.uint64) + np.uint64(1)
    for column in octets.T:  # FNV-1a, for all items at once
        mixed = (mixed ^ column) * np.uint64(1099511628211)
    sums = np.zeros(count, np.uint64)
    np.add.at(sums, group, mixed ^ (mixed >> np.uint64(29)))
    return [int(each) for each in sums]


def _few(numbers: list[float]) -> list[float]:
    if len(numbers) <= NUMBERS_MAX:
        return numbers
    array = np.array(numbers)
    index = np.arange(len(array))
    weighted = array * (index * 2654435761 % 4294967291 / 4294967291 + 0.5)
    group = index * (NUMBERS_MAX // 2) // len(array)
    return [*np.bincount(group, array).tolist(), *np.bincount(group, weighted).tolist()]


class _Walk:
    """Takes in a value, structure by structure."""

    def __init__(self, barred: Barred) -> None:
        self.numbers: list[float] = []
        self._barred = barred
        self._sha = hashlib.sha256()
        self._left = LEAVES_MAX
        self._open: set[int] = set()

    def digest(self) -> str:
        return self._sha.hexdigest()[:16]

    def _note(self, what: str) -> None:
        self._sha.update(what.encode(errors="surrogatepass") + b"\0")

    def read(self, value: Any, depth: int) -> None:
        kind = type(value)
        self._left -= 1
        if self._left < 0 or depth > DEPTH_MAX or id(value) in self._open:
            self._note(f"… {kind.__name__}")
        elif isinstance(value, float | np.floating):
            self._note("number")
            self.numbers.append(float(value))
        elif isinstance(value, complex | np.complexfloating):
            self._note("complex")
            self.numbers += [float(value.real), float(value.imag)]
        elif isinstance(value, EXACT):
            self._note(f"{kind.__name__} {value!r}")
        elif isinstance(value, np.generic):
            self._note(f"{value.dtype} {value.tobytes().hex()}")
        elif isinstance(value, np.ndarray):
            self._array(value)
        else:
            self._open.add(id(value))
            self._structure(value, kind, depth + 1)
            self._open.discard(id(value))

    def _array(self, value: NDArray[Any]) -> None:
        self._note(f"array {value.shape} {value.dtype}")
        if self._barred(value):
            return
        if isinstance(value, np.ma.MaskedArray):
            self._sha.update(np.ma.getmaskarray(value).tobytes())
            value = value.filled(0)
        if value.dtype.kind == "f":
            self._many(value.astype(np.float64).reshape(-1))
        elif value.dtype.kind == "c":
            self._many(np.concatenate([value.real.reshape(-1), value.imag.reshape(-1)]))
        elif value.dtype.hasobject:
            self.read(value.tolist(), 1)
        else:
            self._sha.update(np.ascontiguousarray(value).tobytes())

    def _many(self, numbers: NDArray[Any]) -> None:
        if len(numbers) <= NUMBERS_MAX:
            self.numbers += numbers.tolist()
            return
        index = np.arange(len(numbers))
        group = index * NUMBERS_MAX // len(numbers)
        weight = index * 2654435761 % 4294967291 / 4294967291 + 0.5
        self.numbers += np.bincount(group, numbers * weight).tolist()

    def _structure(self, value: Any, kind: type, depth: int) -> None:
        self._note(f"{kind.__module__}.{kind.__qualname__}")
        if isinstance(value, dict):
            for key, item in list(value.items()):
                self.read(key, depth)
                self.read(item, depth)
        elif isinstance(value, set | frozenset):
            for shown in sorted(map(repr, value)):
                self._note(shown)
        elif isinstance(value, types.GeneratorType):
            at = value.gi_frame
            self._note("ended" if at is None else f"at {at.f_lasti}")
            if at is not None:
                self.read(dict(at.f_locals), depth)
        elif isinstance(value, type | types.ModuleType | types.FunctionType):
            self._note(getattr(value, "__qualname__", value.__name__))
        elif kind.__module__.startswith(FOREIGN):
            return
        elif hasattr(value, "detach") and hasattr(value, "cpu"):  # a tensor of torch
            self._array(np.asarray(value.detach().cpu().numpy()))
        elif has_state_dict(value):  # what of it travels; the rest is how it came to that
            self.read(value.state_dict(), depth)
        else:
            for each in _contents(value):
                self.read(each, depth)


def _contents(value: Any) -> Iterator[Any]:
    """What an object holds, in an order that is the same everywhere."""
    if isinstance(value, list | tuple):
        yield from value
        return
    kind: Any = type(value)
    ways = ("__reduce__", "__reduce_ex__", "__getstate__")
    own = any(getattr(kind, way, None) is not getattr(object, way, None) for way in ways)
    try:
        if hasattr(value, "__dict__") and not own:
            yield from sorted(vars(value).items())
            return
        reduced: Any = digests.reduced(value)
    except Exception:  # a socket, a file, a lock: any class may raise anything
        return
    if isinstance(reduced, tuple):
        yield from reduced[1:3]
        for more in reduced[3:5]:
            yield from more if more is not None else ()
