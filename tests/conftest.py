"""How thoroughly property tests draw: little in daily work, everything in CI; and in which order
several workers run the tests.

HYPOTHESIS_PROFILE names the profile; `make test` and CI choose `full`. Ranks of tests sleep between
two looks for a message where MPICH's own would spin: on shared processors that takes a third of
their processor time away.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from harness.spread import spread

# No deadlines anywhere: a busy machine is no bug. The counts are for tests that name none;
# harness.examples scales those of tests that do.
settings.register_profile("full", max_examples=100, deadline=None)
settings.register_profile("daily", max_examples=10, deadline=None)
# The same draws each time: a mutant must not survive or die by luck.
settings.register_profile(
    "mutants", max_examples=20, deadline=None, derandomize=True, database=None
)

os.environ.setdefault("MPIR_CVAR_ENABLE_HEAVY_YIELD", "1")

settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("full" if os.environ.get("CI") else "daily")
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record", action="store_true", help="keep what tests/core does (recording.py)"
    )


def waits(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("live", "mpi"))


@pytest.hookimpl(trylast=True)  # of those that are chosen
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers > 1:
        items[:] = spread(items, workers, waits, lambda item: item.path)
