"""Policies by name: DQ's own, those of installed packages, those of a module, and sets of them.

DQ's own are listed here: to add one, write its file and name it. A package offers more by entry
points of the group `dq.policies`, and `package.module:Class` names any class that can be imported.
What question such a policy answers follows from the class it derives from (base.py).

By one name, for the command line and the configuration file: a name stands for a complete set
(SETS), or is a sum of single policies, one for each question: `easy+reshape` starts jobs by EASY
and resizes them by ReSHAPE. What a sum does not name is FCFS order, FCFS start, no resizing, and
dynamic requests granted always. Who gives way is then up to the resize policy. A user's own policy
is named `package.module:Class`, alone or in a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.errors import ConfigError, known_words
from dq_server.core.model.requests import per_user
from dq_server.core.policies.base import (
    GrantPolicy,
    NoResize,
    Policies,
    Policy,
    QueueOrder,
    ResizePolicy,
    ShrinkPolicy,
    StartPolicy,
)
from dq_server.core.policies.grants import AlwaysGrant, DfsGrant, NeverGrant
from dq_server.core.policies.orders import FairshareOrder, FcfsOrder, PriorityOrder
from dq_server.core.policies.resize_drawn import DrawnResize
from dq_server.core.policies.resize_mebf import RESIZES, MebfResize
from dq_server.core.policies.resize_model import ModelResize
from dq_server.core.policies.resize_reshape import ReshapeResize
from dq_server.core.policies.start_backfill import EasyStart, FcfsStart, NoStart, ReservationsStart
from dq_server.core.policies.start_conservative import ConservativeStart
from dq_server.core.policies.strategies import SharingResize, SharingStart

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

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
        **{name: partial(MebfResize, name) for name in RESIZES},
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
    from importlib.metadata import entry_points  # with the look at all packages 16 ms of a start

    return {point.name: point for point in entry_points(group=GROUP)}


@cache
def _imported(name: str) -> type[Policy]:
    """A class by `package.module:Class`, or by the name of an entry point."""
    point = _offered().get(name)
    target = name if point is None else point.value
    module, _, attribute = target.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"policy {name!r} cannot be imported: {error}; install it, or put its folder on"
            " PYTHONPATH"
        ) from error
    except Exception as error:  # whatever a user's module does when it is imported
        raise ConfigError(f"policy {name!r} cannot be imported: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Policy) and found is not Policy):
        bases = ", ".join(kind.__name__ for kind in KINDS.values())
        raise ConfigError(f"policy {name!r} is not a class derived from one of {bases}")
    return found


def _is_elsewhere(name: str) -> bool:
    is_own = name == BY_RESIZE or any(name in own for own in OWN.values())
    return ":" in name or (not is_own and name in _offered())


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


# --- sets ----------------------------------------------------------------------------------------

_MEBF: dict[str, Any] = {"order": "fcfs", "start": "easy", "moldable": True}
_PLAIN: dict[str, Any] = {"order": "fcfs", "start": "fcfs", "resize": "none", "grant": "always",
                          "shrink": "resize"}  # fmt: skip


def _sharing(**options: Any) -> dict[str, Any]:
    """A strategy of sharing.py. A job that gave way may expand at once: `settle` is 0."""
    both = {"order": "fcfs", "start": "sharing", "resize": "sharing"}
    return {**both, "moldable": True, "settle": 0, "sharing": options}


_HAND_ON = ("pool", "agreement", "steal")

SETS: dict[str, dict[str, Any]] = {
    "fcfs": {"order": "fcfs", "start": "fcfs", "resize": "none"},
    "easy": {"order": "fcfs", "start": "easy", "resize": "none"},
    "conservative": {"order": "fcfs", "start": "conservative", "resize": "none"},
    "reshape": {"order": "fcfs", "start": "fcfs", "resize": "reshape"},
    "reshape-model": {"order": "fcfs", "start": "fcfs", "resize": "reshape-model"},
    "dfs": {
        "order": "fcfs",
        "start": "reservations",
        "resize": "none",
        "grant": "dfs",
        "dfs": per_user(500.0),  # Dyn-500 of Prabhakaran et al. 2014
    },
    "mebf-handoff": {**_MEBF, "resize": "handoff"},
    "mebf-spare": {**_MEBF, "resize": "spare"},
    "mebf-intensive": {**_MEBF, "resize": "intensive"},
    "mebf-expand+": {**_MEBF, "resize": "intensive", "mebf_also": "expand"},
    "mebf-shrink+": {**_MEBF, "resize": "intensive", "mebf_also": "shrink"},
    **{f"min-{how}": _sharing(hand_on=how) for how in _HAND_ON},
    **{
        f"preferred-{how}": _sharing(start="preferred", balance="preferred", hand_on=how)
        for how in _HAND_ON
    },
    **{f"average-{how}": _sharing(balance="average", hand_on=how) for how in _HAND_ON},
    "keep-preferred": _sharing(start="preferred", balance="preferred", beyond="never"),
    "shortest-first": _sharing(
        start="preferred", balance="remaining", hand_on="steal", shortest=True
    ),
}


def named_settings(name: str) -> Mapping[str, Any]:
    """The settings that a name stands for; ConfigError if it names nothing."""
    if name in SETS:
        return {"shrink": "resize", **SETS[name]}
    parts = name.split("+")
    settings, named = dict(_PLAIN), dict.fromkeys(KINDS, "")
    for part in parts:
        kind = _kind(part, name)
        if named[kind]:
            both = f"{named[kind]} and {part}"
            raise ConfigError(f"policy {name!r} names two {kind} policies, {both}")
        named[kind] = settings[kind] = part
    return settings


def _kind(part: str, name: str) -> str:
    """Which question a single policy answers. "fcfs" orders and starts: it means the start."""
    try:
        return kind_of(part)
    except KeyError:
        singles = "; ".join(f"{kind}: {', '.join(known(kind))}" for kind in KINDS if known(kind))
        what = f"unknown policy {name!r}" if part == name else f"unknown part {part!r} of {name!r}"
        shown = f"{', '.join(SETS)}; or a sum of single ones ({singles}), or package.module:Class"
        names = [*SETS, *(name for kind in KINDS for name in known(kind))]
        raise ConfigError(f"{what}; {known_words(part, names, shown)}") from None
