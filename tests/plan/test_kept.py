"""Objects of a program that are filled in place with the contents of others."""

from __future__ import annotations

import copy
import pickle
import random
from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resize_lib.declared.kept import Kept, fill, fits
from resize_lib.descriptors import DescriptorError
from resize_lib.same_values import same

LEAVES = st.none() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4)
ARRAYS = st.lists(st.floats(-9, 9), max_size=4).map(np.array)
NESTED = st.recursive(
    LEAVES | ARRAYS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=2), inner, max_size=4)
        | st.lists(inner, max_size=3).map(deque)
        | st.tuples(inner, inner)
    ),
    max_leaves=12,
)
KEPT = st.lists(NESTED, max_size=4) | st.dictionaries(st.text(max_size=2), NESTED, max_size=4)


class Model:
    """Of a class of a program."""

    def __init__(self, weights: Any) -> None:
        self.weights, self.turns = weights, 0


class Careful(Model):
    """Says itself how it is made again."""

    def __getstate__(self) -> Any:
        return self.weights

    def __setstate__(self, state: Any) -> None:
        self.weights, self.turns = state, -1


def inside(value: Any) -> list[Any]:
    """All that can be filled in it, in order."""
    parts = value.values() if isinstance(value, dict) else value
    found = [] if isinstance(value, str | np.ndarray) else [inside(part) for part in _each(parts)]
    return [value, *(part for parts in found for part in parts)]


def _each(parts: Any) -> Any:
    return parts if hasattr(parts, "__iter__") else ()


@given(mine=KEPT, other=KEPT)
def test_what_is_filled_has_the_contents_of_the_other(mine: Any, other: Any) -> None:
    reference, arrived = copy.deepcopy(other), pickle.loads(pickle.dumps(other))
    if fits(mine, other):
        fill(mine, arrived)
        assert same(mine, reference)


@given(value=KEPT)
def test_references_into_what_is_filled_stay_right(value: Any) -> None:
    before = copy.deepcopy(value)
    arrived = pickle.loads(pickle.dumps(value))
    held = [part for part in inside(before) if isinstance(part, list | dict | deque | np.ndarray)]
    fill(before, arrived)
    after = [part for part in inside(before) if isinstance(part, list | dict | deque | np.ndarray)]
    in_tuples = sum(isinstance(part, tuple) for part in inside(before))
    assert in_tuples or [id(part) for part in held] == [id(part) for part in after]


@pytest.mark.parametrize(
    ("mine", "other"),
    [
        (np.random.default_rng(1), np.random.default_rng(2)),
        (np.random.RandomState(1), np.random.RandomState(2)),
        (random.Random(1), random.Random(2)),
    ],
)
def test_random_generators_go_on_alike(mine: Any, other: Any) -> None:
    fill(mine, pickle.loads(pickle.dumps(other)))
    assert [mine.random() for _ in range(5)] == [other.random() for _ in range(5)]


def test_objects_of_a_class_are_filled_with_their_arrays() -> None:
    mine, other = Model(np.zeros(3)), Model(np.ones(3))
    weights, other.turns = mine.weights, 5
    fill(mine, other)
    assert mine.weights is weights
    assert (weights.tolist(), mine.turns) == ([1, 1, 1], 5)
    careful = Careful(1)
    fill(careful, Careful(2))
    assert (careful.weights, careful.turns) == (2, -1)
    content = {1, 2}
    fill(content, {3})
    assert content == {3}


def test_what_contains_itself_ends() -> None:
    mine: list[Any] = [1]
    other: list[Any] = [2]
    mine.append(mine)
    other.append(other)
    fill(mine, other)
    assert mine[0] == 2


@pytest.mark.parametrize("value", [1, 2.5, "text", (1, 2), None, frozenset({1}), len, Model])
def test_what_cannot_be_filled_is_refused_with_the_way_out(value: Any) -> None:
    with pytest.raises(DescriptorError, match=r"rs\.keep\(x=\.\.\.\).*rs\.value\('x', \.\.\.\)"):
        Kept("x", value)


@pytest.mark.parametrize(
    ("mine", "other"),
    [
        (np.zeros(3), np.zeros(4)),
        (np.zeros(3), np.zeros(3, np.float32)),
        ([], {}),
        (np.random.default_rng(1), np.random.Generator(np.random.MT19937(1))),
    ],
)
def test_what_does_not_fit_says_so_and_changes_nothing(mine: Any, other: Any) -> None:
    before, kept = pickle.dumps(mine), Kept("x", mine)
    with pytest.raises(DescriptorError, match=r"rs\.keep 'x' is .* in the rank that joins and"):
        kept.restore(other)
    assert pickle.dumps(mine) == before
