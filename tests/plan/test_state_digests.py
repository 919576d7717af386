"""Digests of values: equal values have equal digests in every process, others have others."""

from __future__ import annotations

import collections
import contextvars
import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import itertools
import os
import queue
import random
import subprocess
import sys
import threading
from concurrent import futures
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.commands import ROOT
from resize_lib.state import digests


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Number(enum.IntEnum):
    ONE = 1


def place(size: int) -> enum.IntEnum:
    """A member whose value differs between processes, as `SIZE = comm.size` in a class does."""

    class Place(enum.IntEnum):
        SIZE = size

    return Place.SIZE


def held() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


def filled() -> queue.Queue[int]:
    full: queue.Queue[int] = queue.Queue()
    full.put(1)
    return full


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Plain:
    a: Any = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    a: Any = 1


class Other:
    def __init__(self, a: Any) -> None:
        self.a = a

    def method(self) -> None: ...

    def other(self) -> None: ...


def advanced(iterator: Any, count: int) -> Any:
    for _ in range(count):
        next(iterator)
    return iterator


def looped() -> list[Any]:
    inner: list[Any] = [1]
    inner.append(inner)
    return inner


def order(array: Any) -> Any:
    return np.asfortranarray(array)


A = np.arange(12.0).reshape(3, 4)
LONG = "text " * 50
# Each row: values that are equal. No two rows are.
CLASSES: dict[str, list[Any]] = {
    "none": [None],
    "zero": [0, int("0")],
    "one": [1],
    "true": [True],
    "one as float": [1.0, 0.5 + 0.5],
    "zero as float": [0.0],
    "minus zero": [-0.0],
    "nan": [float("nan"), float("nan")],
    "complex": [1 + 0j],
    "large": [10**300, int("1" + 300 * "0")],
    "larger": [10**300 + 1],
    "text": ["1"],
    "bytes": [b"1"],
    "long text": [LONG, "".join(LONG)],
    "longer text": [LONG + "x"],
    "bytearray": [bytearray(b"1")],
    "list": [[1, 2], [*range(1, 3)]],
    "tuple": [(1, 2)],
    "list of lists": [[[1], [2]], [[k] for k in (1, 2)]],
    "other nesting": [[[1, 2]]],
    "no list": [[]],
    "no tuple": [()],
    "no dict": [{}],
    "no set": [set()],
    "no frozenset": [frozenset()],
    "set": [{1, 2, 300}, {300, 2, 1}],
    "set of texts": [{"a", "b", "c"}, {"c", "b", "a"}],
    "frozenset": [frozenset((1, 2, 300))],
    "dict": [{"a": 1, "b": [2]}],
    "dict in another order": [{"b": [2], "a": 1}],
    "ordered": [collections.OrderedDict(a=1, b=[2])],
    "counter": [collections.Counter("aab"), collections.Counter({"a": 2, "b": 1})],
    "default": [collections.defaultdict(list, a=[1])],
    "default of sets": [collections.defaultdict(set, a=[1])],
    "deque": [collections.deque([1, 2])],
    "short deque": [collections.deque([1, 2], maxlen=2)],
    "array": [A, A.copy(), A[:], order(A), np.ascontiguousarray(A[:, ::-1])[:, ::-1]],
    "array of another shape": [A.reshape(4, 3)],
    "array of another type": [A.astype("f4")],
    "array of other numbers": [A + 1e-12 * (A == 5)],
    "array of other bytes": [A.astype(">f8")],
    "no numbers": [np.empty(0)],
    "no rows": [np.empty((0, 4))],
    "array of nothing": [np.array(1.0)],
    "number of numpy": [np.float64(1.0)],
    "number of numpy 4": [np.float32(1.0)],
    "date of numpy": [np.array("2020-01-01", "M8[D]")],
    "structured": [np.zeros(2, [("a", "i4"), ("b", "f8")])],
    "structured by other names": [np.zeros(2, [("a", "i4"), ("c", "f8")])],
    "objects": [np.array([1, None, "x"], object)],
    "other objects": [np.array([1, None, "y"], object)],
    "masked": [np.ma.array([1, 2], mask=[True, False])],
    "masked elsewhere": [np.ma.array([1, 2], mask=[False, True])],
    "large array": [np.arange(20_000.0), np.arange(20_000.0)],
    "large array, one bit": [np.arange(20_000.0) + 1e-9 * (np.arange(20_000) == 7)],
    "large array, rows changed": [np.arange(20_000.0)[::-1]],
    "generator": [np.random.default_rng(1), np.random.default_rng(1)],
    "generator that has drawn": [(lambda g: (g.random(), g)[1])(np.random.default_rng(1))],
    "old generator": [np.random.RandomState(1), np.random.RandomState(1)],
    "random": [random.Random(1), random.Random(1)],
    "random, seed 2": [random.Random(2)],
    "enum": [Colour.RED, Colour(1)],
    "enum 2": [Colour.BLUE],
    "int enum": [Number.ONE],
    "member": [place(1), place(1)],
    "member with another value": [place(2)],
    "named tuple": [Point(1, 2)],
    "named tuple 2": [Point(2, 1)],
    "dataclass": [Plain(), Plain(1)],
    "dataclass 2": [Plain(2)],
    "frozen": [Frozen(), Frozen(1)],
    "frozen 2": [Frozen([1])],
    "instance": [Other(1), Other(1)],
    "instance 2": [Other(2)],
    "method": [Other(1).method],
    "another method": [Other(1).other],
    "method of another": [Other(2).method],
    "class": [Other],
    "another class": [Plain],
    "function": [advanced],
    "another function": [looped],
    "builtin": [len],
    "another builtin": [max],
    "module": [os],
    "another module": [sys],
    "decimal": [decimal.Decimal("1.50")],
    "decimal 2": [decimal.Decimal("1.5")],
    "fraction": [fractions.Fraction(1, 2), fractions.Fraction(2, 4)],
    "date": [datetime.date(2020, 1, 1)],
    "time": [datetime.timedelta(days=1)],
    "path": [Path("a") / "b", Path("a/b")],
    "range": [range(5)],
    "range 2": [range(1, 5)],
    "slice": [slice(1, 2)],
    "loop in itself": [looped(), looped()],
    "iterator of a list": [iter([1, 2, 3])],
    "what is left of a list": [advanced(iter([0, 2, 3, 4]), 1), advanced(iter([5, 5, 2, 3, 4]), 2)],
    "iterator of a range": [iter(range(1, 4))],
    "reversed": [reversed([1, 2, 3])],
    "iterator of a text": [iter("abc")],
    "count": [itertools.count(3), advanced(itertools.count(), 3)],
    "count by 2": [itertools.count(3, 2)],
    "cycle": [itertools.cycle([7, 8]), advanced(itertools.cycle([7, 8]), 4)],
    "cycle, one further": [advanced(itertools.cycle([7, 8]), 3)],
    "chain": [itertools.chain([1], [2])],
    "enumerate": [enumerate([1, 2])],
    "enumerate, one further": [advanced(enumerate([1, 2]), 1)],
    "zip": [zip([1], [2], strict=False)],
    "permutations": [itertools.permutations([1, 2, 3])],
    "permutations, one further": [advanced(itertools.permutations([1, 2, 3]), 1)],
}  # fmt: skip
BEFORE_314 = {"count", "count by 2", "cycle", "cycle, one further", "chain", "permutations",
              "permutations, one further"}  # fmt: skip
