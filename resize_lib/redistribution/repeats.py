"""What a process remembers of its last redistributions: see ``repeating``.

Only the moves of the last two rounds are kept: a job that goes to and fro has two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from resize_lib.redistribution.repeating import Repeat

ROUNDS = 2

Question: TypeAlias = tuple[Any, ...]  # equal only if the same move of the same memory is asked for


class Repeats:
    """What one process remembers; part of its arena, whose memory it refers to."""

    def __init__(self) -> None:
        self._repeats: list[Repeat] = []
        self._round = 0

    def find(self, question: Question | None) -> Repeat | None:
        """A new redistribution begins; what is remembered of this very one, if anything."""
        self._round += 1
        found = None
        for repeat in self._repeats:
            if _same(repeat.question, question):
                repeat.round, found = self._round, repeat
        self._repeats = [r for r in self._repeats if r.round > self._round - ROUNDS]
        return found

    def drop(self, repeat: Repeat) -> None:
        """It could not be done again: something is elsewhere."""
        self._repeats = [r for r in self._repeats if r is not repeat]

    def add(self, repeat: Repeat) -> None:
        """Remember what was done in this round."""
        repeat.round = self._round
        self._repeats = [r for r in self._repeats if not _same(r.question, repeat.question)]
        self._repeats.append(repeat)


def _same(one: Question, other: Question | None) -> bool:
    try:
        return one == other
    except Exception:  # bad input, of which all ranks will hear in a moment
        return False
