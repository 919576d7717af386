"""Messages of every role with the boundary values of every field (for benchmarks/fuzz.py).

Each message is right but for one or two values, and is sent as plain data: types and limits are
checked by the server alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import msgspec.inspect as mi
from msgspec import msgpack

from dq_client.base import messages as m

NUMBERS = (0, 1, -1, 2**31, 2**53, 2**63 - 1, -(2**63), float("inf"), float("nan"), 1e300, -0.5)
TEXTS = ("", "\0", "..", "x" * 201, "x" * 4001, "9" * 33_000, "\u2028", "1x1")
OTHERS: tuple[object, ...] = (None, [], {}, b"\xff", True)
LIST_MAX = 20_000
# It would stop the server, which a user's key may.
LEFT_OUT = frozenset({m.Stop})

Path = tuple[str | int, ...]  # of a value in a message


GIVEN = 0.3  # of the fields that may be left out


def right(kind: mi.Type, rng: random.Random, known: dict[str, Any], name: str = "") -> Any:
    """A value of this type that a message may have; `known`: of fields by their names."""
    if name in known:
        return known[name]
    match kind:
        case mi.StructType():
            made = {
                f.encode_name: right(f.type, rng, known, f.name)
                for f in kind.fields
                if f.required or f.name in known or rng.random() < GIVEN
            }
            return {**({kind.tag_field: kind.tag} if kind.tag_field else {}), **made}
        case mi.UnionType():
            return right(next(t for t in kind.types if not isinstance(t, mi.NoneType)), rng, known)
        case mi.IntType():
            return max(1, kind.ge or 0)
        case mi.FloatType():
            return 0.5
        case mi.BoolType():
            return True
        case mi.BytesType():
            return b"\0\xff"
        case mi.StrType() if name == "request":  # another one is another job
            return f"r{rng.random()}"
        case mi.StrType():
            return "2x4" if kind.pattern and "x" in kind.pattern else "word"
        case mi.ListType():
            return [right(kind.item_type, rng, known)]
        case mi.TupleType():
            return [right(t, rng, known) for t in kind.item_types]
        case mi.DictType():
            return {"key": right(kind.value_type, rng, known)}
        case mi.LiteralType():
            return kind.values[0]
        case _:
            return None


def odd(kind: mi.Type, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Boundary values of this type and of all that it contains, and where each belongs."""
    match kind:
        case mi.StructType():
            for field in kind.fields:
                yield from odd(field.type, (*path, field.encode_name))
            return
        case mi.UnionType():
            for other in kind.types:
                yield from odd(other, path)
            return
        case mi.ListType() | mi.TupleType():
            items = [kind.item_type] if isinstance(kind, mi.ListType) else kind.item_types
            for n, item in enumerate(items):
                yield from odd(item, (*path, n))
            length = getattr(kind, "max_length", None) or LIST_MAX
            for count in {0, min(length, LIST_MAX), min(length + 1, LIST_MAX)}:
                yield path, [right(items[0], random.Random(1), {})] * count
        case mi.IntType() | mi.FloatType():
            limits = [n for n in (kind.ge, kind.le, kind.gt, kind.lt) if n is not None]
            for value in {*NUMBERS, *(n + d for n in limits for d in (-1, 0, 1))}:
                yield path, value
        case mi.StrType() | mi.LiteralType():
            length = getattr(kind, "max_length", None) or 0
            for text in (*TEXTS, "x" * length, "x" * (length + 1)):
                yield path, text
        case mi.BytesType():
            yield from ((path, b"x" * length) for length in (0, 64, 65, 900_000))
        case mi.DictType():
            yield path, {f"k{n}": "v" for n in range(501)}
            yield path, {"": "\0"}
    yield from ((path, other) for other in OTHERS)


def put(value: Any, path: Path, new: object) -> None:
    """Replace what is at `path`, where there is something."""
    for step in path[:-1]:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return
    try:
        value[path[-1]] = deepcopy(new)  # later messages have it, too
    except (LookupError, TypeError):
        return


class Boundaries:
    """Draws messages: each boundary once in a random order, then pairs of them without end."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._all = [
            (request, role, path, value)
            for request, roles in m.REQUESTS.items()
            if request not in LEFT_OUT
            for role in sorted(roles)
            for path, value in odd(mi.type_info(request))
            if path
        ]
        rng.shuffle(self._all)
        self._next = 0

    @property
    def count(self) -> int:
        """How many boundaries there are."""
        return len(self._all)

    def draw(self, known: dict[str, Any]) -> tuple[str, bytes]:
        """A role, and the next message to send under its key."""
        request, role, path, value = self._all[self._next % self.count]
        body = right(mi.type_info(request), self._rng, known)
        put(body, path, value)
        if self._next >= self.count:
            others = [at for at in self._rng.sample(self._all, 200) if at[0] is request]
            for _, _, path_, value_ in others[:1]:
                put(body, path_, value_)
        self._next += 1
        return role, msgpack.encode({"id": f"b{self._next}", "body": body})