HERE = {
    name: values
    for name, values in CLASSES.items()
    if sys.version_info < (3, 14) or name not in BEFORE_314
}


@pytest.mark.parametrize("name", HERE)
def test_equal_values_have_equal_digests(name: str) -> None:
    # A cycle that has been round once has forgotten that it was new.
    values = HERE[name][1:] if name == "cycle" else HERE[name]
    found = {digests.of(value) for value in values}
    assert len(found) == 1
    assert {digests.of(copied(value)) for value in values} == found


def copied(value: Any) -> Any:
    return copy.deepcopy(value) if not isinstance(value, type(sys)) else value


def simple_queue() -> queue.SimpleQueue[int]:
    made: queue.SimpleQueue[int] = queue.SimpleQueue()
    made.put(1)
    return made


def test_a_lock_is_held_or_not() -> None:
    free, taken = digests.of(threading.Lock()), digests.of(held())
    assert free == digests.of(threading.Lock()) != taken == digests.of(held())
    empty = digests.of(queue.Queue())
    assert empty == digests.of(queue.Queue()) != digests.of(filled())


def test_threads_that_wait_and_empty_queues_are_alike() -> None:
    simple = simple_queue()
    simple.get()
    assert digests.of(simple) == digests.of(queue.SimpleQueue())
    goes = threading.Event()
    with futures.ThreadPoolExecutor(1) as pool, futures.ThreadPoolExecutor(1) as other:
        assert digests.of(pool) == digests.of(other)
        other.submit(goes.wait)
        other.submit(goes.wait)
        with pytest.raises(digests.CannotDigestError):
            digests.of(other)
        goes.set()


@pytest.mark.parametrize(
    "counter", [itertools.count(5), itertools.count(5, 2), itertools.count(0.5)]
)
def test_a_counter_is_copied_by_its_text(counter: itertools.count[Any]) -> None:
    next(counter)
    kind, arguments = digests.count_by_text(counter)
    assert list(itertools.islice(kind(*arguments), 3)) == list(itertools.islice(counter, 3))
    with pytest.raises(ValueError, match="malformed"):
        digests.count_by_text(itertools.count(fractions.Fraction(1, 3)))


def test_a_variable_of_the_context_is_what_it_has_here() -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable")
    unset = digests.of(variable)
    variable.set(1)
    one = digests.of(variable)
    variable.set(2)
    assert len({unset, one, digests.of(variable)}) == 3


def test_other_values_have_other_digests() -> None:
    found: dict[bytes, str] = {}
    for name, values in HERE.items():
        digest = digests.of(values[0])
        assert digest not in found, (name, found[digest])
        found[digest] = name


