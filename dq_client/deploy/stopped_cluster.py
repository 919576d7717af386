"""What a stopped cluster's journal holds, for commands that only show things.

They ask it as they ask a server: dq_server/live/offline.py serves a copy of the journal for the
length of one command.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from dq_client.base import codec, keys
from dq_client.base.connection import Connection
from dq_client.base.errors import DQError, NoServer
from dq_client.base.home import Home

END_WITHIN_S = 10.0


@contextmanager
def looking(home: Home) -> Iterator[Connection]:
    """A connection to the server of this home, or to what its journal holds if none runs.

    Raises:
        NoServer: none runs, and there is no journal.
    """
    try:
        connection = Connection.to(home)
    except NoServer:
        if not home.journal.exists():
            raise
        with _stopped(home) as connection:
            yield connection
        return
    with closing(connection):
        yield connection


@contextmanager
def _stopped(home: Home) -> Iterator[Connection]:
    import subprocess  # rarely needed, and dear for a command

    reader = subprocess.Popen(
        [sys.executable, "-m", "dq_server.live.offline"],
        env={**os.environ, "DQ_HOME": str(home.root)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert reader.stdin is not None
    assert reader.stdout is not None
    try:
        line = reader.stdout.readline()
        if not line:
            said = reader.communicate()[1].strip().splitlines()
            why = said[-1] if said else f"exit code {reader.returncode}"
            raise DQError(f"no server is running, and its journal cannot be shown: {why}")
        told = json.loads(line)
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(told["last_s"]))
        print(f"no server is running: as it was at {at}", file=sys.stderr)  # noqa: T201
        pair = keys.pair_of(told["viewer"])
        to_reader = Connection(told["address"], told["server"], pair, codec.decode_to_user)
        with closing(to_reader) as connection:
            yield connection
    finally:
        reader.stdin.close()
        try:
            reader.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            reader.kill()
            reader.wait()
        reader.stdout.close()
        if reader.stderr is not None:
            reader.stderr.close()
