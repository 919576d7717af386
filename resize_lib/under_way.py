"""Messages under way: what stands between a job and its next communicator.

A resize replaces the job's communicators. A message that has been sent and not received would be
lost with them, and a receive that is open would never end; worse, MPI gives the context id of a
communicator that was freed to one made later, which would then receive what was meant for the
other. So a resize begins only where nothing is under way, and all ranks agree on that.

Whether a message to this rank is there, `Iprobe` tells, once it has arrived. To know that it has,
every rank sends every other one an empty message, the marker, on the library's own communicator.
MPICH sends all messages of one process to another by one way and in their order, whatever their
communicators (one virtual interface, MPIR_CVAR_CH4_NUM_VCIS=1, unless the user sets another
number): whoever has the marker has all that was sent before it. A marker on the program's own
communicator would be certain by the standard, too, but a receive from anybody that a library in C
has open there would take it.

A send that is open needs no look: either its message is at the receiver, or it is received.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from mpi4py import MPI

from resize_lib import tags
from resize_lib.grid import Grid
from resize_lib.job_comm import Noting, derived
from resize_lib.mistakes import caller
from resize_lib.traffic import ANY, Opened
from resize_lib.waiting import idle_bcast, wait_all
from resize_lib.world import apart_from

POSTPONED_VARIABLE = "DQ_POSTPONE_POINTS"
POSTPONED_MAX = 8  # remap points


class Obstacle(NamedTuple):
    """Why no resize may begin, the same on every rank. `line` is empty where it is not known."""

    line: str
    what: str
    advice: str

    def text(self, points: int) -> str:
        """For the job's owner; points: the remap points that it has outlived."""
        return f"{self.line or caller()}: {self.what} after {points} remap points: {self.advice}"


def postponed_max() -> int:
    """By how many remap points a resize waits for messages: DQ_POSTPONE_POINTS, or 8.

    Raises:
        ValueError: it is not a number from 0 on.
    """
    text = os.environ.get(POSTPONED_VARIABLE, "")
    if not text:
        return POSTPONED_MAX
    if not text.isdecimal():
        raise ValueError(f"{POSTPONED_VARIABLE}={text!r}: give a number of remap points, 0 or more")
    return int(text)


def obstacle(grid: Grid, *, stays: bool = False) -> Obstacle | None:
    """What is under way on the job's communicators; collective, the same on every rank.

    stays: that of the job is not replaced. What the program has derived from it is, in its
    functions for `rs.on_resize`.
    """
    own, of_grid = grid.own_comm, grid.comms[1 if stays else 0 :]
    comms: Sequence[MPI.Comm] = [*of_grid, *derived(), *apart_from(grid.comm)]
    _pass_markers(own)
    found = _on_this_rank(comms, own, len(of_grid))
    first = np.array([own.size if found is None else own.rank])
    wait_all([own.Iallreduce(MPI.IN_PLACE, first, MPI.MIN)])
    if first[0] == own.size:
        return None
    told: str = idle_bcast(own, None if found is None else json.dumps(found), int(first[0]))
    there = Found(*json.loads(told))
    noted = [comm.traffic if isinstance(comm, Noting) else None for comm in comms]
    for traffic in filter(None, noted):
        traffic.trace()
    if there.line or there.source < 0:
        return there.obstacle(there.line)
    # The line is the sender's to tell. What programs derive has no number that all ranks know.
    there_too = noted[there.comm : there.comm + 1] if there.comm >= 0 else noted[len(of_grid) :]
    lines = {traffic.line_sent(there.dest, there.tag) for traffic in filter(None, there_too)} - {""}
    line = lines.pop() if len(lines) == 1 else ""
    return there.obstacle(idle_bcast(own, line, there.source))


class Found(NamedTuple):
    """What one rank has found. Ranks are the job's, but for `dest`, that of the communicator."""

    comm: int  # its place among those of the grid; -1: the program has derived it
    rank: int
    source: int
    dest: int
    tag: int
    name: str = ""  # of the call that is open; empty: a message
    line: str = ""

    def obstacle(self, line: str) -> Obstacle:
        """What to say of it."""
        if not self.name:
            who = f"rank {self.source}" if self.source >= 0 else "outside of the job"
            return Obstacle(
                line,
                f"a message from {who} to rank {self.rank} with tag {self.tag} has"
                " not been received",
                "receive it before the end of the iteration, or send it after the resize"
                " (docs/programs.md)",
            )
        of = ""
        if self.tag != ANY:
            who = "any rank" if self.source < 0 else f"rank {self.source}"
            of = f" from {who} with {'any tag' if self.tag < 0 else f'tag {self.tag}'}"
        return Obstacle(
            line,
            f"{self.name}{of} on rank {self.rank} is still open",
            "complete or cancel it before the end of the iteration (docs/programs.md)",
        )


def _pass_markers(own: MPI.Intracomm) -> None:
    """Return when all that others have sent this rank has arrived; collective."""
    others = [rank for rank in range(own.size) if rank != own.rank]
    empty = bytearray(0)
    requests = [own.Irecv([empty, MPI.BYTE], rank, tags.MARKER) for rank in others]
    # Each begins with another rank, not all with rank 0.
    others = others[own.rank :] + others[: own.rank]
    requests += [own.Isend([empty, MPI.BYTE], rank, tags.MARKER) for rank in others]
    wait_all(requests)


def _on_this_rank(comms: Sequence[MPI.Comm], own: MPI.Intracomm, of_grid: int) -> Found | None:
    for at, comm in enumerate(comms):
        number, status = at if at < of_grid else -1, MPI.Status()
        if MPI.Comm.Iprobe(comm, MPI.ANY_SOURCE, MPI.ANY_TAG, status):
            source = _rank_of(comm, status.Get_source(), own)
            return Found(number, own.rank, source, comm.rank, status.Get_tag())
        opened = comm.traffic.first_open() if isinstance(comm, Noting) else None
        if opened is not None:
            return _found(opened, number, comm, own)
    return None


def _found(opened: Opened, number: int, comm: MPI.Comm, own: MPI.Intracomm) -> Found:
    source = opened.source
    if source >= 0:
        source = _rank_of(comm, source, own)
    line = opened.line or caller()
    return Found(number, own.rank, source, comm.rank, opened.tag, opened.name, line)


def _rank_of(comm: MPI.Comm, rank: int, own: MPI.Intracomm) -> int:
    """The job's number of a rank of one of its communicators; negative: it has none."""
    group = comm.Get_remote_group() if isinstance(comm, MPI.Intercomm) else comm.Get_group()
    job = own.Get_group()
    found = group.Translate_ranks([rank], job)[0]
    group.Free()
    job.Free()
    return found
