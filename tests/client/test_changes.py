"""Which things have changed: the latest change of each, oldest first, however many there were."""

from __future__ import annotations

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from dq_client.base import changes
from dq_client.base.changes import Changes


@given(st.lists(st.integers(0, 5), max_size=60), st.integers(0, 60), st.integers(0, 5))
def test_each_thing_is_told_once_by_its_latest_change(
    touched: list[int], known: int, begin: int
) -> None:
    found: Changes[int] = Changes(begin)
    for thing in touched:
        found.touch(thing)
    latest = {thing: begin + k for k, thing in enumerate(touched, 1)}
    expected = sorted((number, thing) for thing, number in latest.items() if number > known)
    assert [(number, thing) for thing, number in found.after(known)] == expected
    assert found.last == begin + len(touched)


def test_what_changes_often_takes_no_more_room() -> None:
    found: Changes[int] = Changes()
    for k in range(20_000):
        found.touch(k % 3)
    assert len(found._things) <= 6 + changes.OUTDATED_MAX
    assert [thing for thing, _ in found.after(0)] == [2, 0, 1]


def test_portions_end_where_the_next_begin() -> None:
    found: Changes[int] = Changes()
    for thing in [*range(100), *range(50)]:
        found.touch(thing)
    told, number = list[int](), 0
    while portion := list(islice(found.after(number), 7)):
        told += [thing for thing, _ in portion]
        number = portion[-1][1]
    assert told == [*range(50, 100), *range(50)]
