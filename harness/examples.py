"""How many examples a property test draws under the profile that tests/conftest.py chose."""

from __future__ import annotations

from hypothesis import settings

FULL = 100  # of a test that names no number, under the profile "full"


def examples(full: int) -> int:
    """`full` of them under the profile "full", as large a share of them as it has under others."""
    return max(1, full * settings().max_examples // FULL)
