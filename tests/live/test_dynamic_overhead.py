"""The live figure of the dynamic ESP paper, small: requests are granted, joined and given back."""

from __future__ import annotations

import pytest

from experiments import dynamic_overhead

pytestmark = [pytest.mark.live, pytest.mark.mpi, pytest.mark.slow]


def test_requests_are_measured_with_and_without_a_queue() -> None:
    found = {case: dynamic_overhead.measure(2, 1, queued) for case, queued in (("a", 0), ("b", 3))}
    for times in found.values():
        assert list(times) == [1, 2]
        assert all(0 < answered < joined for answered, joined in times.values())
    assert "2" in dynamic_overhead.as_text(found)
