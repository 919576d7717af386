"""Does this machine carry an emulated cluster?

Nodes that are all busy at once must each get their share of a core, or every measurement on them is
wrong. So shares that add up to more than the machine has are refused, with what would fit.
"""

from __future__ import annotations

import math

from dq_client.cluster import Cluster, usable_cores
from dq_client.errors import UsageError

ROUNDING = 1e-9


def require_fit(cluster: Cluster, cores: int | None = None) -> None:
    """UsageError, with what would fit, if the nodes' shares exceed the machine's cores."""
    shares = [n.processors * n.core_share for n in cluster.nodes if n.core_share is not None]
    if not shares:
        return
    have = usable_cores() if cores is None else cores
    total = sum(shares)
    if total <= have + ROUNDING:
        return
    machine = f"this machine has {have}"
    fits = _largest_prefix(shares, have)
    scale = math.floor(1000 * have / total) / 1000
    raise UsageError(
        f"cluster {cluster.name}: its {len(shares)} nodes together ask for {total:g} cores,"
        f" {machine}; what fits: the first {fits} nodes, or all of them with every core_share"
        f" times {scale:g}"
    )


def _largest_prefix(shares: list[float], cores: int) -> int:
    used, count = 0.0, 0
    for share in shares:
        used += share
        if used > cores + ROUNDING:
            break
        count += 1
    return count
