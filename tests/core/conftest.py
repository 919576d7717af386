"""A fixture that makes clusters for scenario tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.core.cluster import Cluster, MakeCluster


@pytest.fixture
def cluster() -> Iterator[MakeCluster]:
    """Makes clusters; checks the invariants of each once more at the end."""
    made: list[Cluster] = []

    def make(processors: int, per_node: int = 1, **config: Any) -> Cluster:
        made.append(Cluster(processors, per_node, **config))
        return made[-1]

    yield make
    for c in made:
        c.scheduler.state.check()
        for job in c.scheduler.state.jobs.values():
            for decision in job.decisions:  # no figure is missing of what people are told
                assert decision.reason.text
