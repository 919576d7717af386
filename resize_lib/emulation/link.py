"""One node's link: a latency, a rate, and one message after the other in each direction.

A message of b bytes that its sender posts at time t begins to leave when the link has finished with
earlier ones, reaches the receiver a latency later, and is complete when the receiver's own link has
taken in all of it:

    leaves  = max(t, out_free)           out_free = leaves + b / rate
    arrives = max(leaves + latency, in_free) + b / rate;   in_free = arrives

So a node that sends to many, or hears from many at once, does so one by one, in both directions at
the same time (full duplex) or taking turns (half duplex, as on hubs and old switches), and nothing
between the links is ever the bottleneck. Times are CLOCK_MONOTONIC seconds, which all ranks of one
machine share.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

BITS = 8


@dataclass(slots=True)
class Link:
    """``rate_mbit`` in 10^6 bits per second, ``latency_us`` from post to the first byte there."""

    rate_mbit: float
    latency_us: float
    half_duplex: bool = False
    out_free_s: float = 0.0
    in_free_s: float = 0.0

    @property
    def latency_s(self) -> float:
        """Latency in seconds."""
        return self.latency_us * 1e-6

    def duration_s(self, nbytes: float) -> float:
        """How long the link is busy with so many bytes."""
        return nbytes * BITS / (self.rate_mbit * 1e6)

    def send(self, nbytes: int) -> float:
        """A message is posted now; returns when it begins to leave."""
        leaves_s = max(time.monotonic(), self.out_free_s)
        self.out_free_s = leaves_s + self.duration_s(nbytes)
        if self.half_duplex:
            self.in_free_s = self.out_free_s
        return leaves_s

    def receive(self, leaves_s: float, nbytes: int) -> float:
        """When a message that left at `leaves_s` is complete here."""
        first_s = max(leaves_s + self.latency_s, self.in_free_s)
        self.in_free_s = first_s + self.duration_s(nbytes)
        if self.half_duplex:
            self.out_free_s = self.in_free_s
        return self.in_free_s

    def collective_s(self, nbytes: float, size: int) -> float:
        """What a collective over `size` nodes takes as a tree: latency and bytes per level."""
        levels = math.ceil(math.log2(size)) if size > 1 else 0
        return levels * (self.latency_s + self.duration_s(nbytes))

    def bulk_s(self, sent: int, received: int, messages: int) -> float:
        """What an exchange takes that does nothing but exchange."""
        nbytes = sent + received if self.half_duplex else max(sent, received)
        return messages * self.latency_s + self.duration_s(nbytes)
