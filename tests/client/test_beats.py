"""Heartbeats of many agents are spread over the period."""

from __future__ import annotations

from collections import Counter

import pytest

from dq_client.node.agent.beats import counted_from, phase_of

PERIOD_S = 2.0


@pytest.mark.parametrize("names", ["node{:04}", "n{}", "rack{0}-10.example.org"])
def test_a_thousand_agents_that_are_welcomed_together_do_not_come_together(names: str) -> None:
    times = Counter[int]()  # heartbeats by hundredths of a period, after the first ones
    for k in range(1000):
        name, now, first = names.format(k), 0.0, True
        for _ in range(3):
            due_s = counted_from(phase_of(name), now, PERIOD_S, first=first) + PERIOD_S
            assert 0 <= due_s - now <= PERIOD_S, "never later than a period: it would be lost"
            now, first = due_s, False
            times[int(100 * due_s / PERIOD_S)] += 1
    assert max(times.values()) <= 25, "10 are meant"
    assert all(times[slot] for slot in range(100, 200)), "in every hundredth of a period"


def test_an_agents_moment_is_always_the_same() -> None:
    assert phase_of("n01") == pytest.approx(0.6840, abs=1e-4) == phase_of("n01")
    assert phase_of("n01") != phase_of("n02")
