"""What a standby is given of a journal (leader.py): rows as they stand in the file.

Between batches only: what is not committed is nobody's.
"""

from __future__ import annotations

import sqlite3

from dq_client.base import messages as m
from dq_server.live.store import journal_file
from dq_server.live.store.checksums import START
from dq_server.live.store.journal_file import ANY


def lines(db: sqlite3.Connection, after: int, at_most: int, bytes_max: int) -> list[m.Line]:
    """Events with a larger seq, in order, each with what was archived with it.

    At most so many, and no more once they have `bytes_max`. journal_file.Broken if one is damaged.
    """
    found: list[m.Line] = []
    size = 0
    for seq, time, kind, body, actions, _ in journal_file.rows(
        db, after, journal_file.sum_of(db, after)
    ):
        ended = _ended_by(db, actions) if '"JobFinished"' in actions else []
        found.append(m.Line(seq, time, kind, body, actions, ended))
        size += len(body) + len(actions) + sum(len(told) for _, told in ended)
        if len(found) >= at_most or size >= bytes_max:
            break
    return found


def _ended_by(db: sqlite3.Connection, actions: str) -> list[tuple[int, bytes]]:
    """What is archived of the jobs that these actions say have finished."""
    rows = db.execute(
        "SELECT job, body FROM ended WHERE job IN (SELECT json_extract(value, '$[1].job')"
        " FROM json_each(?) WHERE json_extract(value, '$[0]') = 'JobFinished')",
        (actions,),
    )
    return [(int(job), bytes(body)) for job, body in rows]


def ended(db: sqlite3.Connection, after: int, at_most: int) -> list[tuple[int, bytes]]:
    """What is archived of jobs of higher numbers, in order."""
    rows = db.execute(
        "SELECT job, body FROM ended WHERE job > ? ORDER BY job LIMIT ?", (after, at_most)
    )
    return [(int(job), bytes(body)) for job, body in rows]


def base(db: sqlite3.Connection) -> m.Base:
    """The newest sound snapshot; of event 0: there is none."""
    for seq, chain, body in journal_file.snapshots(db, ANY):
        row = db.execute("SELECT time, type, body, actions, sum FROM events WHERE seq = ?", (seq,))
        *what, found = row.fetchone() or (None,)
        if body is not None and found == chain:
            return m.Base(seq, chain, body, m.Line(seq, *what))
    return m.Base(0, START, b"")


def newest_snapshot(db: sqlite3.Connection) -> int:
    """After which event the newest snapshot was taken; 0: there is none."""
    return int(db.execute("SELECT max(seq) FROM snapshots").fetchone()[0] or 0)
