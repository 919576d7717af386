"""A contained cluster."""

from __future__ import annotations


def what_is_missing() -> str:
    """Why this machine cannot contain nodes; empty if it can."""
    return "not available yet"
