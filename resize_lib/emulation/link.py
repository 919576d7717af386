"""One node's link: a latency, a rate, and one message after the other in each direction.

A message of b bytes that its sender posts at time t begins to leave when the link has finished with
earlier ones, reaches the receiver a latency later, and is complete when the receiver's own link has
taken in all of it:

    leaves  = max(t, out_free)           out_free = leaves + b / rate
    arrives = max(leaves + latency, in_free) + b / rate;   in_free = arrives

So a node that sends to many, or hears from many at once, does so one by one, in both directions at
the same time (full duplex) or taking turns (half duplex). Nothing between the links is ever the
bottleneck, unless the medium is shared, as on a hub: then the messages of all nodes of the job go
one after the other. Times are CLOCK_MONOTONIC seconds, which all ranks of one machine share.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Protocol

BITS = 8


class Medium(Protocol):
    """What the nodes of a job share on a hub."""

    def take(self, duration_s: float) -> float:
        """Book the next `duration_s`; returns when they begin (monotonic seconds)."""


@dataclass(slots=True)
class Link:
    """``rate_mbit`` in 10^6 bits per second, ``latency_us`` from post to the first byte there."""

    rate_mbit: float
    latency_us: float
    duplex: str = "full"  # "full", "half" or "shared"
    out_free_s: float = 0.0
    in_free_s: float = 0.0
    medium: Medium | None = None  # of all nodes, where it is shared

    @property
    def latency_s(self) -> float:
        """Latency in seconds."""
        return self.latency_us * 1e-6

    def duration_s(self, nbytes: float) -> float:
        """How long the link is busy with so many bytes."""
        return nbytes * BITS / (self.rate_mbit * 1e6)

    def send(self, nbytes: int) -> float:
        """A message is posted now; returns when it begins to leave."""
        free_s = (
            self.out_free_s if self.medium is None else self.medium.take(self.duration_s(nbytes))
        )
        leaves_s = max(time.monotonic(), free_s)
        self.out_free_s = leaves_s + self.duration_s(nbytes)
        if self.duplex == "half":
            self.in_free_s = self.out_free_s
        return leaves_s

    def receive(self, leaves_s: float, nbytes: int) -> float:
        """When a message that left at `leaves_s` is complete here."""
        if self.duplex == "shared":
            return leaves_s + self.latency_s + self.duration_s(nbytes)
        first_s = max(leaves_s + self.latency_s, self.in_free_s)
        self.in_free_s = first_s + self.duration_s(nbytes)
        if self.duplex == "half":
            self.out_free_s = self.in_free_s
        return self.in_free_s

    def collective_s(self, nbytes: float, size: int) -> float:
        """What a collective over `size` nodes takes as a tree: latency and bytes per level.

        A formula, not messages: what MPI sends within a collective cannot be seen from outside.
        """
        levels = math.ceil(math.log2(size)) if size > 1 else 0
        return levels * (self.latency_s + self.duration_s(nbytes))

    def bulk_s(self, sent: int, received: int, messages: int) -> float:
        """What an exchange takes that does nothing but exchange."""
        nbytes = max(sent, received) if self.duplex == "full" else sent + received
        return messages * self.latency_s + self.duration_s(nbytes)
