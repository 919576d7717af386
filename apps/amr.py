"""Adaptive mesh refinement that asks for processors: a pulse travels along a line.

The line is cut into blocks. A block that a front runs through is refined again and again, one that
is smooth is coarsened. When the cells per rank pass `--cells-per-rank` the application asks for
more processors, when they fall it gives some back: it is an evolving job.

mpiexec -n 2 python -m apps.amr --steps 200 --check
dq submit --kind evolving -n 1 --max 4 -- python -m apps.amr --steps 400 --check

Numerics: upwind advection at speed 1, one time step for all blocks. The flux between two blocks is
the left one's last value, so nothing is lost where sizes differ. Block i lives on rank i mod size.
"""

from __future__ import annotations

import argparse
import math
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from mpi4py import MPI

import resize_lib
from apps.common import positive, verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from resize_lib.declared.packed import Value
    from resize_lib.descriptors import ProcessGrid
    from resize_lib.jobsession import Session

    Blocks = dict[int, NDArray[np.float64]]  # number of the block -> its cells

LEVELS = 4  # a block has base * 2**0 to base * 2**LEVELS cells
REFINE_ABOVE, COARSEN_BELOW = 0.04, 0.005  # largest difference between neighbouring cells
LOOK_EVERY = 5  # turns between two looks at the number of cells
ASK_AGAIN = 500  # turns after a rejection
SLACK = 0.8  # give back only if the rest stays this far below the threshold


def pack(mine: Blocks, _old: ProcessGrid, _rank: int, new: ProcessGrid) -> list[bytes]:
    """One piece per new rank: its blocks as number, cells, values."""
    pieces = []
    for rank in range(new.size):
        parts = [np.array([i, len(u), *u]) for i, u in mine.items() if i % new.size == rank]
        pieces.append(np.concatenate(parts).tobytes() if parts else b"")
    return pieces


def unpack(pieces: Sequence[bytes], _old: ProcessGrid, _rank: int, _new: ProcessGrid) -> Blocks:
    """The blocks in the pieces from all old ranks."""
    found: Blocks = {}
    for piece in pieces:
        numbers, at = np.frombuffer(piece), 0
        while at < len(numbers):
            i, cells = int(numbers[at]), int(numbers[at + 1])
            found[i] = numbers[at + 2 : at + 2 + cells].copy()
            at += 2 + cells
    return dict(sorted(found.items()))


def inflow(step: int, steps: int) -> float:
    """What enters on the left: a pulse that lasts half the run, with a ripple on it."""
    if step >= steps // 2:
        return 0.0
    return 0.75 + 0.25 * math.cos(16 * math.pi * step / steps)


def advance(comm: MPI.Comm, mine: Blocks, o: argparse.Namespace, step: int) -> float:
    """One time step and one adaptation, in place; returns what flowed in minus what flowed out."""
    edges = np.zeros(o.blocks + 1)  # edges[i]: what flows into block i, then out of the line
    for i, u in mine.items():
        edges[i + 1] = u[-1]
    comm.Allreduce(MPI.IN_PLACE, edges, MPI.SUM)  # exact: one rank adds to each
    edges[0] = inflow(step, o.steps)
    dt: float = 1.5 / o.steps  # the front needs two thirds of the run to cross
    for i, u in mine.items():
        jumps = np.diff(u, prepend=edges[i])
        u -= dt * o.blocks * len(u) * jumps
        mine[i] = adapt(u, float(np.abs(jumps).max()), o.base)
    return dt * float(edges[0] - edges[-1])


def adapt(u: NDArray[np.float64], jump: float, base: int) -> NDArray[np.float64]:
    """A block with twice or half the cells, or as it is; what it holds stays the same."""
    if jump > REFINE_ABOVE and len(u) < base << LEVELS:
        return np.repeat(u, 2)
    if jump < COARSEN_BELOW and len(u) > base:
        return 0.5 * (u[::2] + u[1::2])
    return u


def steer(rs: Session, cells: int, ask_from: Value[int], o: argparse.Namespace) -> None:
    """Ask for the processors that the cells need, or give back what they no longer need."""
    if rs.step < ask_from.value or (rs.asked is not None and rs.asked.what != "rejected"):
        return  # refused a moment ago; one at a time
    wanted = min(o.max, math.ceil(cells / o.cells_per_rank))
    if wanted > rs.size:
        answer = rs.request(wanted - rs.size, timeout_s=o.timeout)
    else:
        enough = math.ceil(cells / (SLACK * o.cells_per_rank))
        if enough >= rs.size:
            return
        answer = rs.release(rs.size - enough)
    if answer.what == "rejected":
        ask_from.value = rs.step + ASK_AGAIN
    if rs.rank == 0:
        print(f"step {rs.step}: {cells} cells on {rs.size} ranks, {answer.more:+d}: "
              f"{answer.what}, {answer.reason}", flush=True)  # fmt: skip


def check(rs: Session, mine: Blocks, flowed: float, o: argparse.Namespace) -> int:
    """Nothing was lost on the way, and the result is what one process alone computes."""
    parts = rs.comm.gather(mine)
    lost = error = math.inf
    if rs.rank == 0 and parts is not None:
        found: Blocks = {i: u for part in parts for i, u in part.items()}
        held = math.fsum(u.mean() / o.blocks for u in found.values())
        lost = abs(held - flowed) / np.finfo(float).eps / o.steps
        alone = start(o, 0, 1)
        for step in range(o.steps):
            advance(MPI.COMM_SELF, alone, o, step)
        error = 0.0 if found.keys() == alone.keys() else math.inf
        for i in alone:
            same = found[i].shape == alone[i].shape
            error = max(error, float(np.abs(found[i] - alone[i]).max()) if same else math.inf)
    lost, error = rs.comm.bcast((lost, error))
    return verdict(rs, "amr", lost, error)


def start(o: argparse.Namespace, rank: int, size: int) -> Blocks:
    """The blocks of a rank at the start: an empty line, everywhere coarse."""
    return {i: np.zeros(o.base) for i in range(rank, o.blocks, size)}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=positive, default=64)
    parser.add_argument("--base", type=positive, default=8, help="cells of a coarse block")
    parser.add_argument("--steps", type=positive, default=0, help="time steps; default: enough")
    parser.add_argument("--cells-per-rank", type=positive, default=1500, help="the threshold")
    parser.add_argument("--max", type=positive, default=4, help="most processors to ask for")
    parser.add_argument("--timeout", type=float, default=0.0, help="seconds a request may wait")
    parser.add_argument("--check", action="store_true", help="verify the result at the end")
    o = parser.parse_args()
    needed = math.ceil(1.5 * o.blocks * (o.base << LEVELS))  # stable: no cell is skipped
    o.steps = o.steps or needed
    if o.steps < needed:
        parser.error(f"--steps {o.steps}: the finest cells need {needed}")
    return o


def main() -> int:
    """Exit code 1 if --check finds a wrong result."""
    o = options()
    with resize_lib.session() as rs:
        blocks: Any = rs.parcel("blocks", start(o, rs.rank, rs.size), pack, unpack)
        flowed, ask_from = rs.value("flowed", 0.0), rs.value("ask_from", 0)
        for step in rs.iterations(o.steps):
            with rs.compute():
                flowed.value += advance(rs.comm, blocks.value, o, step)
            if step % LOOK_EVERY == 0:
                cells = rs.comm.allreduce(sum(map(len, blocks.value.values())))
                steer(rs, cells, ask_from, o)
        return check(rs, blocks.value, flowed.value, o) if o.check else 0


if __name__ == "__main__":
    sys.exit(main())
