"""A stopped cluster to look at: `python -m dq_server.live.offline`.

Commands that only show things start it when no server runs (deploy/stopped_cluster.py). It
serves a private copy of the journal to a viewer's key of its own, as it was at the last event, and
ends with its standard input. In the home nothing changes, and no time passes: no walltime ends, no
node is lost, no queued job starts.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import zmq

from dq_client.base import keys, opened
from dq_client.base.errors import DQError, NoServer
from dq_client.base.home import Home
from dq_server.core.model.errors import SchedulerError
from dq_server.live.loop import Front
from dq_server.live.store.journal import JournalError


def main() -> int:
    """Serve until standard input ends. Exit code as for `dq`."""
    home = Home.default()
    try:
        with tempfile.TemporaryDirectory(prefix="dq-reader-") as folder:
            front = Front(_copy(home, Path(folder)), clock=lambda: 0.0, reads=True)
            told = {
                "address": front.address,
                "server": keys.load(Path(folder) / "keys", "server").public,
                "viewer": keys.load(Path(folder) / "keys", "viewer").secret,
                "last_s": front.server.now(),
            }
            print(json.dumps(told), flush=True)  # noqa: T201
            _serve(front)
    except (DQError, JournalError, SchedulerError, OSError) as e:
        print(e, file=sys.stderr)  # noqa: T201
        return e.exit_code if isinstance(e, DQError) else 1
    return 0


def _copy(home: Home, folder: Path) -> Home:
    """A home with a copy of the journal, new keys, and the same output of jobs."""
    found = Home(folder)
    keys.ensure(found.keys)
    lock = opened.open_own(home.lock_file) if home.lock_file.exists() else None
    try:
        if lock is not None:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        # Not by sqlite3: reading there would make files beside the journal.
        for end in ("", "-wal", "-last"):
            if (file := Path(f"{home.journal}{end}")).exists():
                shutil.copyfile(file, f"{found.journal}{end}")
    except BlockingIOError:
        raise NoServer(f"a server has just been started in {home.root}: try again") from None
    finally:
        if lock is not None:
            os.close(lock)
    for what in ("jobs", "agents"):  # who has run here is known by its folder
        (folder / what).symlink_to(home.root / what)
    return found


def _serve(front: Front) -> None:
    poller = zmq.Poller()
    poller.register(front.router, zmq.POLLIN)
    poller.register(front.guard.monitor, zmq.POLLIN)
    poller.register(sys.stdin.fileno(), zmq.POLLIN)
    try:
        while sys.stdin.fileno() not in dict(poller.poll()):
            front.guard.watch()
            front.read_messages()
            front.server.finish_turn()
    finally:
        front.close()


if __name__ == "__main__":
    sys.exit(main())
