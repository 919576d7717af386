"""What an emulated node really gives: a small MPI program that measures its own ranks.

    python -m resize_lib.emulation.probe speed     under DQ: one JSON line from rank 0
    python -m resize_lib.emulation.probe link      under DQ on two nodes: the same
    python -m resize_lib.emulation.probe alone     one core at full speed, without MPI

Speed: products of matrices in compute sections, operations over wall-clock time, all ranks at the
same time. Link: half a round trip of 8 bytes for the latency, of `LINK_BYTES` for the rate.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

import resize_lib
from dq_client.base import cgroups

if TYPE_CHECKING:
    from mpi4py import MPI

    from resize_lib.jobsession import Session

ORDER = 600  # some 10 ms of a core: as long as the kernels' own sections
SPEED_S = 4.0
ROUNDS = 15
LINK_BYTES = 2_000_000


def multiply(
    duration_s: float,
    section: Callable[[], AbstractContextManager[None]] = nullcontext,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """GFLOP/s by `clock` of products in `section`s, for `duration_s`."""
    a, b, c = (np.full((ORDER, ORDER), 0.5) for _ in range(3))
    # into an array that is there already: fresh memory would be part of what is measured
    for _ in range(3):  # the first are slower, and the first section is not paced
        with section():
            np.matmul(a, b, out=c)
    count, begin, begun = 0, clock(), time.perf_counter()
    while time.perf_counter() - begun < duration_s:
        with section():
            np.matmul(a, b, out=c)
        count += 1
    return 2e-9 * ORDER**3 * count / (clock() - begin)


def link(rs: Session) -> tuple[float, float]:
    """Rate (MB/s) and latency (µs) between the job's two ranks."""
    if rs.size != 2:
        raise SystemExit(f"a link has two ends: run on 2 nodes, not {rs.size}")
    cgroups.leave()  # the link is to be measured, not the quota of the sender
    small_s = _half_round_trip(rs, np.zeros(8, np.uint8))
    large_s = _half_round_trip(rs, np.zeros(LINK_BYTES, np.uint8))
    return LINK_BYTES / (large_s - small_s) / 1e6, small_s * 1e6


def _half_round_trip(rs: Session, buffer: Any) -> float:
    peer, first, times = 1 - rs.rank, rs.rank == 0, []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for sending in (first, not first):
            request = rs.comm.Isend(buffer, peer) if sending else rs.comm.Irecv(buffer, peer)
            _spin(rs, request)
        times.append((time.perf_counter() - begin) / 2)
    return float(np.median(times[ROUNDS // 3 :]))


def _spin(rs: Session, request: MPI.Request) -> None:
    """Wait without naps, which would be part of the latency."""
    while not rs.grid.test([request]):
        pass


def main() -> int:
    """One JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("alone", "speed", "link"))
    what = parser.parse_args().what
    if what == "alone":
        print(json.dumps({"gflops": multiply(1.0, clock=time.thread_time)}), flush=True)  # noqa: T201
        return 0
    result: dict[str, Any] = {}
    with resize_lib.session() as rs:
        for _ in rs.iterations(1):
            rs.comm.Barrier()
            if what == "link":
                rate, latency = link(rs)
                result = {"mbyte_s": rate, "latency_us": latency}
            else:
                speeds = rs.comm.gather(multiply(SPEED_S, rs.compute))
                result = {"gflops": speeds}
        if rs.rank == 0:
            print(json.dumps(result), flush=True)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
