"""A small version of benchmarks.load: everything asked is answered, everything submitted ends."""

from __future__ import annotations

import pytest

from benchmarks import load

pytestmark = [pytest.mark.live, pytest.mark.slow]


def test_many_agents_and_a_stream_of_submissions() -> None:
    found = load.run(
        seconds=4, agents=40, queued=300, rate=50, applications=5, keep=100
    )  # the cluster has 160 processors
    assert (found["refused"], found["errors"], found["unanswered"]) == ({}, {}, 0)
    assert found["agents"] == 40
    assert found["acknowledged"] == found["submitted"] > 100
    assert found["heartbeats"] >= 40
    assert found["decisions"] >= 5
    assert found["ended"] > 0
    assert found["on_the_books"] <= found["queued"] + 160 + 100, "jobs that ended are let go"
