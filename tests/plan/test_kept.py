"""Objects of a program that are filled in place with the contents of others."""

from __future__ import annotations

import copy
import pickle
import random
from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
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


class Network(Model):
    """As every network is: called like a function."""

    def __call__(self, x: Any) -> Any:
        return self.weights * x


class Slotted:
    """Without a dictionary, with a slot that is private and one that may be empty."""

    __slots__ = ("__hidden", "later", "weights")
    later: Any

    def __init__(self, weights: Any, hidden: int) -> None:
        self.weights, self.__hidden = weights, hidden

    @property
    def hidden(self) -> int:
        return self.__hidden


class Both(Slotted):
    """Slots of the base class, and a dictionary."""

    def __init__(self, weights: Any, hidden: int) -> None:
        super().__init__(weights, hidden)
        self.turns = hidden


class History(list[float]):
    """A list with attributes."""

    turns = 0


class Logging:
    """Leaves out of its pickle what belongs to a process."""

    def __init__(self, file: str) -> None:
        self.file, self.lines = file, 0

    def __getstate__(self) -> Any:
        return {"lines": self.lines}


class Net:
    """Its state is what it says, as a module of torch; `turns` and `seen` are attributes only."""

    def __init__(self, weights: Any) -> None:
        self.parameters, self.turns, self.seen = {"w": Holder(weights)}, 0, [0]
        self.loaded = 0

    def state_dict(self) -> dict[str, Any]:
        return {name: held.weights for name, held in self.parameters.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loaded += 1
        for name, weights in state.items():
            self.parameters[name].weights[...] = weights


class Holder(Model):
    """What an optimizer would refer to."""

    def __init__(self, weights: Any) -> None:
        super().__init__(weights)


@dataclass(frozen=True)
class Point:
    """Another one where it changes."""

    x: int


def sent(value: Any) -> Any:
    """As it arrives in another process."""
    return pickle.loads(pickle.dumps(value))


def test_an_object_that_can_be_called_is_filled() -> None:
    mine, other = Network(np.zeros(2)), Network(np.full(2, 3.0))
    weights = mine.weights
    Kept("model", mine).restore(sent(other))
    assert mine.weights is weights
    assert mine(2.0).tolist() == [6.0, 6.0]


def test_slots_are_filled() -> None:
    mine, other = Both(np.zeros(2), 1), Both(np.ones(2), 5)
    weights = mine.weights
    mine.later = "only here"
    Kept("model", mine).restore(sent(other))
    assert mine.weights is weights
    assert (weights.tolist(), mine.hidden, mine.turns) == ([1, 1], 5, 5)
    assert not hasattr(mine, "later")
    other.later = [1]
    fill(mine, sent(other))
    assert mine.later == [1]


def test_attributes_of_a_list_are_filled_too() -> None:
    mine, other = History([1.0]), History([2.0, 3.0])
    other.turns = 7
    fill(mine, sent(other))
    assert (mine, mine.turns) == ([2.0, 3.0], 7)


def test_what_a_class_leaves_out_of_its_pickle_stays() -> None:
    mine, other = Logging("mine"), Logging("theirs")
    other.lines = 4
    fill(mine, sent(other))
    assert (mine.file, mine.lines) == ("mine", 4)


def test_a_state_dict_is_loaded_and_plain_attributes_follow() -> None:
    mine, other = Net(np.zeros(2)), Net(np.ones(2))
    other.turns, other.seen = 3, [1, 2]
    held, seen = mine.parameters["w"], mine.seen
    fill(mine, sent(other))
    assert mine.parameters["w"] is held, "what refers to it would lose it"
    assert mine.seen is seen
    assert (held.weights.tolist(), mine.turns, seen) == ([1, 1], 3, [1, 2])
    assert not fits(mine, Net(np.ones(3)))


def test_one_object_in_two_places_stays_one() -> None:
    inner: list[int] = []
    mine, one = [inner, inner], [1]
    fill(mine, sent([one, one]))
    assert mine == [[1], [1]]
    assert mine[0] is mine[1] is inner
    fill(mine, sent([[1], [2]]))
    assert mine == [[1], [2]], "what is two in the job is two here"


@pytest.mark.parametrize(
    "value",
    [1, 2.5, "text", (1, 2), None, frozenset({1}), Fraction(1), Path("p"), Point(1), iter([1])],
)
def test_what_cannot_be_filled_is_refused_with_the_way_out(value: Any) -> None:
    with pytest.raises(
        DescriptorError, match=r"rs\.keep\(x=\.\.\.\).*x = rs\.value\('x', \.\.\.\)"
    ):
        Kept("x", value)


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (len, "keep the objects that it uses"),
        (Model, "keep the objects that it uses"),
        (lambda: 1, "keep the objects that it uses"),
        ((x for x in [1]), "__next__"),
    ],
)
def test_a_value_would_be_a_silent_mistake_and_is_not_advised(value: Any, advice: str) -> None:
    with pytest.raises(DescriptorError, match=advice) as raised:
        Kept("x", value)
    assert "rs.value" not in str(raised.value)


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


def test_a_deque_with_arrays_is_compared_by_what_it_has() -> None:
    empty = np.array([])
    one = deque([empty, [None, np.zeros(2)], empty])
    assert same(one, deque([np.array([]), [None, np.zeros(2)], np.array([])]))
    assert not same(one, deque([np.array([]), [None, np.ones(2)], np.array([])]))
