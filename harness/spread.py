"""An order of tests in which several workers of pytest wait and compute at the same time.

`--dist worksteal` gives each worker an equal part of the tests, in their order; a worker that is
done takes from the end of another's part. A test with a cluster mostly waits, a pure one computes:
each part begins with as many tests that wait as any other, and ends with tests that compute.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TypeVar

Test = TypeVar("Test")


def spread(
    tests: Sequence[Test],
    workers: int,
    waits: Callable[[Test], bool],
    module: Callable[[Test], object],
) -> list[Test]:
    """Return the tests in that order. Those of a module stay together where parts allow it."""
    sizes = [(len(tests) + n) // workers for n in range(workers)]
    parts: list[list[Test]] = [[] for _ in sizes]

    def emptiest() -> int:
        free = [n for n in range(workers) if len(parts[n]) < sizes[n]]
        return min(free, key=lambda n: len(parts[n]))

    waiting = (test for test in tests if waits(test))
    groups = [list(group) for _, group in groupby(waiting, module)]
    random.Random(1).shuffle(groups)  # modules of one folder are much alike: not all at once
    for group in groups:
        at = emptiest()
        for test in group:
            if len(parts[at]) == sizes[at]:  # the rest of a module that has no room
                at = emptiest()
            parts[at].append(test)
    computing = iter([test for test in tests if not waits(test)])
    for part, size in zip(parts, sizes, strict=True):
        part += [next(computing) for _ in range(size - len(part))]
    return [test for part in parts for test in part]
