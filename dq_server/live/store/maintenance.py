"""Work on a home's journal by hand: backup, restore, check, mend.

    python -m dq_server.live.store.maintenance VERB ...

For `dq backup`, `dq restore` and `dq server check`, which import nothing of the server. Prints one
JSON object; exit code as for `dq`, with one line on standard error.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from dq_client.base import opened
from dq_client.base.errors import DQError, NotFound, Refused
from dq_client.base.home import Home
from dq_server.core.model.errors import SchedulerError
from dq_server.live.store import backup, identity, journal_file, verify_all
from dq_server.live.store.journal import JournalError


def main(argv: list[str]) -> int:
    home = Home.default()
    verb, file = argv[0], Path(argv[1]) if len(argv) > 1 else Path()
    try:
        done = {
            "backup": lambda: backup.write(home, file),
            "restore": lambda: _restore(home, file),
            "check": lambda: _check(home),
            "mend": lambda: _mend(home),
        }[verb]()
    except (DQError, JournalError, SchedulerError, OSError) as e:
        print(e, file=sys.stderr)  # noqa: T201
        return e.exit_code if isinstance(e, DQError) else 1
    print(json.dumps(done))  # noqa: T201
    return 0


def _check(home: Home) -> dict[str, Any]:
    if not home.journal.exists() and not Path(f"{home.journal}-last").exists():
        raise NotFound(f"{home.root} has no journal")
    found = verify_all.examine(home.journal)
    if why := identity.problem(_name_in(home.journal), home):
        found["problems"].append(why)
    return found


def _name_in(journal: Path) -> str | None:
    """The name of the cluster whose journal it is; None: it says none, or cannot be read."""
    try:
        with closing(journal_file.opened_to_read(journal)) as db:
            row = db.execute("SELECT value FROM meta WHERE key = ?", (identity.KEY,)).fetchone()
            return None if row is None else str(row[0])
    except (OSError, sqlite3.Error):
        return None


def _restore(home: Home, file: Path) -> dict[str, Any]:
    home.create()
    with _stopped(home, "restored"):
        return backup.restore(home, file)


def _mend(home: Home) -> dict[str, Any]:
    """Go on with what is sound; the damaged files are kept."""
    with _stopped(home, "mended"), tempfile.TemporaryDirectory(dir=home.root) as folder:
        name = home.journal.name
        target = Path(folder) / name
        done = verify_all.copy_sound(home.journal, target)
        problems = verify_all.examine(target)["problems"]
        if problems:
            raise DQError(f"{home.journal}: cannot be mended ({problems[0]}): dq restore FILE")
        aside = backup.replaced(home, [name, f"{name}-wal", f"{name}-shm", f"{name}-last"])
        for end in ("-last", ""):
            Path(f"{target}{end}").replace(f"{home.journal}{end}")
        return {**done, "replaced": str(aside)}


@contextmanager
def _stopped(home: Home, what: str) -> Iterator[None]:
    """No server runs in this home, and none starts meanwhile."""
    lock = opened.lock(home.lock_file)
    if lock is None:
        running = f"a server is running in {home.root}"
        raise Refused(f"{running}, so the journal is not {what}: dq server stop first")
    try:
        yield
    finally:
        os.close(lock)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
