"""Output of jobs in the server's home: what agents that left have handed over, and what is shared.

    jobs/ID/nodes/NODE/{out,err}    handed over; NAME.part until all of it is there. Beside each
                                    NAME.ranks, which rank has written what (ranks/marks.py)

What an agent hands over is bounded by the agent (dq_client/node/agent/handover.py), and again here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import msgspec

from dq_client.base import messages as m
from dq_client.base.errors import UsageError
from dq_client.base.home import Home
from dq_client.base.opened import open_output, open_own
from dq_client.deploy.cluster import require_name
from dq_client.node.ranks.marks import FILES

PIECE_BYTES = 256 << 10
UNFINISHED = b"\n[dq: the rest was not kept: the node was gone before it was all handed over]\n"


@dataclass(frozen=True, slots=True)
class KeptOutput:
    """See the module's docstring. Nothing is kept without a home."""

    home: Home | None = None

    def keep(self, body: m.KeepLog) -> str:
        """Take in a piece; why that is impossible, or nothing."""
        if self.home is None:
            return "this server has no folder"
        if body.stream not in FILES or not _is_name(body.node):
            return f"no output: {body.stream} of {body.node}"
        if body.offset + len(body.data) > m.KEPT_OUTPUT_BYTES_MAX:
            return f"more than {m.KEPT_OUTPUT_BYTES_MAX} bytes"
        folder = self.home.job(body.job) / "nodes" / body.node
        path, part = folder / body.stream, folder / f"{body.stream}.part"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not part.exists() and body.offset:
                if body.last and path.exists():
                    return ""  # said again: all of it was here
                return "its beginning is missing"
            fd = open_own(part, os.O_WRONLY | os.O_CREAT | (0 if body.offset else os.O_TRUNC))
            with os.fdopen(fd, "r+b" if body.offset else "wb") as f:
                f.seek(body.offset)
                f.write(body.data)
                f.truncate()
            if body.last:
                part.replace(path)
        except OSError as e:
            return f"{folder}: {e.strerror}"
        return ""

    def read(self, job: int, node: str, stream: str, offset: int) -> m.LogPiece | None:
        """A piece of what a node without an agent has written; None: it is not here."""
        if self.home is None or not _is_name(node):
            return None
        name = stream if stream in FILES else "out"
        folder = self.home.job(job)
        kept = folder / "nodes" / node
        piece = _piece(kept / name, offset, f"kept of {node}")
        if piece is not None:
            return piece
        part = _piece(kept / f"{name}.part", offset, f"kept of {node}")
        if part is None:  # the other stream may be here: then this one is empty
            if kept.is_dir():
                return _nothing(offset, f"kept of {node}")
            if any(self.home.agent(agent).is_dir() for agent in (node, "local")):
                # Its agent wrote to this very folder.
                mine = self.home.identity()
                return _piece(folder / name, offset, mine) or _nothing(offset, mine)
            return None
        if part.end:
            known = (kept / f"{name}.part").stat().st_size
            more = UNFINISHED[max(0, offset - known) :] if part.offset >= known else b""
            return msgspec.structs.replace(
                part, data=part.data + more, offset=part.offset + len(more)
            )
        return part


def _piece(path: os.PathLike[str], offset: int, home: str) -> m.LogPiece | None:
    try:
        with os.fdopen(open_output(path, os.O_RDONLY), "rb") as f:
            f.seek(offset)
            data = f.read(PIECE_BYTES)
    except OSError:
        return None
    end = len(data) < PIECE_BYTES
    return m.LogPiece(data=data, offset=offset + len(data), end=end, home=home)


def _nothing(offset: int, home: str) -> m.LogPiece:
    return m.LogPiece(data=b"", offset=offset, end=True, home=home)


def _is_name(node: str) -> bool:
    try:
        require_name(node)
    except UsageError:
        return False
    return True
