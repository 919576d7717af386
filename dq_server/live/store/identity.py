"""Which cluster a home is of: the same name in the journal, beside the keys and in server.json.

A journal that was swapped for another cluster's is sound in itself, and a home whose journal is
gone looks like a new one. The name tells: it is drawn with the first journal, and every server
compares it before it acts (docs/years.md).
"""

from __future__ import annotations

import os
from pathlib import Path

from dq_client.base.errors import UsageError
from dq_client.base.home import Home, write_private
from dq_server.live.store.journal import Journal

KEY = "cluster"  # in the journal's notes


def require_journal(home: Home) -> None:
    """UsageError if there is no journal in a home that has had a cluster."""
    if home.journal.exists() and home.journal.stat().st_size:
        return
    name = home.cluster()
    had_jobs = (home.keys / "server.key").exists() and _has_entries(home.root / "jobs")
    if not name and not had_jobs:
        return
    signs = [home.cluster_file] if name else []
    signs += [home.root / "jobs"] if had_jobs else []
    raise UsageError(
        f"{home.journal} is gone, and there was a cluster here: restore a backup (dq restore FILE);"
        f" to begin anew without its jobs move away {' and '.join(map(str, signs))}"
    )


def settle(journal: Journal, home: Home) -> str:
    """The cluster's name, kept where it was missing. UsageError if the journal is another's."""
    written, kept = journal.meta(KEY), home.cluster()
    if written and kept and written != kept:
        raise UsageError(_differ(home, written, kept))
    name = written or kept or os.urandom(8).hex()
    if not written:
        journal.note(KEY, name)
    if not kept:
        write_private(home.cluster_file, name)
    return name


def problem(written: str | None, home: Home) -> str:
    """Why the journal with this note is not this home's; empty: it is, for all that is known."""
    kept = home.cluster()
    return _differ(home, written, kept) if written and kept and written != kept else ""


def _differ(home: Home, journal: str, keys: str) -> str:
    return (
        f"{home.journal} is the journal of another cluster ({journal}) than the keys beside it"
        f" ({keys}): put the right one back, or restore a backup (dq restore FILE)"
    )


def _has_entries(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is not None
    except OSError:
        return False
