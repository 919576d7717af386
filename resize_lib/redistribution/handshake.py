"""What the ranks tell each other before anything moves: where their parts are.

Each rank sends one record of fixed length together with its agreement to begin. From all records
every rank computes the same answer to the questions "who can read whose memory?" and "do messages
need buffers?", so that no further message is needed to agree on the way the data take.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from resize_lib.redistribution.agreement import gather_records
from resize_lib.redistribution.arena import Location
from resize_lib.redistribution.arrays import DistributedArrays
from resize_lib.redistribution.blocks import Array, Part, RawBytes

HOST_BYTES = 16
# Locations of so many arrays fit into the record: few enough that it stays below a kilobyte. Where
# more arrays move, their locations are gathered in a second message. The length cannot follow the
# number of arrays: ranks that declared different numbers must still be able to tell each other.
LOCATIONS = 4

# One row per array: where the part lies and its first two strides (bytes; 0 where there is none).
LOCATION = np.dtype(
    [("fd", "i8"), ("name", "S32"), ("offset", "i8"), ("stride0", "i8"), ("stride1", "i8")]
)
RECORD = np.dtype(
    [
        ("host", f"V{HOST_BYTES}"),
        ("pid", "<i8"),
        ("readable", "?"),  # all old parts lie in shared memory
        ("writable", "?"),  # all new parts lie in shared memory
        ("contiguous", "?"),  # all old parts lie in memory without gaps
        ("old", LOCATION, (LOCATIONS,)),
        ("new", LOCATION, (LOCATIONS,)),
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


def table_of(
    locate: Callable[[Array], Location | None], parts: Sequence[Array | None]
) -> Table | None:
    """Where others find ``parts`` (None: this rank has none); None if one is not shared."""
    table = np.zeros(len(parts), dtype=LOCATION)
    for row, part in enumerate(parts):
        if part is None or part.size == 0:
            continue
        location = locate(part)
        if location is None:
            return None
        strides = (*part.strides, 0, 0)[:2]
        table[row] = (location.fd, location.name.encode(), location.offset, *strides)
    return table


def old_table(arrays: DistributedArrays) -> Table | None:
    """Where others find this rank's old parts; None if one of them is not in shared memory."""
    return _table(arrays, arrays.old_parts)


def new_table(arrays: DistributedArrays) -> Table | None:
    """Where others find this rank's new parts; None if one of them is not in shared memory."""
    return _table(arrays, arrays.new_parts)


def _table(arrays: DistributedArrays, parts: Mapping[int, Part]) -> Table | None:
    count = max(arrays.arrays, default=-1) + 1
    keepers = [parts[k].keeper if k in parts else None for k in range(count)]
    return table_of(arrays.site.arena.locate, keepers)


def record_of(arrays: DistributedArrays | None) -> bytes:
    """This rank's record; ``arrays`` is None if preparing them failed."""
    record = np.zeros((), dtype=RECORD)
    record["host"] = np.void(host_key())
    record["pid"] = os.getpid()
    if arrays is not None:
        record["contiguous"] = arrays.contiguous
        tables = ("old", "readable", old_table(arrays)), ("new", "writable", new_table(arrays))
        for side, possible, table in tables:
            if table is not None:
                record[possible] = True
                record[side][: len(table)] = table[:LOCATIONS]
    return record.tobytes()


def read_records(records: RawBytes) -> Records:
    """What all ranks sent, one row of bytes each, by rank."""
    known: Records = np.ascontiguousarray(records).view(RECORD)[:, 0]
    return known


def tables_of_all(arrays: DistributedArrays, known: Records, *, new: bool) -> Sequence[Table]:
    """Every rank's table of its new or old parts; collective if there are more than LOCATIONS."""
    count = max(arrays.arrays) + 1
    if count <= LOCATIONS:
        told: Table = known["new" if new else "old"]
        return list(told)
    table = new_table(arrays) if new else old_table(arrays)
    if table is None:  # then no rank uses this rank's parts
        table = np.zeros(count, dtype=LOCATION)
    raw = np.frombuffer(table.tobytes(), dtype=np.uint8)
    records = gather_records(arrays.site.comm, raw)
    return [np.frombuffer(row.tobytes(), dtype=LOCATION) for row in records]