def test_a_digest_leaves_values_as_they_are() -> None:
    for name, values in HERE.items():
        before = digests.of(values[0])
        assert digests.of(values[0]) == before, name
    generator = advanced(iter([1, 2, 3]), 1)
    digests.of(generator)
    assert list(generator) == [2, 3]


def test_digests_are_the_same_in_another_process() -> None:
    """Sets of texts have another order there, and objects another place."""
    program = (
        "from tests.plan.test_state_digests import HERE, digests\n"
        "print([digests.of(values[0]).hex() for values in HERE.values()])"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1] != ""


@pytest.mark.parametrize(
    "value",
    [
        simple_queue(),
        (k for k in (1, 2)),
        [(k for k in (1, 2))],
        {"a": {"b": threading.RLock()}},
        Other(threading.RLock()),
        open(os.devnull),  # noqa: SIM115
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_read_is_refused(value: Any) -> None:
    with pytest.raises(digests.CannotDigestError):
        digests.of(value)


def test_a_tower_of_lists_is_refused_and_does_not_overflow() -> None:
    value: list[Any] = []
    for _ in range(5000):
        value = [value]
    with pytest.raises(digests.CannotDigestError, match="too deeply"):
        digests.of(value)


def test_a_token_stands_for_an_object_wherever_it_is() -> None:
    known = [1]

    def token(value: Any, _new: bool) -> bytes | None:
        return b"known" if value is known else None

    assert digests.of([known, 2], token) != digests.of([[1], 2], token)
    before = digests.of({"a": (known,)}, token)
    known.append(2)
    assert digests.of({"a": (known,)}, token) == before


@pytest.mark.parametrize("count", [1, 7, 8, 9, 8 * digests.CHUNK_WORDS + 3])
def test_every_byte_of_a_large_array_counts(count: int) -> None:
    raw = np.zeros(digests.HASHED_BYTES_MAX + count, np.uint8)
    before = digests.array(raw)
    for at in (0, 1, count, len(raw) // 2, len(raw) - 2, len(raw) - 1):
        raw[at] = 128
        assert digests.array(raw) != before, at
        raw[at] = 0
    assert digests.array(raw) == before


def test_large_arrays_of_one_number_each_differ() -> None:
    """Two floats often differ in their highest bits only, which a sum of products may lose."""
    values = [0.0, *(sign * 2.0**k for k in range(-40, 41) for sign in (1, -1)), 3.0, 1e300]
    for size in (8193, 20_000, 4 * digests.CHUNK_WORDS):
        assert len({digests.array(np.full(size, value)) for value in values}) == len(values)
    wholes = [*range(-9, 10), *(1 << k for k in range(4, 63))]
    assert len({digests.array(np.full(8193, k)) for k in wholes}) == len(wholes)
    parts = {digests.array(np.repeat([1.0, 2.0], [k, 20_000 - k])) for k in range(0, 20_000, 50)}
    assert len(parts) == 400


def test_numbers_of_a_large_array_may_not_change_places() -> None:
    many = np.arange(3.0 * digests.CHUNK_WORDS)
    before = digests.array(many)
    n = digests.CHUNK_WORDS
    for a, b in ((0, 1), (0, n), (5, 2 * n + 5), (n - 1, n)):
        other = many.copy()
        other[[a, b]] = other[[b, a]]
        assert digests.array(other) != before, (a, b)
    assert digests.array(np.roll(many, n)) != before


numbers: st.SearchStrategy[Any] = (
    st.integers() | st.floats() | st.booleans() | st.none() | st.text(max_size=3)
)
numbers |= st.binary(max_size=3) | st.complex_numbers()
arrays: st.SearchStrategy[Any] = st.lists(st.floats(), max_size=4).map(np.array) | st.integers(
    0, 3
).map(np.zeros)
values = st.recursive(
    numbers | arrays,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        | st.sets(st.text(max_size=2) | st.integers(), max_size=4)
        | st.lists(inner, max_size=3).map(collections.deque)
        | inner.map(Plain)
        | inner.map(Frozen)
    ),
    max_leaves=8,
)


def shape(value: Any) -> Any:
    """What tells a value from others, made of texts and tuples; written without digests."""
    kind = type(value).__name__
    if isinstance(value, np.ndarray):
        return kind, str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, float):
        return kind, "nan" if value != value else value.hex()
    if isinstance(value, complex):
        return kind, shape(value.real), shape(value.imag)
    if isinstance(value, list | tuple | collections.deque):
        return kind, tuple(map(shape, value))
    if isinstance(value, dict):
        return kind, tuple((key, shape(part)) for key, part in value.items())
    if isinstance(value, set):
        return kind, tuple(sorted(map(repr, value)))
    if isinstance(value, Plain | Frozen):
        return kind, shape(value.a)
    return kind, repr(value)


@given(values, values)
def test_digests_are_equal_exactly_if_values_are(a: Any, b: Any) -> None:
    assert (digests.of(a) == digests.of(b)) == (shape(a) == shape(b))


@given(values)
def test_a_copy_has_the_same_digest(value: Any) -> None:
    assert digests.of(copy.deepcopy(value)) == digests.of(value)
