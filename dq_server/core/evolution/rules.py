"""The six ways to place an evolution profile, by the names of Klein & Pérez 2011, 5.1."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from dq_server.core.model.errors import ConfigError


class UnknownFitError(ConfigError):
    """No rule has this name."""


@dataclass(frozen=True, slots=True)
class FitRule:
    """How a requested profile may be changed so that it fits.

    `expand_limit` (a whole number or infinity) says how many times its duration a step may last
    while the application waits for more nodes: 1 never expands, infinity sets no limit.
    `compacting` then pulls the start as late as the completion found allows. `rigid` first flattens
    the profile to its peak (the CBF baseline: in order, filling holes, moving nobody).
    """

    name: str
    expand_limit: float = 1
    compacting: bool = False
    rigid: bool = False

    def __post_init__(self) -> None:
        whole = isinstance(self.expand_limit, int) and self.expand_limit >= 1
        if not (whole or self.expand_limit == inf):
            raise ConfigError(
                f"{self.name}: expand limit {self.expand_limit} is neither whole nor infinite"
            )


FIT_RULES = {
    rule.name: rule
    for rule in (
        FitRule("rigid", rigid=True),
        FitRule("noX"),
        FitRule("2X", expand_limit=2),
        FitRule("2X+c", expand_limit=2, compacting=True),
        FitRule("infX", expand_limit=inf),
        FitRule("infX+c", expand_limit=inf, compacting=True),
    )
}


def fit_rule(name: str) -> FitRule:
    """The rule called `name`; UnknownFitError lists the names there are."""
    try:
        return FIT_RULES[name]
    except KeyError:
        raise UnknownFitError(f"unknown fit {name!r}: choose from {' '.join(FIT_RULES)}") from None
