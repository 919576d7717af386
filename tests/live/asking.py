"""An evolving application that asks for what the command line says, and checks its data.

Each word is +N[:TIMEOUT_S], a request, -N, a release of N, or -first: the processor of rank 0. The
next word's turn comes a few iterations after the one before is carried out or rejected.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

import resize_lib

if TYPE_CHECKING:
    from dq_client.base import messages as m
    from resize_lib.jobsession import Session

ITEMS = 1000
PAUSE = 3


def ask(rs: Session, what: str) -> m.DynamicAnswer:
    """Returns the answer to one word."""
    if what == "-first":
        return rs.release(rs.processors[:1])
    if what.startswith("-"):
        return rs.release(int(what[1:]))
    more, _, timeout = what[1:].partition(":")
    return rs.request(int(more), timeout_s=float(timeout or 0))


def note(rs: Session, **what: Any) -> None:
    if rs.rank == 0:
        print(json.dumps(what), flush=True)


def main() -> int:
    words = sys.argv[1:]
    with resize_lib.session() as rs:
        data = rs.array("data", ITEMS, init=lambda i: 3.0 * i)
        state = rs.value("state", {"turns": 0, "asked": 0, "calm": 0})
        for _ in rs.iterations():
            now = state.value
            now["turns"] += 1
            data.local[...] += 1.0
            pending = rs.asked is not None and rs.asked.what != "rejected"
            now["calm"] = 0 if pending else now["calm"] + 1
            if now["calm"] > PAUSE:
                if now["asked"] == len(words):
                    break
                word = words[now["asked"]]
                answer = ask(rs, word)
                now["asked"], now["calm"] = now["asked"] + 1, 0
                note(rs, word=word, size=rs.size, what=answer.what, reason=answer.reason)
            time.sleep(0.02)
        expected = 3.0 * data.indices + state.value["turns"]
        good = rs.comm.allreduce(int(np.array_equal(data.local, expected))) == rs.size
        note(rs, end=good, size=rs.size, processors=list(rs.processors))
        return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
