"""How thoroughly property tests draw, and how tests are dealt out to several processes.

HYPOTHESIS_PROFILE names the profile, little in daily work; `make test` and CI choose `full`.
"""

from __future__ import annotations

import os
from pathlib import Path

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

# Their tests share what there is once on a machine: network namespaces, a Slurm.
ONE_AFTER_THE_OTHER = {"lab", "slurm"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With `pytest -n 2 --dist loadgroup`: files with processes stay whole, for their fixtures."""
    here = Path(__file__).parent
    for item in items:
        folder = item.path.relative_to(here).parts[0]
        if folder in ONE_AFTER_THE_OTHER:
            item.add_marker(pytest.mark.xdist_group(folder))
        elif item.get_closest_marker("live") or item.get_closest_marker("mpi"):
            item.add_marker(pytest.mark.xdist_group(item.path.name))
