"""Who keeps whose part: a rank on the next node, so that the loss of one node loses no part.

Each part is kept twice, on its own node and on the next one; nodes follow each other in the order
of their first ranks, the last is followed by the first. Of two lost nodes that follow each other
one part is lost, so the copy is. Source of the scheme: the partner level of SCR (Moody,
Bronevetsky, Mohror and de Supinski, "Design, modeling, and evaluation of a scalable multi-level
checkpointing system", 2010); double in-memory checkpoints (Zheng, Shi and Kalé, "FTC-Charm++",
2004).
"""

from __future__ import annotations

from collections.abc import Sequence


def partners(hosts: Sequence[str]) -> list[int | None]:
    """For each rank the rank that keeps its part, too; None if all are on one node."""
    on: dict[str, list[int]] = {}
    for rank, host in enumerate(hosts):
        on.setdefault(host, []).append(rank)
    order = list(on)
    if len(order) == 1:
        return [None] * len(hosts)
    result: list[int | None] = [None] * len(hosts)
    for at, host in enumerate(order):
        there = on[order[(at + 1) % len(order)]]
        for place, rank in enumerate(on[host]):
            result[rank] = there[place % len(there)]
    return result


def leaders(hosts: Sequence[str]) -> set[int]:
    """The first rank on each node."""
    return {hosts.index(host) for host in set(hosts)}
