"""A fixture that makes clusters for scenario tests; what each test's scheduler did is compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.core import recording
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


@pytest.fixture(scope="session")
def digests(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """Of all tests; kept at the end if they shall be."""
    known = recording.known()
    yield known
    if request.config.getoption("--record"):
        recording.write(known)


@pytest.fixture(autouse=True)
def recorded(
    request: pytest.FixtureRequest, digests: dict[str, str]
) -> Iterator[recording.Recorder]:
    """See recording.py."""
    recorder = recording.Recorder()
    if getattr(request.node.obj, "is_hypothesis_test", False):
        yield recorder
        return
    with recorder.listening():
        yield recorder
    if not recorder.events:
        return
    name, digest = request.node.nodeid.removeprefix("tests/core/"), recorder.digest()
    if request.config.getoption("--record"):
        digests[name] = digest
    assert digests.get(name) == digest, (
        "the scheduler does other things in this test than when it was recorded; if it is meant to:"
        " pytest tests/core --record, and look at the diff of recorded.json"
    )
