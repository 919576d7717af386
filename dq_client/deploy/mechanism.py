"""How emulated nodes are slowed: the mechanisms, what this machine allows, and what it carries.

paced       the resize library makes each rank wait: no privileges
contained   the kernel does: cgroups, and with root a set of namespaces and a shaped link per node

Nodes that are all busy at once must each get their share of a core, or every measurement on them is
wrong. So shares that add up to more than the machine has are refused, with what would fit.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Literal, TypeAlias

from dq_client.base.errors import UsageError
from dq_client.deploy.cluster import ClusterShape, usable_cores

Fidelity: TypeAlias = Literal["paced", "contained", "auto"]
ROUNDING = 1e-9  # of a sum of shares
FIDELITIES = ("paced", "contained", "auto")

PACED_LEAVES_OUT = (
    "not slowed: start-up, packing and copying, files, programs without the resize library"
)


@dataclass(frozen=True, slots=True)
class Mechanism:
    """What was chosen, and one line for people."""

    name: Literal["paced", "contained", "none"]
    words: str


def choose(cluster: ClusterShape, fidelity: str) -> Mechanism:
    """The mechanism for `cluster`; UsageError if `fidelity` asks for what cannot be had."""
    if fidelity not in FIDELITIES:
        raise UsageError(f"unknown fidelity {fidelity!r}; known: {', '.join(FIDELITIES)}")
    if cluster.engine != "emulated":
        return Mechanism("none", "")
    if fidelity != "paced":
        from dq_client.node.emulation import contained

        missing = contained.what_is_missing()
        if not missing:
            return Mechanism("contained", contained_words())
        if fidelity == "contained":
            raise UsageError(f"--fidelity contained: {missing}; --fidelity paced needs nothing")
    links = "messages take the time of the emulated links" if cluster.link else "no links emulated"
    return Mechanism(
        "paced",
        f"paced: computing is stretched to each node's share, {links}; {PACED_LEAVES_OUT}",
    )


def contained_words() -> str:
    """What the contained mechanism does on this machine."""
    from dq_client.base.cgroups import find

    hierarchy = find()
    assert hierarchy is not None, "what_is_missing() says so"
    cpu = f"cgroup {hierarchy.version} quotas"
    links = (
        "a namespace and a shaped link per node"
        if os.geteuid() == 0
        else "no links of its own (that needs root): bytes go through shared memory"
    )
    return f"contained: {cpu}, {links}; not modelled: caches and memory bandwidth are shared"


def require_fit(cluster: ClusterShape, cores: int | None = None) -> None:
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
        f" {machine}: use the first {fits} nodes, or all of them with every core_share"
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
