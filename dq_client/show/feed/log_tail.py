"""The end of what a job has written."""

from __future__ import annotations

from dq_client.base import messages as m
from dq_client.show.feed.follower import Asker

TAIL_BYTES = 32_000
PIECES_MAX = 64


def log_tail(asker: Asker, job: int, stream: str) -> str:
    """The end of what was written on the first node; long output is read to its end.

    Raises:
        DQError: there is no such job or output, or no server.
    """
    data, offset = b"", 0
    for _ in range(PIECES_MAX):
        piece = asker.ask(m.LogsQuery(job=job, stream=stream, offset=offset))
        assert isinstance(piece, m.LogPiece)
        data = (data + piece.data)[-TAIL_BYTES:]
        offset = piece.offset
        if not piece.data:
            break
    return data.decode(errors="replace")
