"""What a paper claims, and whether our figures say the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

Verdict = Literal["agrees", "direction only", "contradicts"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of a paper with our verdict.

    ours    our figures that the verdict rests on
    reason  why ours differ, if that is known
    """

    source: str
    claim: str
    verdict: Verdict
    ours: str
    reason: str = ""

    @property
    def plain(self) -> dict[str, str]:
        """For JSON."""
        return asdict(self)


def judged(
    source: str, claim: str, ours: str, *, holds: bool, direction: bool, reason: str = ""
) -> Claim:
    """A claim that `holds` as it stands, or at least in its `direction`, or neither."""
    verdict: Verdict = "agrees" if holds else "direction only" if direction else "contradicts"
    return Claim(source, claim, verdict, ours, "" if verdict == "agrees" else reason)


def as_text(claims: Sequence[Claim]) -> str:
    """One claim after the other, the verdict first."""
    width = max(len(claim.verdict) for claim in claims)
    lines = []
    for claim in claims:
        lines.append(f"{claim.verdict:{width}}  {claim.source}: {claim.claim}")
        lines.append(f"{'':{width}}  ours: {claim.ours}")
        if claim.verdict != "agrees":
            lines.append(f"{'':{width}}  why: {claim.reason or 'not known'}")
    return "\n".join(lines)
