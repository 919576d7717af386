"""The variables that travel, from rank 0 to the ranks that join."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import numpy as np
from mpi4py import MPI

from resize_lib.redistribution import peer_memory
from resize_lib.redistribution.blocks import address_of
from resize_lib.state import packing
from resize_lib.state.places import Path
from resize_lib.waiting import STREAM, idle_bcast, wait_all

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Sent:
    """What rank 0 sends: the values of `paths` in order, as `packing.Packed` has them.

    differing: places that are not the same on all old ranks; failed: that cannot be copied
    whole: numbers in `large` of the contents of arrays
    """

    payload: bytes | bytearray = b""
    large: list[packing.Large] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)
    differing: frozenset[Path] = frozenset()
    failed: dict[Path, str] = field(default_factory=dict)
    whole: dict[Path, int] = field(default_factory=dict)
    why: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """Where the contents of rank 0's large arrays are; pid 0: other processes cannot read them."""

    lengths: list[int]
    addresses: list[int]
    pid: int
    token_at: int
    token: bytes


def broadcast(comm: MPI.Intracomm, sent: Sent) -> tuple[Sent, Memory]:
    """Return what rank 0 sends, and where the contents of its large arrays are. Collective."""
    mine = (replace(sent, large=[]), _memory(sent.large)) if comm.rank == 0 else None
    head, memory = idle_bcast(comm, mine)
    return (sent if comm.rank == 0 else head), memory


def receive(
    comm: MPI.Intracomm, sent: Sent, memory: Memory, into: Mapping[int, packing.Large] | None
) -> Sent:
    """Return `sent` with the contents of its large arrays, which ranks that join copy once.

    Collective. into: memory that gets some of them, by their numbers; None: this rank needs none
    """
    large = sent.large or _buffers(memory.lengths)
    for number, own in (into or {}).items():
        if own.nbytes == memory.lengths[number]:
            large[number] = own
    if large and not _all_have(comm, into is None or _have_read(memory, large)):
        wait_all([comm.Ibcast([each, MPI.BYTE]) for each in large], STREAM)
    return replace(sent, large=large)


def _buffers(lengths: Sequence[int]) -> list[packing.Large]:
    """Memory for the contents of arrays, in one piece: numpy gets huge pages for it."""
    begins = [0, *accumulate(-(-length // ALIGNMENT) * ALIGNMENT for length in lengths)]
    whole = np.empty(begins[-1], np.uint8)
    return [whole[at : at + size] for at, size in zip(begins, lengths, strict=False)]


def _memory(large: Sequence[packing.Large]) -> Memory:
    pid = os.getpid() if peer_memory.permitted() else 0
    lengths, addresses = [len(each) for each in large], [address_of(each) for each in large]
    return Memory(lengths, addresses, pid, peer_memory.token_at(), peer_memory.token())


def _have_read(memory: Memory, large: Sequence[packing.Large]) -> bool:
    """Read rank 0's memory; False: this process cannot.

    Between processes that did not start together MPI takes four times as long.
    """
    try:
        peer_memory.check(memory.pid, memory.token_at, memory.token)
        peer_memory.read(memory.pid, memory.addresses, [*map(address_of, large)], memory.lengths)
    except OSError:  # another node, or the system forbids it
        return False
    return True


def _all_have(comm: MPI.Intracomm, mine: bool) -> bool:
    had = np.array([mine], np.int32)
    wait_all([comm.Iallreduce(MPI.IN_PLACE, had, MPI.MIN)])
    return bool(had[0])
