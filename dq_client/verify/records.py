"""What the ranks of a run have recorded; resize_lib/recording/recorder.py has the format."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

At: TypeAlias = tuple[tuple[int, int], ...]  # loops around, outermost first: number and iteration
Fingerprint: TypeAlias = list[Any]
State: TypeAlias = dict[str, Fingerprint]


class Named(NamedTuple):
    """A variable: its name in the program, where it is bound, and what kind it is."""

    name: str
    file: str
    function: str
    kind: str  # "part", "value", "variable", "local" (resize_lib/recording/recorder.py)


@dataclass(slots=True)
class Moment:
    """The end of an iteration, or the resize that followed it: what each rank has.

    size   ranks that there are
    order  number of the iteration since the program's begin, from 0
    """

    at: At
    resized: bool
    size: int
    order: int = 0
    ranks: dict[int, State] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether all ranks have recorded it: the job may have failed in between."""
        return len(self.ranks) == self.size


class Record:
    """Of one run. `opened`: whether its program has opened a session."""

    def __init__(self, folder: Path) -> None:
        self.named: dict[str, Named] = {}
        files = sorted(folder.glob("*.jsonl"))
        self.opened = bool(files)
        self.moments: list[Moment] = []
        lines = heapq.merge(*(self._lines(path) for path in files), key=lambda line: line[:2])
        for at, resized, size, rank, state in lines:
            last = self.moments[-1] if self.moments else None
            if last is None or (last.at, last.resized) != (at, resized):
                order = last.order + (not resized) if last is not None else 0
                last = Moment(at, resized, size, order)
                self.moments.append(last)
            last.ranks[rank] = state
        self.iterations = [moment for moment in self.moments if not moment.resized]

    def _lines(self, path: Path) -> Iterator[tuple[At, bool, int, int, State]]:
        state: State = {}
        for text in path.read_text().splitlines()[1:]:
            try:
                line = json.loads(text)
            except ValueError:  # the process was killed while it wrote
                return
            for key, words in line["new"].items():
                self.named.setdefault(key, Named(*words))
            state = {k: v for k, v in (state | line["set"]).items() if k not in line["gone"]}
            at = tuple((number, iteration) for number, iteration in line["at"])
            yield at, line["resized"], line["size"], line["rank"], state
