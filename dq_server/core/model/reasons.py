"""Why the scheduler did what it did: a code and the figures used, as data.

The text is made from the code's template on demand, so that a reason costs next to nothing when a
million jobs are simulated and still reads as a sentence in `dq why`. Whoever gives a reason
declares its template beside the code that gives it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from string import Formatter

Figure = int | float | str | bool | None

TEMPLATES: dict[str, str] = {}


def declare(**templates: str) -> None:
    """Make codes known, each with the template of its sentence."""
    for code, template in templates.items():
        if TEMPLATES.setdefault(code, template) != template:
            raise KeyError(f"the reason {code!r} is declared twice, with two sentences")


class PlainNumbers(Formatter):
    """Writes numbers without exponents: 1240 s, not 1.24e+03 s."""

    def format_field(self, value: Figure, format_spec: str) -> str:
        text = format(value, format_spec)
        return f"{Decimal(text):f}" if format_spec.endswith("g") and "e" in text else text


PLAIN = PlainNumbers()


@dataclass(frozen=True, slots=True)
class Reason:
    """A declared code and the figures that its sentence needs (and more, if useful)."""

    code: str
    figures: dict[str, Figure] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The sentence for people; code and figures of one that another version gave."""
        try:
            return PLAIN.vformat(TEMPLATES[self.code], (), self.figures)
        except (KeyError, ValueError):
            said = ", ".join(f"{name} {figure}" for name, figure in self.figures.items())
            return f"{self.code} ({said})" if said else self.code


def because(code: str, **figures: Figure) -> Reason:
    """Short constructor; an unknown code is a bug and fails at once."""
    if code not in TEMPLATES:
        raise KeyError(f"no reason {code!r}")
    return Reason(code, figures)


# Given in several places.
declare(
    started="on {size} of {idle} idle processors",
    backfilled="backfilled on {size} of {idle} idle processors: {why}",
    paused="no processors are granted at the moment: {why}",
    held="the job is on hold: dq release {job}",
    settling="gave way or failed to resize lately: {left} iterations before expanding again",
    exit="the application ended with exit code {exit_code}",
    node_lost="node {node} was lost",
    torn_down="its processes were killed (exit code {exit_code})",
    vanished="it ended before its work was done, a rank was lost (exit code {exit_code})",
    processes_lost="its processes were lost: {why}",
)
