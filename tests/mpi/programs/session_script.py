"""Resizes by script: what a session hears in place of a server's answers, and who it tells.

A script is a list of moves, one resize each. It is a function of its arguments alone, so that any
rank which becomes rank 0, however late it joined, can go on with it.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dq_client.base import messages as m
from resize_lib.server_link import ServerLink

if TYPE_CHECKING:
    from resize_lib.jobsession import Session


@dataclass(frozen=True)
class Move:
    """expand by `places`, shrink off them or regrid, onto rows x cols.

    `after`: the job's places, if it works.
    """

    what: str
    places: tuple[m.RankPlace, ...]
    rows: int
    cols: int
    after: tuple[m.RankPlace, ...]


class Script:
    """Moves of a job on `hosts`, eight processors in all; it starts on the first host."""

    def __init__(self, size: int, hosts: Sequence[str]) -> None:
        on = [hosts[0 if p < size else p % len(hosts)] for p in range(8)]
        self.pool = [m.RankPlace(p, f"node{p}", host, 1 + p % 3 / 2) for p, host in enumerate(on)]
        self.start = self.now = tuple(self.pool[:size])
        self.moves: list[Move] = []

    def expand(
        self, places: Sequence[m.RankPlace], rows: int, cols: int, *, works: bool = True
    ) -> None:
        self._add(Move("expand", tuple(places), rows, cols, self.now + tuple(places)), works)

    def shrink(self, ranks: Iterable[int], rows: int, cols: int, *, works: bool = True) -> None:
        leaving = tuple(self.now[r] for r in ranks)
        staying = tuple(p for p in self.now if p not in leaving)
        self._add(Move("shrink", leaving, rows, cols, staying), works)

    def regrid(self, rows: int, cols: int, *, works: bool = True) -> None:
        self._add(Move("regrid", (), rows, cols, self.now), works)

    def _add(self, move: Move, works: bool) -> None:
        self.moves.append(move)
        if works:
            assert move.rows * move.cols == len(move.after)
            self.now = move.after

    @property
    def free(self) -> list[m.RankPlace]:
        return [p for p in self.pool if p not in self.now]


def some_grid(chance: random.Random, size: int) -> tuple[int, int]:
    rows = chance.choice([r for r in range(1, size + 1) if size % r == 0])
    return rows, size // rows


def another_grid(chance: random.Random, move: Move) -> tuple[int, int]:
    """Of the size that a move has led to, which has more than one."""
    while (found := some_grid(chance, move.rows * move.cols)) == (move.rows, move.cols):
        pass
    return found


def random_moves(seed: int, count: int, size: int, hosts: Sequence[str]) -> Script:
    """To processors that the job did not start on, to one that is not rank 0's, then at random."""
    chance, script = random.Random(seed), Script(size, hosts)
    script.expand(script.free[:3], *some_grid(chance, size + 3))
    script.regrid(*another_grid(chance, script.moves[-1]))
    script.shrink(range(size), *some_grid(chance, 3))  # every processor it started on
    script.shrink([0, 1], 1, 1)
    script.expand(script.pool[:1], 2, 1)  # where it was before
    while len(script.moves) < count:
        now = len(script.now)
        if now > 1 and chance.random() < 0.25:
            script.regrid(*another_grid(chance, script.moves[-1]))
        elif now == 1 or (now < 8 and chance.random() < 0.5):
            places = chance.sample(script.free, chance.randint(1, 8 - now))
            script.expand(places, *some_grid(chance, now + len(places)))
        else:
            ranks = chance.sample(range(now), chance.randint(1, now - 1))
            script.shrink(ranks, *some_grid(chance, now - len(ranks)))
    return script


# The grid that a resize goes to -> what fails there, and on which rank.
Faults = dict[tuple[int, int], tuple[str, int]]

# Grids that a failing resize goes to, with what fails at which rank.
FAULTS: Faults = {
    (1, 7): ("pack", 1),  # an old rank
    (7, 1): ("unpack", 5),  # a joining rank
    (1, 2): ("pack", 0),  # a rank that leaves
    (2, 1): ("unpack", 1),  # a rank that stays
    (1, 4): ("unpack", 2),  # nobody comes or goes
}


def faulty_moves(size: int, hosts: Sequence[str]) -> Script:
    """Every resize that FAULTS makes fail, one onto a dead node, and then some that work."""
    assert size == 4
    script = Script(size, hosts)
    script.expand(script.free[:3], 1, 7, works=False)
    script.expand(script.free[:3], 7, 1, works=False)
    script.shrink([0, 2], 1, 2, works=False)
    script.shrink([0, 2], 2, 1, works=False)
    script.regrid(1, 4, works=False)
    script.regrid(4, 1)
    if "localhost" not in hosts and "DQ_NODE" not in os.environ:  # else any host is good
        script.expand([script.free[0], m.RankPlace(9, "node9", "nosuch")], 2, 3, works=False)
    script.expand(script.free[:2], 2, 3)
    script.shrink([0, 5], 4, 1)
    script.expand(script.free[:3], 7, 1, works=False)
    script.shrink([1], 3, 1)
    return script


class ScriptedLink(ServerLink):
    """Answers remap points by the script; prints what the session reports, one line each."""

    shares = False  # several turns may have one remap point

    def __init__(self, script: Script) -> None:
        self.script = script
        self.settled = 0  # by word of the session: what failed counts as well
        self.step: int | None = None  # the turns that this rank has reported
        self.answer: m.RemapAnswer | None = None  # not heard yet

    def hello(self, processors: int, legal: Sequence[int] = ()) -> m.JobWelcome:
        assert not legal
        assert processors == len(self.script.start)
        rows, cols = some_grid(random.Random(0), processors)
        return m.JobWelcome(1, 1, 1, list(self.script.start), rows, cols)

    def next_id(self, resize_id: int) -> int:
        return max(resize_id, self.settled) + 1

    def finished(self, resize_id: int) -> bool:
        return self.next_id(resize_id) > len(self.script.moves)

    def remap(self, point: m.RemapPoint) -> m.RemapAnswer:
        number = self.next_id(point.resize_id)
        assert self.step in (None, point.step - point.iterations), "every turn is reported once"
        assert self.shares or point.preparing or point.iterations == 1
        self.step = point.step
        if point.preparing:
            assert point.preparing == number
            return m.RemapAnswer("continue", number)
        if self.finished(point.resize_id):
            return m.RemapAnswer("continue")
        move = self.script.moves[number - 1]
        return m.RemapAnswer(move.what, number, list(move.places), move.rows, move.cols)

    def begin_remap(self, point: m.RemapPoint) -> None:
        assert self.answer is None, "one question at a time"
        self.answer = self.remap(point)

    def remap_word(self) -> str:
        return self.answer.what if self.answer is not None else ""

    def remap_answer(self, *, wait: bool) -> m.RemapAnswer | None:
        found, self.answer = self.answer, None
        return found

    def tell(self, body: m.Committed | m.Aborted) -> None:
        self.settled = body.resize_id
        told: dict[str, Any]
        if isinstance(body, m.Committed):
            told = {"committed": body.resize_id, "pids": body.pids}
        else:
            told = {"aborted": body.resize_id, "why": body.why}
        print(json.dumps(told), flush=True)

    def farewell(self, resize_id: int) -> None:
        pass

    def close(self) -> None:
        pass


def scripted(rs: Session) -> ScriptedLink:
    """The connection of a session that was opened with a script."""
    link = rs._session.server()
    assert isinstance(link, ScriptedLink)
    return link
