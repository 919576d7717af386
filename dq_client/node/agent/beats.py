"""When an agent sends its heartbeats: once each period, and not all agents at the same moment.

Agents that are welcomed together (a cluster comes up, a server starts again) would send together
from then on: a thousand heartbeats in one turn of the server, and none for the rest of the period.
So the second one of a session comes early, by a share of the period that follows from the agent's
name, and the others a period apart.
"""

from __future__ import annotations

from hashlib import blake2b


def phase_of(name: str) -> float:
    """From 0 to below 1: the same for the same name, spread evenly over many names."""
    return int.from_bytes(blake2b(name.encode(), digest_size=6).digest(), "big") / 2**48


def counted_from(phase: float, now: float, period_s: float, *, first: bool) -> float:
    """The time (s) from which a heartbeat that is sent `now` is counted: the next is due a period
    later. `first`: it is the first one of its session."""
    return now - (1.0 - phase) * period_s if first else now
