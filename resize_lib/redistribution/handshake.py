"""What the ranks tell each other before anything moves: where their parts are.

Each rank sends one record of fixed length together with its agreement to begin. From all records
every rank computes the same answer to the questions "who can read whose memory?" and "do messages
need buffers?", so that no further message is needed to agree on the way the data take.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from resize_lib.redistribution import peer_memory
from resize_lib.redistribution.agreement import gather_records
from resize_lib.redistribution.arena import numa_nodes
from resize_lib.redistribution.arrays import DistributedArrays
from resize_lib.redistribution.blocks import Array, RawBytes, address_of

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


def table_of(parts: Sequence[Array | None]) -> Table | None:
    """Where others find ``parts`` (None: this rank has none); None if one has too many axes."""
    table = np.zeros(len(parts), dtype=LOCATION)
    for row, part in enumerate(parts):
        if part is not None and part.size:
            if part.ndim > AXES:
                return None
            table[row] = (address_of(part), (*part.strides, *[0] * AXES)[:AXES])
    return table


def old_table(arrays: DistributedArrays) -> Table | None:
    """Where others find this rank's old parts; None if one has too many axes."""
    parts, count = arrays.old_parts, max(arrays.arrays, default=-1) + 1
    return table_of([parts[k].keeper if k in parts else None for k in range(count)])


def record_of(arrays: DistributedArrays | None) -> bytes:
    """This rank's record; ``arrays`` is None if preparing them failed."""
    record = np.zeros((), dtype=RECORD)
    record["host"] = np.void(host_key())
    record["pid"] = os.getpid()
    cores = os.sched_getaffinity(0)
    record["cores"] = min(cores), len(cores)
    record["token"], record["token_at"] = peer_memory.token().tobytes(), peer_memory.token_at()
    if arrays is not None:
        record["contiguous"] = arrays.contiguous
        table = old_table(arrays)
        if table is not None:
            record["readable"] = peer_memory.permitted()
            record["old"][: len(table)] = table[:LOCATIONS]
        for position, part in arrays.new_parts.items():
            if position < LOCATIONS and part.keeper.size:
                record["new"][position] = part.address
    return record.tobytes()


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
        table = np.zeros(max(arrays.arrays) + 1, dtype=LOCATION)
    raw = np.frombuffer(table.tobytes(), dtype=np.uint8)
    records = gather_records(arrays.site.comm, raw)
    return [np.frombuffer(row.tobytes(), dtype=LOCATION) for row in records]
