"""A standby's copy of the journal: rows of the server's, as they stand there (leader.py).

The same file with the same checksums, so the server that starts from it opens it like its own. What
an answer brings is taken in as a whole, and is on the disk before the next Follow acknowledges it.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import msgspec

from dq_client.base import messages as m
from dq_server.live.store import checksums
from dq_server.live.store.checksums import JournalPosition
from dq_server.live.store.journal import Journal, JournalError


class Position(msgspec.Struct):
    """What a standby remembers of the server that it follows, and of its own attempts to be one.

    term    of the copy; -1: it has never been whole
    number  of the list `voters`
    ended   as in Follow
    stood   the highest epoch that it has asked agents to promise
    tried   terms that it has asked them to agree to
    """

    term: int = -1
    ended: int = 0
    epoch: int = 0
    number: int = 0
    voters: list[str] = []
    stood: int = 0
    tried: list[int] = []


class Replica(Journal):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        kept = self.noted("position")
        self.position = msgspec.json.decode(kept, type=Position) if kept else Position()

    @property
    def mark(self) -> JournalPosition:
        """The last event that it has."""
        return self._saved

    def take_in(self, news: m.Followed, *, flush: bool) -> None:
        """Take in what the server says. JournalError, and nothing has changed, if it cannot be."""
        position = msgspec.structs.replace(
            self.position, epoch=news.epoch, term=news.term, ended=news.ended_to
        )
        if news.voters is not None:
            position.number, position.voters = news.voters
        last, db = self._saved, self._db
        snapshot = None
        try:
            db.execute("BEGIN IMMEDIATE")
            if news.base is not None:
                if self.chain_of(news.base.seq) == news.base.chain and news.base.seq:
                    snapshot = news.base
                else:
                    last = self._begin_with(news.base)
                    position.term = -1
            for line in news.lines:
                last = self._insert(last, line)
                self._archive(line.archived)
            self._archive(news.ended)
            said = msgspec.json.encode(position).decode()
            db.execute("INSERT OR REPLACE INTO meta VALUES ('position', ?)", (said,))
            db.execute("COMMIT")
            if flush:
                os.fdatasync(self._wal)
            self._last = self._saved = last
            self._note.committed(last, flushed=flush)
        except (OSError, sqlite3.Error) as e:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise JournalError(f"{self.path}: cannot be written ({e})") from e
        self.position = position
        if snapshot is not None:
            self.save_snapshot(snapshot.seq, snapshot.body)

    def remember(self, position: Position) -> None:
        """Keep what it has asked the agents, before they are asked."""
        self.note("position", msgspec.json.encode(position).decode())
        self.position = position

    def _begin_with(self, base: m.Base) -> JournalPosition:
        for table in ("events", "snapshots", "ended"):
            self._db.execute(f"DELETE FROM {table}")  # noqa: S608 - names of ours
        self.first = max(1, base.seq)
        if base.line is not None:
            seq, chain, line = base.seq, base.chain, base.line
            row = (seq, line.time, line.kind, line.body, line.actions, chain)
            self._db.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", row)
            kept = (seq, chain, checksums.of_snapshot(seq, chain, base.body), base.body)
            self._db.execute("INSERT INTO snapshots VALUES (?, ?, ?, ?)", kept)
        return JournalPosition(base.seq, base.chain)

    def _insert(self, last: JournalPosition, line: m.Line) -> JournalPosition:
        if line.seq != last.seq + 1:
            raise JournalError(f"event {line.seq} came after event {last.seq}")
        what = line.time, line.kind, line.body, line.actions
        chain = checksums.chained(last.chain, line.seq, *what)
        self._db.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", (line.seq, *what, chain))
        return JournalPosition(line.seq, chain)

    def _archive(self, ended: list[tuple[int, bytes]]) -> None:
        rows = [(job, body, checksums.of_ended(job, body)) for job, body in ended]
        self._db.executemany("INSERT OR REPLACE INTO ended VALUES (?, ?, ?)", rows)
