"""Policies by name: DQ's own, those of installed packages, and those of a module.

DQ's own are listed here: to add one, write its file and name it. A package offers more by entry
points of the group `dq.policies`, and `package.module:Class` names any class that can be imported.
What question such a policy answers follows from the class it derives from (base.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.errors import ConfigError, known_words
from dq_server.core.policies.base import (
    GrantPolicy,
    Policies,
    Policy,
    QueueOrder,
    ResizePolicy,
    ShrinkPolicy,
    StartPolicy,
)
from dq_server.core.policies.grants import AlwaysGrant, DfsGrant, NeverGrant
from dq_server.core.policies.order_fcfs import FcfsOrder
from dq_server.core.policies.order_priority import FairshareOrder, PriorityOrder
from dq_server.core.policies.resize_drawn import DrawnResize
from dq_server.core.policies.resize_mebf import MebfResize, handoff, intensive, spare
from dq_server.core.policies.resize_model import ModelResize
from dq_server.core.policies.resize_none import NoResize
from dq_server.core.policies.resize_reshape import ReshapeResize
from dq_server.core.policies.resize_sharing import SharingResize
from dq_server.core.policies.start_conservative import ConservativeStart
from dq_server.core.policies.start_easy import EasyStart
from dq_server.core.policies.start_fcfs import FcfsStart
from dq_server.core.policies.start_none import NoStart
from dq_server.core.policies.start_reservations import ReservationsStart
from dq_server.core.policies.start_sharing import SharingStart

Maker = Callable[[SchedulerConfig], Any]

# In the order in which a bare name is looked up: "fcfs" is a start policy and an order.
KINDS: dict[str, type[Policy]] = {
    "start": StartPolicy,
    "resize": ResizePolicy,
    "grant": GrantPolicy,
    "order": QueueOrder,
    "shrink": ShrinkPolicy,
}
OWN: dict[str, dict[str, Maker]] = {
    "order": {"fcfs": FcfsOrder, "priority": PriorityOrder, "fairshare": FairshareOrder},
    "start": {
        "none": NoStart,
        "fcfs": FcfsStart,
        "easy": EasyStart,
        "conservative": ConservativeStart,
        "reservations": ReservationsStart,
        "sharing": SharingStart,
    },
    "resize": {
        "none": NoResize,
        "reshape": ReshapeResize,
        "reshape-model": ModelResize,
        "handoff": partial(MebfResize, handoff),
        "spare": partial(MebfResize, spare),
        "intensive": partial(MebfResize, intensive),
        "sharing": SharingResize,
        "drawn": DrawnResize,
    },
    "grant": {"never": NeverGrant, "always": AlwaysGrant, "dfs": DfsGrant},
    "shrink": {},
}
BY_RESIZE = "resize"  # who gives way is the resize policy's to say
GROUP = "dq.policies"
_P = TypeVar("_P", bound=Policy)


@cache
def _offered() -> dict[str, EntryPoint]:
    """Policies of installed packages, by name."""
    return {point.name: point for point in entry_points(group=GROUP)}


@cache
def _imported(name: str) -> type[Policy]:
    """A class by `package.module:Class`, or by the name of an entry point."""
    point = _offered().get(name)
    target = name if point is None else point.value
    module, _, attribute = target.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except Exception as error:  # whatever a user's module does when it is imported
        raise ConfigError(f"policy {name!r} cannot be imported: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Policy) and found is not Policy):
        bases = ", ".join(kind.__name__ for kind in KINDS.values())
        raise ConfigError(f"policy {name!r} is not a class derived from one of {bases}")
    return found


def _is_elsewhere(name: str) -> bool:
    return ":" in name or name in _offered()


def load(names: Iterable[str]) -> None:
    """Import the policies of these names that are not ours: they declare options and reasons."""
    for name in names:
        if _is_elsewhere(name):
            _imported(name)


def known(kind: str) -> Iterable[str]:
    """Names of policies that answer this question: ours and those of installed packages."""
    found = set(OWN[kind])
    for name in _offered():
        # A package that cannot be imported must not hide the names of the others.
        with suppress(ConfigError):
            found |= {name} if issubclass(_imported(name), KINDS[kind]) else set()
    return sorted(found)


def kind_of(name: str) -> str:
    """Which question the policy of this name answers; KeyError if there is none."""
    for kind in KINDS:
        if name in OWN[kind] and name != "none":
            return kind
    if _is_elsewhere(name):
        return next(k for k, base in KINDS.items() if issubclass(_imported(name), base))
    raise KeyError(name)


def _pick(kind: str, base: type[_P], name: str, config: SchedulerConfig) -> _P:
    maker = OWN[kind].get(name)
    if maker is None and _is_elsewhere(name):
        found = _imported(name)
        if not issubclass(found, base):
            raise ConfigError(f"{kind} = {name!r}: the class is not derived from {base.__name__}")
        maker = found
    if maker is None:
        names = [*known(kind), *([BY_RESIZE] if kind == "shrink" else [])]
        raise ConfigError(f"unknown {kind} policy {name!r}; {known_words(name, names)}")
    made = maker(config)
    assert isinstance(made, base)
    return made


def policies(config: SchedulerConfig) -> Policies:
    """One policy for each question, as the configuration names them; ConfigError if one cannot."""
    by_resize = config.shrink == BY_RESIZE
    return Policies(
        _pick("order", QueueOrder, config.order, config),
        _pick("start", StartPolicy, config.start, config),
        _pick("resize", ResizePolicy, config.resize, config),
        _pick("grant", GrantPolicy, config.grant, config),
        None if by_resize else _pick("shrink", ShrinkPolicy, config.shrink, config),
    )
