"""The job of benchmarks/kinds.py: each kind of data, moved by the resizes of a chain.

    python -m harness.standalone -n N -- \
        python -m benchmarks._kinds_app KIND MEGABYTES CHAIN REPEATS

CHAIN, as 1,2,4, is walked there and back. Rank 0 prints a JSON line for each resize.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import resize_lib
from dq_client.base import messages as m
from resize_lib import resize
from resize_lib.server_link import ServerLink
from resize_lib.state.carry import Carry

ENTRIES = 10  # of a row of a sparse matrix
PARTICLE = np.dtype([("id", "i8"), ("position", "f8", 3), ("velocity", "f8", 3)])


class Walk(ServerLink):
    """Answers remap points by a list of sizes; keeps no state that a later rank 0 would lack."""

    def __init__(self, sizes: Sequence[int], host: str) -> None:
        self._sizes, self._host = sizes, host
        self.size = sizes[0]  # of the job at the last iteration
        self.carry_s = 0.0  # of the latest exchange of the program's own variables

    def _places(self, size: int) -> list[m.RankPlace]:
        return [m.RankPlace(k, f"node{k}", self._host) for k in range(size)]

    def hello(self, processors: int, legal: Sequence[int] = ()) -> m.JobWelcome:  # noqa: ARG002
        return m.JobWelcome(1, 1, 1, self._places(processors), *grid_of(processors))

    def finished(self, resize_id: int) -> bool:
        return resize_id + 1 >= len(self._sizes)

    def remap(self, point: m.RemapPoint) -> m.RemapAnswer:
        number = point.resize_id + 1
        if point.preparing or self.finished(point.resize_id):
            return m.RemapAnswer("continue", point.preparing)
        old, new = self._sizes[number - 1 : number + 1]
        what = "expand" if new > old else "shrink"
        places = self._places(max(old, new))[min(old, new) :]
        return m.RemapAnswer(what, number, places, *grid_of(new))

    def begin_remap(self, point: m.RemapPoint) -> None:
        self._answer = self.remap(point)

    def remap_word(self) -> str:
        return self._answer.what

    def remap_answer(self, *, wait: bool) -> m.RemapAnswer | None:  # noqa: ARG002
        return self._answer

    def tell(self, body: m.Committed | m.Aborted) -> None:
        if isinstance(body, m.Aborted):
            raise RuntimeError(body.why)  # noqa: TRY004

    def farewell(self, resize_id: int) -> None:
        pass

    def close(self) -> None:
        pass


def grid_of(size: int) -> tuple[int, int]:
    """Rows and columns, the columns more."""
    rows = max(r for r in range(1, math.isqrt(size) + 1) if size % r == 0)
    return rows, size // rows


class Kinds:
    """What is moved; each method declares one kind, of so many bytes in all."""

    def __init__(self, rs: Any, nbytes: int) -> None:
        self.rs, self.nbytes = rs, nbytes

    def dense(self) -> None:
        n = math.isqrt(self.nbytes // 8)
        self.rs.matrix("A", n, n, block=64, init=lambda i, j: i * float(n) + j)

    def csr(self) -> None:
        rows = self.nbytes // (12 * ENTRIES + 4)

        def some(at: Any) -> Any:
            indices = (at[:, np.newaxis] + np.arange(ENTRIES) * 7) % rows
            data = np.repeat(at.astype(float), ENTRIES)
            return data, indices.ravel().astype(np.int32), np.arange(len(at) + 1) * ENTRIES

        self.rs.csr("S", (rows, rows), init=some)

    def items(self) -> None:
        count = self.nbytes // PARTICLE.itemsize

        def some(rank: int, size: int) -> Any:
            ids = np.arange(count * rank // size, count * (rank + 1) // size)
            found = np.zeros(len(ids), PARTICLE)
            found["id"] = ids
            return found

        def owner(items: Any, size: int) -> Any:
            return np.minimum(items["id"] * size // count, size - 1)

        self.rs.items("P", PARTICLE, owner=owner, init=some)

    def values(self) -> None:
        self.rs.value("V", np.arange(self.nbytes // 8, dtype=float))

    def carried(self) -> None:
        pass


_exchange: Callable[..., Any] = Carry.exchange


def exchange(carry: Carry, *args: Any) -> Any:
    """`Carry.exchange`, timed on rank 0."""
    began_s = time.perf_counter()
    result = _exchange(carry, *args)
    if carry.session.rank == 0:
        link = carry.session.server()
        assert isinstance(link, Walk)
        link.carry_s = time.perf_counter() - began_s
    return result


def main() -> None:
    kind, megabytes, chain, repeats = sys.argv[1:5]
    there = [int(size) for size in chain.split(",")]
    walk = (there + there[-2:0:-1]) * int(repeats) + there[:1]
    setattr(Carry, "exchange", exchange)  # noqa: B010
    resize.PATIENT_FROM_S = 0.0
    nbytes = int(float(megabytes) * 1e6)
    with resize_lib.session(connect=lambda: Walk(walk, "n01"), report_interval_s=0) as rs:
        getattr(Kinds(rs, nbytes), kind)()
        own = np.zeros(nbytes // 8 if kind == "carried" else 0)
        for _ in rs.iterations():
            own += 1.0
            if rs.comm.bcast(rs.rank == 0 and told(rs, kind)):
                break


def told(rs: Any, kind: str) -> bool:
    """Print what the last resize took, if there was one; whether it was the last of all."""
    link = rs._session.server()
    assert isinstance(link, Walk)
    if rs.size != link.size:
        took_s = link.carry_s if kind == "carried" else rs._session.job.redistribution_s
        print(json.dumps({"old": link.size, "new": rs.size, "s": took_s}), flush=True)
        link.size = rs.size
    return link.finished(rs._session.job.resize_id)


if __name__ == "__main__":
    main()
