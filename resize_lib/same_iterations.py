"""Whether all ranks have made the same iterations of the same loops, as they must.

Several iterations share a remap point (pace.py), and the end of a loop that is left by `break` is
none. So a rank that leaves its loop earlier than the others, or makes more iterations, could meet
them at a remap point of another iteration, or at the end, and nobody would know that their data do
not belong together. So each rank keeps a checksum of the loops that it has begun and left since the
last remap point (loops.py). It travels in the reduction that a remap point makes anyway, and in the
one at the end of the session. Where two ranks differ, all hear what each of them has made.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from resize_lib.mistakes import Mistake, caller
from resize_lib.redistribution.agreement import gather_texts

if TYPE_CHECKING:
    from resize_lib.loops import Loops

NAMED = 3  # loops of each rank in a message


def bounds(loops: Loops, *, end: bool = False) -> NDArray[np.float64]:
    """Two numbers for a reduction with MAX, whose result goes to `differ`.

    end: this rank is through with its loops, whether they have heard of it or not.
    """
    checksum = loops.checksum(end=end)
    return np.array([checksum, -checksum], np.float64)


def differ(reduced: NDArray[np.float64]) -> bool:
    """Whether two ranks have given different `bounds`."""
    return bool(reduced[0] != -reduced[1])


def mistake(comm: MPI.Intracomm, loops: Loops) -> Mistake:
    """What rank 0 and the first rank that differs from it have made; collective.

    The same on every rank.
    """
    mine = [loops.made, caller()]
    stories = [json.loads(text) for text in gather_texts(MPI.Intracomm(comm), json.dumps(mine))]
    first = stories[0][0]
    other = next((rank for rank, (made, _) in enumerate(stories) if made != first), 0)
    second = stories[other][0]
    same = 0
    while same < min(len(first), len(second)) - 1 and first[same] == second[same]:
        same += 1
    told = []
    for rank in (0, other):
        made, where = stories[rank]
        told.append(f"rank {rank} has come to {', then '.join(made[same:][:NAMED])} ({where})")
    return Mistake(f"ranks are in different iterations: {'; '.join(told)}: {_ADVICE}")


_ADVICE = (
    "all ranks must make the same iterations, so what ends a loop must be decided alike on all of"
    " them"
)
