"""The audit log: who asked the server for what, from where, with the answer (docs/security.md).

A file of JSON lines in a private folder of the home, written by the server alone
(dq_server/live/audit.py) and read here, with and without a running server.

    audit/audit.jsonl    the newest lines        audit/audit.jsonl.N    older ones, N = 1 the newest
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from dq_client.base.private import check_own, open_own

NAME = "audit.jsonl"
OLDER_MAX = 4  # files beside the newest
FIELDS = (
    "time_s",
    "user",
    "role",
    "key",
    "from",
    "request",
    "text",
    "answer",
    "why",
    "job",
    "times",
)


def files(folder: Path) -> list[Path]:
    """Where lines may be, the newest first."""
    return [folder / NAME, *(folder / f"{NAME}.{n}" for n in range(1, OLDER_MAX + 1))]


def lines(folder: Path) -> Iterator[dict[str, Any]]:
    """All lines, oldest first. NotPrivate if the folder or a file is not ours alone.

    What is no line is passed over: a server that was killed may have left half of one.
    """
    check_own(folder)
    opened: dict[tuple[int, int], int] = {}  # by inode, the newest first
    try:
        # The server may rename them meanwhile. From the newest to the oldest none is missed, and
        # one that is met again under its next name is known by its inode.
        for path in files(folder):
            with suppress(FileNotFoundError):
                fd = open_own(path)
                found = os.fstat(fd)
                if opened.setdefault((found.st_dev, found.st_ino), fd) != fd:
                    os.close(fd)
        for fd in reversed(opened.values()):
            with open(fd, "rb", closefd=False) as f:
                for line in f:
                    with suppress(ValueError):
                        entry = json.loads(line)
                        if isinstance(entry, dict) and entry.keys() >= set(FIELDS):
                            yield entry
    finally:
        for fd in opened.values():
            os.close(fd)
