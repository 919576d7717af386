"""Garbage, malformed messages, floods, slow peers: benchmarks.fuzz with small counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks import fuzz

pytestmark = pytest.mark.live


@pytest.mark.parametrize(
    ("attack", "count"),
    [
        (fuzz.garbage, 400),
        (fuzz.malformed, 4000),
        (fuzz.tiny_frames, 1),
        (fuzz.slow_peers, 2),
        (fuzz.boundaries, 1500),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_attack(attack: Callable[..., Any], count: int) -> None:
    """The server lives (it answers, and stops when told to), an honest client was served on the
    way, and memory is bounded whatever was thrown at it."""
    found = fuzz.attack(attack, count)
    assert found["honest_waited_s_max"] > 0
    assert found["grown_mb"] < 150
