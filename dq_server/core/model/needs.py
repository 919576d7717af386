"""What a job asks of the nodes that it runs on: memory, GPUs, features.

Memory and GPUs are counted for each processor that the job holds, as for each rank. A constraint
names features that a node must have: `a&b|c` is (a and b) or c; parentheses may be used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from dq_server.core.model.errors import InvalidSpec

MEMORY_BYTES_MAX = 2**50
GPUS_MAX = 1024
CONSTRAINT_MAX = 1000  # characters: parentheses are followed by recursion
_WORD = re.compile(r"\s*([&|()]|[A-Za-z0-9_][A-Za-z0-9_.:-]*)\s*")
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")

Expression = tuple[str, tuple["Expression", ...]] | str
"""A feature's name, or ("&" or "|", what it joins)."""


@dataclass(frozen=True, slots=True)
class Needs:
    """See the module's docstring. `memory` in bytes; `memory` and `gpus` for each processor."""

    memory: int = 0
    gpus: int = 0
    constraint: str = ""

    def validate(self) -> None:
        """Raise InvalidSpec with one clear line if it makes no sense."""
        if not 0 <= self.memory <= MEMORY_BYTES_MAX:
            raise InvalidSpec(f"memory = {self.memory} bytes: from 0 to {MEMORY_BYTES_MAX}")
        if not 0 <= self.gpus <= GPUS_MAX:
            raise InvalidSpec(f"gpus = {self.gpus}: from 0 to {GPUS_MAX}")
        if self.constraint:
            expression(self.constraint)

    def met_by(self, features: tuple[str, ...]) -> bool:
        """Whether a node with these features is one of those asked for."""
        return not self.constraint or _holds(expression(self.constraint), frozenset(features))

    @property
    def words(self) -> str:
        """What is asked for, after "nodes with"."""
        said = []
        if self.memory:
            said.append(f"{amount(self.memory)} of memory for each rank")
        if self.gpus:
            said.append(f"{self.gpus} GPU{'s' if self.gpus > 1 else ''} for each rank")
        if self.constraint:
            said.append(f"the features {self.constraint}")
        return " and ".join(said)


def amount(count: int) -> str:
    """Bytes for people: 1.5 GiB."""
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.4g} {_UNITS[unit]}"


@lru_cache(maxsize=1000)
def expression(constraint: str) -> Expression:
    """The constraint as a tree; InvalidSpec if it cannot be read."""
    words = _words(constraint)
    found, rest = _joined(words, constraint)
    if rest:
        raise _unreadable(constraint, f"{rest[0]!r} is one too many")
    return found


def _words(constraint: str) -> list[str]:
    if len(constraint) > CONSTRAINT_MAX:
        raise InvalidSpec(f"a constraint has at most {CONSTRAINT_MAX} characters")
    words, at = [], 0
    while at < len(constraint):
        found = _WORD.match(constraint, at)
        if found is None:
            raise _unreadable(constraint, f"{constraint[at:].strip()[:1]!r} cannot stand there")
        words.append(found[1])
        at = found.end()
    if words.count("(") > CONSTRAINT_MAX // 10:
        raise InvalidSpec("a constraint has at most 100 parentheses")
    return words


def _joined(words: list[str], constraint: str, by: str = "|&") -> tuple[Expression, list[str]]:
    """The expression that `words` begin with, and their rest. `by`: joints, the loosest first."""
    if not by:
        return _one(words, constraint)
    parts = []
    while True:
        part, words = _joined(words, constraint, by[1:])
        parts.append(part)
        if words[:1] != [by[0]]:
            return (parts[0] if len(parts) == 1 else (by[0], tuple(parts))), words
        words = words[1:]


def _one(words: list[str], constraint: str) -> tuple[Expression, list[str]]:
    if words[:1] == ["("]:
        inner, rest = _joined(words[1:], constraint)
        if rest[:1] != [")"]:
            raise _unreadable(constraint, "a parenthesis is not closed")
        return inner, rest[1:]
    if not words or words[0] in ("&", "|", ")"):
        raise _unreadable(constraint, "a feature is missing")
    return words[0], words[1:]


def _unreadable(constraint: str, why: str) -> InvalidSpec:
    return InvalidSpec(
        f"constraint {constraint!r}: {why}; give features joined by & and |, as big&fast|gpu"
    )


def _holds(wanted: Expression, features: frozenset[str]) -> bool:
    if isinstance(wanted, str):
        return wanted in features
    joined, parts = wanted
    return (all if joined == "&" else any)(_holds(part, features) for part in parts)
