"""One kind of declared data, resized again and again: what grows in the rank that never leaves?

    mpiexec -n 1 python session_growth.py KIND ROUNDS HOST...

Six resizes a round, between one rank and four. KIND: a key of DECLARE. Rank 0 prints what the
session has reported, and after each round what it has. All data are checked after each resize.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

import resize_lib
from resize_lib import resize
from tests.mpi.programs.session_script import Script, ScriptedLink, scripted

if TYPE_CHECKING:
    from resize_lib.descriptors import ProcessGrid
    from resize_lib.jobsession import Session

ITEMS = 20_000
PARTICLE = np.dtype([("id", "i8"), ("x", "f8")])
Check = Callable[[], object]  # returns something false if the data are wrong


def matrix(rs: Session) -> Check:
    x = rs.matrix("x", 150, 130, block=16, init=lambda i, j: 1000.0 * i + j)
    return lambda: np.array_equal(x.local, 1000.0 * x.rows[:, None] + x.cols[None])


def array(rs: Session, **layout: Any) -> Check:
    x = rs.array("x", ITEMS, init=lambda i: 3.0 * i, **layout)
    return lambda: np.array_equal(x.local, 3.0 * x.indices)


def cartesian(rs: Session) -> Check:
    u = rs.cartesian("u", (90, 80), halo=2, periodic=True, init=lambda i, j: 100.0 * i + j)

    def check() -> object:
        u.exchange()
        i, j = u.indices
        low = np.roll(np.arange(90), 1)[i[:1]] if len(i) else i
        first = u.local[1, 2:-2] if len(i) else np.empty(0)
        return np.array_equal(u.interior, 100.0 * i + j) and (
            not first.size or np.array_equal(first, (100.0 * low + j).ravel())
        )

    return check


def csr(rs: Session) -> Check:
    s = rs.csr("s", (3000, 3000), init=(np.arange(3000.0), np.arange(3000), np.arange(3001)))
    return lambda: np.array_equal(s.local.indices, np.asarray(s.rows))


def items(rs: Session) -> Check:
    start = np.zeros(2000, PARTICLE)
    start["id"] = np.arange(2000)
    some = rs.items("p", PARTICLE, owner=lambda p, size: p["id"] % size, init=start, key="id")
    return lambda: (some.local["id"] % rs.size == rs.rank).all()


def value(rs: Session) -> Check:
    held = rs.value("v", np.arange(ITEMS))
    return lambda: np.array_equal(held.value, np.arange(ITEMS))


def local_state(rs: Session) -> Check:
    work = rs.local_state(
        "w", np.zeros(1000), leave=lambda mine, theirs: mine + sum(theirs, np.zeros(1000)),
        join=lambda *_: np.zeros(1000),
    )  # fmt: skip
    return lambda: len(work.value) == 1000


def parcel(rs: Session) -> Check:
    def pack(held: list[int], _old: ProcessGrid, _rank: int, new: ProcessGrid) -> list[bytes]:
        return [
            json.dumps([k for k in held if k % new.size == r]).encode() for r in range(new.size)
        ]

    def unpack(pieces: Sequence[bytes], *_: object) -> list[int]:
        return sorted(k for piece in pieces for k in json.loads(piece))

    box = rs.parcel("b", list(range(rs.rank, 2000, rs.size)), pack, unpack)
    return lambda: box.value == list(range(rs.rank, 2000, rs.size))


DECLARE: dict[str, Callable[[Session], Check]] = {
    "nothing": lambda rs: lambda: rs.size,
    "matrix": matrix,
    "block": array,
    "cyclic": lambda rs: array(rs, layout="cyclic", block=7),
    "weighted": lambda rs: array(rs, layout="weighted"),
    "cartesian": cartesian,
    "csr": csr,
    "items": items,
    "value": value,
    "local state": local_state,
    "parcel": parcel,
}


def rounds(count: int, hosts: Sequence[str]) -> Script:
    script = Script(1, hosts)
    for _ in range(count):
        script.expand(script.free[:1], 1, 2)
        script.expand(script.free[:2], 2, 2)
        script.regrid(4, 1)
        script.shrink([2, 3], 1, 2)
        script.expand(script.free[:1], 3, 1)
        script.shrink([1, 2], 1, 1)
    return script


def marks(rs: Session) -> dict[str, int]:
    """What rank 0 has now: of the system's, and of ours."""
    gc.collect()
    return {
        "files": len(list(Path("/proc/self/fd").iterdir())),
        "memory_kib": psutil.Process().memory_info().rss >> 10,
        "objects": len(gc.get_objects()),
        "arena_kib": (rs._session.arena.used_bytes + rs._session.arena.free_bytes) >> 10,
    }


def main() -> None:
    kind, count, *hosts = sys.argv[1:]
    script = rounds(int(count), hosts)
    resize.PATIENT_FROM_S = 0.0
    with resize_lib.session(connect=lambda: ScriptedLink(script), report_interval_s=0) as rs:
        check = DECLARE[kind](rs)
        for _ in rs.iterations():
            assert check(), f"{kind}: wrong on rank {rs.rank} of {rs.size}"
            done = scripted(rs).next_id(rs._session.job.resize_id) - 1 if rs.rank == 0 else 0
            if rs.size == 1 and done and done % 6 == 0:  # a list of them would be carried, too
                print(json.dumps({"round": done // 6, "marks": marks(rs)}), flush=True)
            if rs.comm.bcast(done == len(script.moves)):
                break


if __name__ == "__main__":
    main()
