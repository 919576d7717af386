"""What the ranks tell each other before anything moves: where their parts are.

Each rank sends one record of fixed length together with its agreement to begin. From all records
every rank computes the same answer to the questions "who can read whose memory?" and "do messages
need buffers?", so that no further message is needed to agree on the way the data take.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from resize_lib.redistribution import peer_memory
from resize_lib.redistribution.agreement import gather_records
from resize_lib.redistribution.arena import numa_nodes
from resize_lib.redistribution.arrays import DistributedArrays
from resize_lib.redistribution.blocks import RawBytes

HOST_BYTES = 16
# Locations of so many arrays fit into the record: few enough that it stays below a kilobyte. Where
# more arrays move, their locations are gathered in a second message. The length cannot follow the
# number of arrays: ranks that declared different numbers must still be able to tell each other.
LOCATIONS = 4

# Strides that a location has room for. Parts with more axes travel by message.
AXES = 6

# One row per array: where the part lies (0: this rank has none) and its first strides (bytes; 0
# where there is none).
LOCATION = np.dtype([("address", "<i8"), ("strides", "<i8", (AXES,))])
RECORD = np.dtype(
    [
        ("host", f"V{HOST_BYTES}"),
        ("pid", "<i8"),
        ("token", f"V{peer_memory.TOKEN_BYTES}"),
        ("token_at", "<i8"),
        ("readable", "?"),  # others may read and write its memory, and know where
        ("contiguous", "?"),  # all old parts lie in memory without gaps
        ("old", LOCATION, (LOCATIONS,)),
        ("new", "<i8", (LOCATIONS,)),  # addresses of new parts; 0: none, or it is the old one
        ("cores", "<i4", (2,)),  # that it may run on: the first, and how many
    ]
)
# The same, to be written.
_location = struct.Struct(f"<{1 + AXES}q")
_head = struct.Struct(f"<{HOST_BYTES}sq{peer_memory.TOKEN_BYTES}sq??")
_tail = struct.Struct(f"<{LOCATIONS}q2i")
NOWHERE = bytes(_location.size)
Table = NDArray[np.void]  # of LOCATION, one row per array
Records = NDArray[np.void]  # of RECORD, one row per rank


def host_key() -> bytes:
    """Equal on two processes only if they run on the same node and see each other's pids."""
    return _host_key(os.getpid())


@lru_cache(maxsize=1)
def _host_key(_pid: int) -> bytes:  # by pid: a forked child may be in another namespace
    boot = Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
    space = str(Path("/proc/self/ns/pid").stat().st_ino).encode()
    return hashlib.blake2b(boot + space, digest_size=HOST_BYTES).digest()


def know_this_process() -> None:
    """Find out now, while nobody waits, what does not change and every record says."""
    host_key()
    peer_memory.permitted()
    numa_nodes()


def old_table(arrays: DistributedArrays) -> bytes | None:
    """Where others find this rank's old parts (LOCATION each); None if one has too many axes."""
    found = [NOWHERE] * (max(arrays.arrays, default=-1) + 1)
    for position, part in arrays.old_parts.items():
        array = part.keeper
        if array.size:
            if array.ndim > AXES:
                return None
            strides = array.strides + (0,) * (AXES - array.ndim)
            found[position] = _location.pack(part.address, *strides)
    return b"".join(found)


def record_of(arrays: DistributedArrays | None) -> bytes:
    """This rank's record (RECORD); ``arrays`` is None if preparing them failed.

    Without numpy: where many ranks share a core nothing is in its cache, and what does much takes
    its time.
    """
    table, readable, contiguous, new = None, False, False, [0] * LOCATIONS
    if arrays is not None:
        table, contiguous = old_table(arrays), arrays.contiguous
        readable = table is not None and peer_memory.permitted()
        for position, part in arrays.new_parts.items():
            if position < LOCATIONS and part.keeper.size:
                new[position] = part.address
    token, pid = peer_memory.token(), os.getpid()
    cores = os.sched_getaffinity(0)
    return b"".join(
        (
            _head.pack(host_key(), pid, token, peer_memory.token_at(), readable, contiguous),
            (table or b"")[: len(NOWHERE) * LOCATIONS].ljust(len(NOWHERE) * LOCATIONS, b"\0"),
            _tail.pack(*new, min(cores), len(cores)),
        )
    )


def read_records(records: RawBytes) -> Records:
    """What all ranks sent, one row of bytes each, by rank."""
    known: Records = np.ascontiguousarray(records).view(RECORD)[:, 0]
    return known


def one_for_each_core(known: Records, ranks: Sequence[int]) -> list[int]:
    """Of ``ranks``, which are on one node, as many as there are cores for; the first ones."""
    found: list[int] = []
    left: dict[tuple[int, int], int] = {}
    for rank in ranks:
        first, count = known["cores"][rank].tolist()
        room = left.get((first, count), count)
        if room:
            found.append(rank)
            left[first, count] = room - 1
    return found


def prove(record: np.void) -> int:
    """The pid of the process whose record this is, after making sure that it is that process.

    Raises:
        OSError: it is not, or it cannot be read.
    """
    pid = int(record["pid"])
    peer_memory.check(pid, int(record["token_at"]), record["token"].tobytes())
    return pid


def old_tables_of_all(arrays: DistributedArrays, known: Records) -> Sequence[Table]:
    """Every rank's table of its old parts; collective if there are more than LOCATIONS."""
    if max(arrays.arrays) < LOCATIONS:
        told: Table = known["old"]
        return list(told)
    table = old_table(arrays)
    if table is None:  # then no rank reads this rank's parts
        table = NOWHERE * (max(arrays.arrays) + 1)
    raw = np.frombuffer(table, dtype=np.uint8)
    records = gather_records(arrays.site.comm, raw)
    return [np.frombuffer(row.tobytes(), dtype=LOCATION) for row in records]
