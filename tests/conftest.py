"""How thoroughly property tests draw: little in daily work, everything in CI.

HYPOTHESIS_PROFILE names the profile; `make test` and CI choose `full`.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# No deadlines anywhere: a busy machine is no bug. The counts are for tests that name none;
# harness.examples scales those of tests that do.
settings.register_profile("full", max_examples=100, deadline=None)
settings.register_profile("daily", max_examples=10, deadline=None)
# The same draws each time: a mutant must not survive or die by luck.
settings.register_profile(
    "mutants", max_examples=20, deadline=None, derandomize=True, database=None
)

settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("full" if os.environ.get("CI") else "daily")
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record", action="store_true", help="keep what tests/core does (recording.py)"
    )
