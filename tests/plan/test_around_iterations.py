"""What a program puts around rs.iterations goes on in the midst of the loop, as elsewhere."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resize_lib.mistakes import Mistake
from resize_lib.state.iterators import CannotCopyError, go_back, go_on

Around = Callable[[Iterator[int]], Iterator[Any]]


def data() -> Iterator[int]:
    return iter([7 * k % 31 for k in range(50)])


AROUND: dict[str, Around] = {
    "enumerate": lambda turns: enumerate(turns, 3),
    "zip, data last": lambda turns: zip(turns, data(), range(100), strict=False),
    "zip, data first": lambda turns: zip(data(), range(100), turns, data(), strict=False),
    "map": lambda turns: map(str, turns),
    "map, data last": lambda turns: map(lambda s, x: (s, x), turns, data()),
    "filter": lambda turns: filter(lambda s: s != 0, turns),
    "chain": lambda turns: itertools.chain(turns, [-1, -2]),
    "takewhile": lambda turns: itertools.takewhile(lambda s: s != -5, turns),
    "starmap": lambda turns: itertools.starmap(lambda k, s: (k, s), enumerate(turns)),
    "filterfalse": lambda turns: itertools.filterfalse(lambda s: s is None, turns),
}
WITH_POSITION: dict[str, Around] = {
    "islice": lambda turns: itertools.islice(turns, 10),
    "accumulate": itertools.accumulate,
    "dropwhile": lambda turns: itertools.dropwhile(lambda s: s < 3, turns),
    "pairwise": itertools.pairwise,
    "compress": lambda turns: itertools.compress(turns, itertools.cycle([1, 0])),
    "zip_longest": lambda turns: itertools.zip_longest(turns, data()),
    "map, data first": lambda turns: map(lambda x, s: (s, x), data(), turns),
    "zip with a generator": lambda turns: zip(turns, (x for x in data()), strict=False),
}


def build(around: list[Around], own: Iterator[int]) -> Iterator[Any]:
    outer: Iterator[Any] = own
    for each in around:
        outer = each(outer)
    return outer


@pytest.fixture(scope="module", autouse=True)
def small_heap() -> Iterator[None]:
    """Wrappers are found by gc.get_referrers, which looks at each object of the process."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


class Own:
    """An iterator as the loop's: it goes on behind `skipped` turns when it is asked first."""

    def __init__(self, skipped: int, last: int) -> None:
        def turns() -> Iterator[int]:
            go_on(self.turns, skipped)
            yield from range(skipped, last)

        self.turns = turns()


@given(
    st.lists(st.sampled_from(sorted({*AROUND} - {"filter"})), max_size=3, unique=True),
    st.integers(0, 12),
)
def test_it_goes_on_as_in_the_ranks_that_were_there(names: list[str], skipped: int) -> None:
    around = [AROUND[name] for name in names]
    there = list(build(around, iter(range(20))))
    own = Own(skipped, 20)
    assert list(build(around, own.turns)) == there[skipped:]


@pytest.mark.parametrize("name", AROUND)
def test_each_goes_on_by_itself(name: str) -> None:
    own = Own(5, 9)
    there = list(AROUND[name](iter(range(9))))
    here = list(AROUND[name](own.turns))
    assert here == there[len(there) - len(here) :]
    assert len(here) >= 4


@pytest.mark.parametrize("name", WITH_POSITION)
def test_what_keeps_its_position_to_itself_is_refused(name: str) -> None:
    own = Own(5, 9)
    with pytest.raises(Mistake, match="a rank that joins cannot"):
        list(WITH_POSITION[name](own.turns))


def test_a_zip_that_was_asked_before_is_refused() -> None:
    own = Own(5, 9)

    # The zip has given a tuple that somebody holds.
    pairs = zip(data(), itertools.chain([0], own.turns), strict=False)
    held = next(pairs)
    with pytest.raises(Mistake, match=r"put rs\.iterations first"):
        next(pairs)
    assert held == (0, 0)


def test_one_that_counts_goes_back() -> None:
    numbers = iter(range(9))
    counted = enumerate(numbers)
    assert [next(counted) for _ in range(4)][-1] == (3, 3)
    go_back(numbers, 2)
    assert next(counted) == (2, 4)


@pytest.mark.parametrize("name", ["zip, data last", "map, data last"])
def test_one_with_data_cannot_go_back(name: str) -> None:
    numbers = iter(range(9))
    outer = AROUND[name](numbers)
    next(outer)
    with pytest.raises(CannotCopyError, match="cannot go back"):
        go_back(numbers, 1)
    assert next(outer)[0] == 1
