"""What is known of the cluster, and what of it has changed since a reader looked last.

The follower's thread takes in the server's answers (`take`); the site's loop reads. A reader's
place is a text that it hands back: generation, number of the last change, number of the last
decision. A new generation begins when what was known counts no more; then a reader gets the whole.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from itertools import islice
from typing import Any

from dq_client.base.changes import Changes

DECISIONS_KEPT = 2000
GONE_KEPT = 20_000

Row = dict[str, Any]


class Model:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[int | str, Row] = {}  # jobs by id, nodes by name
        self._changes: Changes[int | str] = Changes()
        self._gone = 0  # how many things of this generation are no more
        self._generation = 1
        self._decisions: deque[Row] = deque(maxlen=DECISIONS_KEPT)
        self._told = 0  # decisions so far
        self._counts: Counter[str] = Counter()
        self.complete = False  # all that the server knew was told once, or it is away
        self._status: Row = {"up": False, "why": "not connected yet"}

    def take(self, answer: Row) -> None:
        """An answer to `Since`."""
        with self._lock:
            if answer["whole"]:
                self._rows.clear()
                self._begin_anew()
            for job in answer["jobs"]:
                self._set(job["id"], job)
            for node in answer["nodes"]:
                self._set(node["name"], node)
            for gone in answer["gone"]:
                if self._rows.pop(gone, None) is not None:
                    self._changes.touch(gone)
                    self._gone += 1
            if self._gone > GONE_KEPT:
                self._begin_anew()
            for decision in answer["decisions"]:
                self._told += 1
                self._decisions.append(decision)
                self._counts[decision["what"]] += 1
            self.complete |= not answer["more"]
            shown = {key: answer[key] for key in ("epoch", "processors", "idle", "paused")}
            self._status = {"up": True, "why": "", **shown}

    def _set(self, key: int | str, row: Row) -> None:
        self._rows[key] = row
        self._changes.touch(key)

    def _begin_anew(self) -> None:
        self._generation += 1
        self._changes, self._gone = Changes(), 0
        for key in self._rows:
            self._changes.touch(key)

    def away(self, why: str) -> bool:
        """The server does not answer; what was known is still shown. Whether that is news."""
        with self._lock:
            self.complete = True
            before, self._status = self._status, {**self._status, "up": False, "why": why}
            return before != self._status

    def since(self, place: str = "") -> tuple[str, Row]:
        """The reader's next place, and what it does not know yet."""
        with self._lock:
            generation, number, told = _parts(place)
            whole = (
                generation != self._generation
                or number > self._changes.last
                or told > self._told
                or told < self._told - len(self._decisions)
            )
            if whole:
                number, told = 0, self._told - len(self._decisions)
            found = [key for key, _ in self._changes.after(number)]
            rows = {key: self._rows[key] for key in found if key in self._rows}
            news = {
                "whole": whole,
                "status": self._status,
                "jobs": [row for key, row in rows.items() if isinstance(key, int)],
                "nodes": [row for key, row in rows.items() if isinstance(key, str)],
                "gone": [] if whole else [key for key in found if key not in rows],
                "decisions": self._latest(self._told - told),
            }
            return f"{self._generation}.{self._changes.last}.{self._told}", news

    def _latest(self, count: int) -> list[Row]:
        return list(islice(self._decisions, len(self._decisions) - count, None))

    def figures(self) -> tuple[Row, list[Row], list[Row], Counter[str]]:
        """Status, jobs, nodes, and how many decisions of each kind were told so far."""
        with self._lock:
            jobs = [row for key, row in self._rows.items() if isinstance(key, int)]
            nodes = [row for key, row in self._rows.items() if isinstance(key, str)]
            return dict(self._status), jobs, nodes, Counter(self._counts)


def _parts(place: str) -> tuple[int, int, int]:
    """The numbers of a reader's place; zeros for what is none."""
    try:
        generation, number, told = (int(part) for part in place.split("."))
    except ValueError:
        return 0, 0, 0
    return generation, number, told
