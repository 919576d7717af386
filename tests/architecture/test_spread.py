"""Workers of pytest begin with tests that wait, and share them evenly (harness/spread.py)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.spread import spread

# (module, number, whether it waits); a module's tests stand together.
tests = st.lists(st.tuples(st.integers(1, 9), st.booleans())).map(
    lambda modules: [(m, n, waits) for m, (size, waits) in enumerate(modules) for n in range(size)]
)


@given(tests=tests, workers=st.integers(1, 8))
def test_every_part_begins_with_what_waits(
    tests: list[tuple[int, int, bool]], workers: int
) -> None:
    found = spread(tests, workers, lambda test: test[2], lambda test: test[0])
    assert sorted(found) == sorted(tests)
    waiting = []
    for remaining in range(workers, 0, -1):  # as xdist cuts them
        part, found = found[: len(found) // remaining], found[len(found) // remaining :]
        kinds = [waits for _, _, waits in part]
        assert kinds == sorted(kinds, reverse=True)
        waiting.append((sum(kinds), len(part)))
    full = [count for count, size in waiting if count < size]
    assert not full or max(count for count, _ in waiting) - min(full) <= 9, "a module, at most"
