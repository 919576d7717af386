"""Arrays with ghosts that are exchanged at any place of an iteration, under resizes by script.

    python session_ghosts.py MOVES HOST...

Every rank computes the whole array, too, and compares all it stores of each with it, ghosts
included. Rank 0 prints what the session reports, and at the end the iterations made.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import resize_lib
from resize_lib import resize
from tests.mpi.programs.session_script import ScriptedLink, random_moves, scripted

if TYPE_CHECKING:
    from resize_lib.declared.cartesian import Cartesian

SHAPE = (12, 10)


def stored(u: Cartesian, whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """What this rank stores of a periodic array."""
    rows, columns = (np.arange(r.start - 1, r.stop + 1) for r in u.ranges)
    return whole[np.ix_(rows % SHAPE[0], columns % SHAPE[1])]


def advanced(a: NDArray[np.float64]) -> NDArray[np.float64]:
    """The interior of what has ghosts, one iteration later."""
    return 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])


def main() -> None:
    moves, *hosts = sys.argv[1:]
    script = random_moves(11, int(moves), 2, hosts)
    resize.PATIENT_FROM_S = 0.0
    with resize_lib.session(connect=lambda: ScriptedLink(script), report_interval_s=0) as rs:
        first, last, never = (
            rs.cartesian(name, SHAPE, periodic=True, init=lambda i, j: i * 10.0 + j)
            for name in ("first", "last", "never")
        )
        reference = np.arange(120.0).reshape(SHAPE)
        whole = rs.value("whole", reference)
        last.exchange()
        for turn in rs.iterations():
            assert (last.local == stored(last, whole.value)).all(), "exchanged a turn ago"
            if rs.rank == 0 and rs.size == 1:
                assert not never.local[0].any(), "nobody has asked for these"
            if turn > 0:
                first.exchange()
                assert (first.local == stored(first, whole.value)).all()
                for u in (first, last):
                    u.interior = advanced(u.local)
                whole.value = advanced(np.pad(whole.value, 1, mode="wrap"))
            last.exchange()
            if rs.comm.bcast(rs.rank == 0 and scripted(rs).finished(rs._session.job.resize_id)):
                break
        if rs.rank == 0:
            print(json.dumps({"turns": turn}), flush=True)


if __name__ == "__main__":
    main()
