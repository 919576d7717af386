"""Fingerprints of values: equal for equal contents, additive for parts, and short to read."""

from __future__ import annotations

import itertools
import math
import random
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from resize_lib.recording.fingerprints import NUMBERS_MAX, PartFingerprint, of, part, records, text


def free(_: Any) -> bool:
    """No memory is barred."""
    return False


def counted() -> Iterator[int]:
    yield from range(10)


class Model:
    def __init__(self, weight: float) -> None:
        self.weight, self.me = weight, self


class Trained:
    """Says what its state is, as modules and optimizers of torch do."""

    def __init__(self, weight: int, loads: int = 0) -> None:
        self.weight, self.loads = weight, loads

    def state_dict(self) -> dict[str, Any]:
        return {"weight": self.weight}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.weight, self.loads = state["weight"], self.loads + 1


class Caching:
    """Leaves out of its state what it has computed already, as a DataFrame of pandas does."""

    def __init__(self, weight: int, *seen: int) -> None:
        self.weight, self.seen = weight, {key: weight * key for key in seen}

    def __getstate__(self) -> dict[str, Any]:
        return {"weight": self.weight}


def seeded(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def after(iterator: Any, steps: int) -> Any:
    """An iterator from which so many items were taken."""
    for _ in range(steps):
        next(iterator)
    return iterator


PAIRS: list[tuple[Any, Any, Any]] = [
    (1, 1, 2),
    ("a", "a", "b"),
    ([1, "x"], [1, "x"], ["x", 1]),
    ({1, 2}, {2, 1}, {1, 3}),
    ({"a": 1}, {"a": 1}, {"b": 1}),
    (deque([1, 2]), deque([1, 2]), deque([2])),
    (None, None, 0),
    (Trained(1), Trained(1, loads=2), Trained(2)),
    (Caching(1), Caching(1, 2, 3), Caching(2)),
    (True, True, 1),
    (np.arange(5), np.arange(5), np.arange(6)),
    (
        np.ma.array([1.0, 2], mask=[False, True]),
        np.ma.array([1.0, 3], mask=[False, True]),
        np.ma.array([1.0, 0]),
    ),
    (np.int64(3), np.int64(3), np.int64(4)),
    (seeded(1), seeded(1), seeded(2)),
    (random.Random(1), random.Random(1), random.Random(2)),
    (np.random.RandomState(1), np.random.RandomState(1), np.random.RandomState(2)),
    (after(iter([1, 2, 3]), 1), after(iter([1, 2, 3]), 1), iter([1, 2, 3])),
    (after(iter(range(9)), 2), after(iter(range(9)), 2), iter(range(9))),
    (after(counted(), 2), after(counted(), 2), counted()),
    (after(itertools.count(), 2), after(itertools.count(), 2), itertools.count()),
]


@pytest.mark.parametrize(("value", "same", "other"), PAIRS, ids=lambda value: type(value).__name__)
def test_what_is_exact_is_in_the_digest(value: Any, same: Any, other: Any) -> None:
    assert of(value, free).digest == of(same, free).digest != of(other, free).digest


@pytest.mark.parametrize(
    "make",
    [float, np.float32, lambda x: [x, "a"], lambda x: {"k": (x,)}, Model, lambda x: np.full(3, x)],
)
def test_floating_point_numbers_are_beside_it(make: Any) -> None:
    one, two = of(make(1.5), free), of(make(2.5), free)
    assert one.digest == two.digest and one.numbers != two.numbers
    assert one.numbers == of(make(1.5), free).numbers


def test_many_numbers_are_summed_up_and_their_order_counts() -> None:
    values = np.random.default_rng(1).random(1000)
    for made in (values, values.tolist()):
        found = of(made, free)
        assert len(found.numbers) <= NUMBERS_MAX
        swapped = [made[1], made[0], *made[2:]]
        other = of(np.array(swapped) if made is values else swapped, free)
        assert not np.allclose(found.numbers, other.numbers, rtol=1e-12, atol=0)


def test_an_iterator_is_not_advanced() -> None:
    iterator = iter([1, 2, 3])
    of(iterator, free)
    assert list(iterator) == [1, 2, 3]


def test_memory_that_is_barred_is_not_read() -> None:
    array = np.ones(3)
    assert of([array], lambda value: value is array).numbers == []
    assert text([array], lambda value: value is array) == "[array from before a resize]"


# --- parts ---------------------------------------------------------------------------------------


def added(parts: list[PartFingerprint]) -> tuple[list[int], list[float]]:
    exact = [sum(each) % (1 << 64) for each in zip(*(p.exact for p in parts), strict=True)]
    return exact, [math.fsum(each) for each in zip(*(p.sums for p in parts), strict=True)]


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "i4", "?", "S3"])
@pytest.mark.parametrize("total", [7, 5000])
def test_parts_add_up_to_the_whole_however_it_is_cut(dtype: str, total: int) -> None:
    drawn = np.random.default_rng(total)
    values = drawn.integers(0, 100, total).astype(dtype)
    index = drawn.permutation(total)
    whole = added([part(np.arange(total), values, total)])
    for pieces in (2, 3):
        cut = [part(i, values[i], total) for i in np.array_split(index, pieces)]
        exact, sums = added(cut)
        assert exact == whole[0] and np.allclose(sums, whole[1], rtol=1e-13)


@pytest.mark.parametrize("dtype", ["f8", "c16", "i4", "S3"])
def test_two_items_that_change_places_are_noticed(dtype: str) -> None:
    values = np.arange(5000).astype(dtype)
    swapped = values.copy()
    swapped[[10, 11]] = values[[11, 10]]
    index = np.arange(5000)
    one, other = part(index, values, 5000), part(index, swapped, 5000)
    assert (one.exact, one.sums) != (other.exact, other.sums)


def test_a_part_without_items_adds_nothing() -> None:
    nothing = part(np.empty(0, np.int64), np.empty(0), 5)
    assert nothing.sums == [0.0] * 10


def test_records_do_not_depend_on_their_order() -> None:
    items = np.zeros(6, [("x", "f8"), ("n", "i4")])
    items["x"], items["n"] = np.arange(6) / 7, range(6)
    turned = items[::-1].copy()
    one, other = records(items), records(turned)
    assert one.exact == other.exact and np.allclose(one.sums, other.sums)
    turned["n"][0] = 9
    assert records(turned).exact != one.exact


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (2.5, "2.5"),
        ([1, 2, 3, 4, 5], "[1, 2, 3, 4, …]"),
        ({"a": 1}, "{'a': 1}"),
        (np.arange(6), "array (6,): 0, 1, 2, 3, …"),
        (Model(0.5), "Model(weight=0.5, me=Model(weight=0.5, me=…))"),
        (after(iter([0] * 9), 2), "list_iterator at 2"),
        (after(itertools.count(5), 2), "count at 7"),
        (object(), "<object>"),
        ("x" * 100, "'xxxxxxxxxxxx...xxxxxxxxxxxxx'"),
    ],
)
def test_texts_are_short_and_the_same_everywhere(value: Any, said: str) -> None:
    assert text(value, free) == said
