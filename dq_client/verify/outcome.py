"""The result of a verification, as data and as text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dq_client.verify import binding
from dq_client.verify.comparison import Comparison, Difference, compare
from dq_client.verify.outputs import OutputLine, first_difference
from dq_client.verify.runs import Run


@dataclass(frozen=True, slots=True)
class First:
    """The first difference, for people."""

    iteration: int
    variable: str
    file: str | None
    line: int | None
    plain: str
    resized: str
    where: str  # on which rank


@dataclass(slots=True)
class Outcome:
    """What the runs have shown. `failed`: why a run did not come to its end; empty: all did."""

    plain: list[Run]
    resized: Run | None = None
    failed: str = ""
    first: First | None = None
    comparison: Comparison = field(default_factory=Comparison)

    @property
    def equal(self) -> bool:
        """Whether the resized run is known to be what the plain one is."""
        return self.resized is not None and not self.failed and self.first is None

    def as_json(self) -> dict[str, Any]:
        """For `--json`; docs/verify.md describes it."""
        resizes = self.resized.resizes if self.resized is not None else []
        first = self.first
        return {
            "equal": self.equal,
            "resizes": [
                {"iteration": r.iteration, "from": r.before, "to": r.after}
                for r in resizes
                if not r.refused
            ],
            "refused": [
                {"iteration": r.iteration, "reason": r.refused} for r in resizes if r.refused
            ],
            "first": None
            if first is None
            else {
                "iteration": first.iteration,
                "variable": first.variable,
                "file": first.file,
                "line": first.line,
                "plain": first.plain,
                "resized": first.resized,
            },
            "failed": self.failed,
            "left_out": [
                {"variable": each.name, "iteration": each.iteration}
                for each in self.comparison.left_out
            ],
            "plain": _run_data(self.plain[0]),
            "resized": None if self.resized is None else _run_data(self.resized),
        }

    def text(self) -> list[str]:
        """For people, a line each."""
        found = [self._verdict(), *self._about_first(), *self._about_resizes()]
        kinds = self.comparison.compared
        parts = {"part": "declared data", "value": "declared values", "variable": "variables"}
        compared = [f"{kinds[kind]} {words}" for kind, words in parts.items() if kind in kinds]
        if compared:
            found.append(f"compared:  {', '.join(compared)} and the output")
        for each in self.comparison.left_out:
            a, b = each.texts
            found.append(
                f"left out:  {each.name}, of which plain runs on {self.plain[0].size} and"
                f" {self.plain[-1].size} ranks differ in iteration {each.iteration}: {a}; {b}"
            )
        return found

    def _verdict(self) -> str:
        iterations = len(self.plain[0].record.iterations)
        if self.failed:
            return f"failed:    {self.failed}"
        if self.first is None:
            return f"equal:     {iterations} iterations are what they are without resizes"
        return f"different: {self.first.variable} in iteration {self.first.iteration}"

    def _about_first(self) -> list[str]:
        first = self.first
        if first is None:
            return []
        place = first.file or "the output"
        lines = [
            f"           {place}{f':{first.line}' if first.line else ''}",
            f"           without resizes: {first.plain}",
            f"           with resizes:    {first.resized}{first.where}",
        ]
        if self.failed:
            lines.insert(0, f"first:     {first.variable} in iteration {first.iteration} differs")
        return lines

    def _about_resizes(self) -> list[str]:
        if self.resized is None:
            return []
        done = [r for r in self.resized.resizes if not r.refused]
        story = ", ".join(f"{r.before}→{r.after} at {r.iteration}" for r in done)
        found = [f"resizes:   {story or 'none was carried out'}"]
        refused: dict[str, list[str]] = {}
        for r in self.resized.resizes:
            if r.refused:
                refused.setdefault(r.refused, []).append(f"{r.before}→{r.after} at {r.iteration}")
        found += [f"refused:   {', '.join(each)}: {why}" for why, each in refused.items()]
        return found


def _run_data(run: Run) -> dict[str, Any]:
    return {
        "exit_code": run.job["exit_code"],
        "state": run.job["state"],
        "reason": run.job["reason"],
        "size": run.size,
        "iterations": len(run.record.iterations),
        "seconds": round(run.took_s, 3),
    }


def failure(run: Run, words: str) -> str:
    """Why a run did not come to its end, with its last error line."""
    last = next((line.strip() for line in reversed(run.errors) if line.strip()), "")
    more = f" ({last})" if last and last not in run.job["reason"] else ""
    return f"{words}: {run.job['reason']}{more}"


def outcome(plain: list[Run], resized: Run, tolerance: float, program: str) -> Outcome:
    """Compare a resized run with the plain ones, all of which are done.

    program: its file, if that is known
    """
    found = compare([run.record for run in plain], resized.record, tolerance)
    made = Outcome(plain, resized, comparison=found)
    iterations = len(plain[0].record.iterations)
    if not resized.done:
        made.failed = failure(resized, "with resizes the program fails")
        reached = len(resized.record.iterations)
        cause = found.first or found.cause_of(reached)
        made.first = _shown(cause, program) if cause is not None else None
        return made
    if found.first is not None:
        made.first = _shown(found.first, program)
        return made
    ended = len(resized.record.iterations)
    line = first_difference([run.output for run in plain], resized.output, tolerance)
    if ended == iterations and line is None:
        return made
    cause = found.cause_of(iterations)
    if cause is not None:
        made.first = _shown(cause, program)
    elif line is not None:
        made.first = _of_line(line, iterations)
    else:
        counts = str(iterations), str(ended)
        made.first = First(min(iterations, ended), "iterations", None, None, *counts, "")
    return made


def _shown(difference: Difference, program: str) -> First:
    file, line = binding.place_of(difference.named, program)
    where = f" on rank {difference.rank} of {difference.size}" if difference.rank >= 0 else ""
    return First(
        difference.iteration,
        difference.named.name,
        file or None,
        line,
        difference.plain,
        difference.resized,
        where,
    )


def _of_line(line: OutputLine, iterations: int) -> First:
    plain, resized = line.plain or "no such line", line.resized or "no such line"
    return First(iterations, "output", None, line.number, plain, resized, "")
