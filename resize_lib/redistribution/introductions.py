"""What a rank tells all others before anything moves, and what they make of it."""

from __future__ import annotations

import os

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from resize_lib.redistribution.agreement import again_record, fingerprint
from resize_lib.redistribution.copying import RawBytes
from resize_lib.redistribution.distributed import DistributedArrays
from resize_lib.redistribution.meeting import attendance_of
from resize_lib.redistribution.moving import Site
from resize_lib.redistribution.neighbours import (
    HOST_BYTES,
    LOCATION,
    Location,
    host_key,
    location_of,
)

LOCATIONS = 4  # of as many arrays in an introduction; where more move, a round of their own
# What a rank tells all others before anything moves: its host, its pid, whether its old parts and
# its new parts lie in shared memory, where the first of them are, whether its old parts lie without
# gaps, and where a meeting could be.
INTRODUCTION = np.dtype(
    [
        ("host", f"V{HOST_BYTES}"),
        ("pid", "<i8"),
        ("readable", "?"),
        ("writable", "?"),
        ("gapless", "?"),
        ("meeting", LOCATION),
        ("old", LOCATION, (LOCATIONS,)),
        ("new", LOCATION, (LOCATIONS,)),
    ]
)
Introductions = NDArray[np.void]


def introduction(distributed: DistributedArrays | None, meeting: Location | None) -> bytes:
    """This rank's introduction; ``distributed`` is None if preparing it failed."""
    record = np.zeros((), dtype=INTRODUCTION)
    record["host"] = np.void(host_key())
    record["pid"] = os.getpid()
    if meeting is not None:
        record["meeting"] = (meeting.fd, meeting.name.encode(), meeting.offset, 0, 0)
    if distributed is not None:
        record["gapless"] = distributed.gapless
        old, new = distributed.old_table(), distributed.new_table()
        for place, able, table in (("old", "readable", old), ("new", "writable", new)):
            if table is not None:
                record[able] = True
                record[place][: len(table)] = table[:LOCATIONS]
    return record.tobytes()


def hello_again(known: Introductions, statement: str) -> RawBytes:
    """Instead of an introduction: this rank is where it was when all ``known`` were."""
    told = fingerprint(known.tobytes() + statement.encode())
    return again_record(told, INTRODUCTION.itemsize)


def read_introductions(records: RawBytes) -> Introductions:
    """What all ranks have told, one row of bytes each, by rank."""
    known: Introductions = np.ascontiguousarray(records).view(INTRODUCTION)[:, 0]
    return known


def join_meeting(comm: MPI.Intracomm, known: Introductions) -> None:
    """If rank 0 offers a meeting, and all are on its node: join it."""
    place = known["meeting"][0]
    if place["name"] and (known["host"] == known["host"][0]).all():
        attendance_of(comm).join(comm, int(known["pid"][0]), location_of(place))
    known["meeting"] = 0  # it does not change where the parts lie


def everywhere(site: Site, known: Introductions) -> bool:
    """Whether all old and all new parts lie in shared memory of one node."""
    old, new = known[list(site.old.ranks)], known[list(site.new.ranks)]
    hosts = {*old["host"].tolist(), *new["host"].tolist()}
    return len(hosts) == 1 and bool(old["readable"].all() and new["writable"].all())
