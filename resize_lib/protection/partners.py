"""Who keeps whose part, and how parts get there: messages between ranks, files at both ends.

A rank on the next node keeps each part, so that the loss of one node loses no part.

Each part is kept twice, on its own node and on the next one; nodes follow each other in the order
of their first ranks, the last is followed by the first. Of two lost nodes that follow each other
one part is lost, so the copy is. Source of the scheme: the partner level of SCR (Moody,
Bronevetsky, Mohror and de Supinski, "Design, modeling, and evaluation of a scalable multi-level
checkpointing system", 2010); double in-memory checkpoints (Zheng, Shi and Kalé, "FTC-Charm++",
2004).
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence

import numpy as np
from mpi4py import MPI

from resize_lib import tags
from resize_lib.protection.generations import Copy, part_path
from resize_lib.redistribution.messages import pieces_of
from resize_lib.waiting import wait_all


def partners(hosts: Sequence[str]) -> list[int | None]:
    """For each rank the rank that keeps its part, too; None if all are on one node."""
    on: dict[str, list[int]] = {}
    for rank, host in enumerate(hosts):
        on.setdefault(host, []).append(rank)
    order = list(on)
    if len(order) == 1:
        return [None] * len(hosts)
    result: list[int | None] = [None] * len(hosts)
    for at, host in enumerate(order):
        there = on[order[(at + 1) % len(order)]]
        for place, rank in enumerate(on[host]):
            result[rank] = there[place % len(there)]
    return result


def leaders(hosts: Sequence[str]) -> set[int]:
    """The first rank on each node."""
    return {hosts.index(host) for host in set(hosts)}


def fetch_for_partners(comm: MPI.Intracomm, hosts: Sequence[str], copy: Copy) -> str:
    """Send this rank's part to its partner and keep those of others; collective.

    Returns what went wrong here; empty if nothing did. `copy` lies in memory of this rank's node,
    its own part is there already.
    """
    keeper = partners(hosts)
    me, mine = comm.rank, keeper[comm.rank]
    coming = [rank for rank, who in enumerate(keeper) if who == me]
    own = np.memmap(copy.part(me), np.uint8, "r")
    arrived = {rank: np.empty(copy.parts[rank][0], np.uint8) for rank in coming}
    requests: list[MPI.Request] = []
    for rank, buffer in arrived.items():
        requests += [
            comm.Irecv([piece, MPI.BYTE], rank, tags.PARTNER_COPY) for piece in pieces_of(buffer)
        ]
    if mine is not None:
        requests += [
            comm.Isend([piece, MPI.BYTE], mine, tags.PARTNER_COPY) for piece in pieces_of(own)
        ]
    wait_all(requests)
    for rank, buffer in arrived.items():
        path = part_path(copy.folder, rank)
        # Checked now: at a restart the damaged part might be the only one left.
        if zlib.crc32(buffer.data) != copy.parts[rank][1]:
            return f"the part of rank {rank} arrived damaged"
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            draft.write_bytes(buffer.data)
            draft.replace(path)
        except OSError as e:
            return f"{path}: {e.strerror}"
        finally:
            draft.unlink(missing_ok=True)
    return ""
