"""Policies by name. Adding one: write its file, name it here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dq_server.core.config import SchedulerConfig
from dq_server.core.errors import ConfigError
from dq_server.core.policies.base import GrantPolicy, QueueOrder, ResizePolicy, StartPolicy
from dq_server.core.policies.grant_always import AlwaysGrant
from dq_server.core.policies.grant_dfs import DfsGrant
from dq_server.core.policies.grant_never import NeverGrant
from dq_server.core.policies.order_fcfs import FcfsOrder
from dq_server.core.policies.order_priority import FairshareOrder, PriorityOrder
from dq_server.core.policies.resize_mebf import MebfResize, handoff, intensive, spare
from dq_server.core.policies.resize_model import ModelResize
from dq_server.core.policies.resize_none import NoResize
from dq_server.core.policies.resize_reshape import ReshapeResize
from dq_server.core.policies.start_conservative import ConservativeStart
from dq_server.core.policies.start_easy import EasyStart
from dq_server.core.policies.start_fcfs import FcfsStart
from dq_server.core.policies.start_none import NoStart
from dq_server.core.policies.start_reservations import ReservationsStart

ORDERS: dict[str, Callable[[SchedulerConfig], QueueOrder]] = {
    "fcfs": lambda _: FcfsOrder(),
    "priority": PriorityOrder,
    "fairshare": FairshareOrder,
}
STARTS: dict[str, Callable[[SchedulerConfig], StartPolicy]] = {
    "none": lambda _: NoStart(),
    "fcfs": FcfsStart,
    "easy": EasyStart,
    "conservative": ConservativeStart,
    "reservations": ReservationsStart,
}
RESIZES: dict[str, Callable[[SchedulerConfig], ResizePolicy]] = {
    "none": lambda _: NoResize(),
    "reshape": lambda _: ReshapeResize(),
    "reshape-model": lambda _: ModelResize(),
    "handoff": lambda _: MebfResize(handoff),
    "spare": lambda _: MebfResize(spare),
    "intensive": lambda _: MebfResize(intensive),
}

GRANTS: dict[str, Callable[[SchedulerConfig], GrantPolicy]] = {
    "never": lambda _: NeverGrant(),
    "always": lambda _: AlwaysGrant(),
    "dfs": lambda _: DfsGrant(),
}

_P = TypeVar("_P")


def _pick(
    question: str,
    table: dict[str, Callable[[SchedulerConfig], _P]],
    name: str,
    config: SchedulerConfig,
) -> _P:
    make = table.get(name)
    if make is None:
        known = ", ".join(sorted(table))
        raise ConfigError(f"unknown {question} policy {name!r}; known: {known}")
    return make(config)


def order_policy(config: SchedulerConfig) -> QueueOrder:
    """The queue order that the configuration names."""
    return _pick("order", ORDERS, config.order, config)


def start_policy(config: SchedulerConfig) -> StartPolicy:
    """The start policy that the configuration names."""
    return _pick("start", STARTS, config.start, config)


def resize_policy(config: SchedulerConfig) -> ResizePolicy:
    """The resize policy that the configuration names."""
    return _pick("resize", RESIZES, config.resize, config)


def grant_policy(config: SchedulerConfig) -> GrantPolicy:
    """The grant policy that the configuration names."""
    return _pick("grant", GRANTS, config.grant, config)
