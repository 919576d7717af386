"""Host lists for new ranks, in hydra's syntax."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from dq_client.base.dq_rsh import SOCKET_VARIABLE, spelled_in_numbers


def grouped(hosts: Sequence[str]) -> list[str]:
    """The same entries with equal hosts side by side, hosts in order of first appearance.

    >>> grouped(["n2", "n1", "n2"])
    ['n2', 'n2', 'n1']
    """
    return [hosts[i] for i in requested_order(hosts)]


def requested_order(hosts: Sequence[str]) -> list[int]:
    """For each entry of `grouped(hosts)`, its position in `hosts`.

    >>> requested_order(["n2", "n1", "n2"])
    [0, 2, 1]
    """
    first = {host: hosts.index(host) for host in set(hosts)}
    return sorted(range(len(hosts)), key=lambda i: (first[hosts[i]], i))


def hydra_host_list(hosts: Sequence[str], numbers: bool | None = None) -> str:
    """The host list as hydra reads it: name:count, each name once.

    `numbers`: names as dq-rsh wants them (default: if this job was launched through it).

    >>> hydra_host_list(["n2", "n1", "n2"], numbers=False)
    'n2:2,n1:1'
    """
    if numbers is None:
        numbers = SOCKET_VARIABLE in os.environ
    spelled = spelled_in_numbers if numbers else str
    return ",".join(f"{spelled(host)}:{count}" for host, count in Counter(hosts).items())
