"""Parts on their way to the partners' nodes: messages between ranks, files at both ends."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence

import numpy as np
from mpi4py import MPI

from resize_lib.protection.generations import Copy, part_path
from resize_lib.protection.partners import partners
from resize_lib.redistribution.copying import RawBytes
from resize_lib.redistribution.waiting import wait_all

TAG = 7303
MESSAGE_BYTES = 64 << 20


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
        requests += [comm.Irecv([piece, MPI.BYTE], rank, TAG) for piece in _pieces(buffer)]
    if mine is not None:
        requests += [comm.Isend([piece, MPI.BYTE], mine, TAG) for piece in _pieces(own)]
    wait_all(requests)
    for rank, buffer in arrived.items():
        path = part_path(copy.folder, rank)
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


def _pieces(buffer: RawBytes) -> list[RawBytes]:
    """A message's length must fit into 31 bits."""
    return [buffer[at : at + MESSAGE_BYTES] for at in range(0, buffer.size, MESSAGE_BYTES)]
