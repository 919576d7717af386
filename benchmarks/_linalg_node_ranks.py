"""What each rank of ``benchmarks.linalg_node`` runs: one grid, all sizes, types, both kernels."""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from mpi4py import MPI
from numpy.typing import NDArray

from apps.linalg import lu, matmul, verification
from apps.linalg.blas_library import candidates, set_threads
from resize_lib.descriptors import BlockCyclic
from resize_lib.grid import Grid
from resize_lib.waiting import idle_barrier

# OpenBLAS's threads look for more work for some 20 ms before they sleep.
SETTLE_S = 0.05
Times = tuple[float, float]  # wall clock; processor time of all that took part


class Bench:
    """One size and type on one grid: our parts, and on rank 0 the peer's whole matrices."""

    def __init__(self, grid: Grid, n: int, kind: str, nb: int, threads: int) -> None:
        self.grid, self.threads, self.desc = grid, threads, BlockCyclic(n, n, nb, nb)
        dtype = np.dtype(kind)
        uniform = verification.uniform_complex if dtype.kind == "c" else verification.uniform
        self.fills = uniform(1), uniform(2)
        self.A, self.B = (
            verification.local_part(grid, self.desc, fill, dtype) for fill in self.fills
        )
        self.work = np.empty_like(self.A, order="F")
        # numpy's product and scipy's LU use different libraries
        self.libraries = [ctypes.CDLL(path) for path in candidates()]
        if grid.rank == 0:
            one = Grid(MPI.COMM_SELF, 1, 1)
            self.whole = [
                verification.local_part(one, self.desc, fill, dtype) for fill in self.fills
            ]
            self.out = np.empty_like(self.whole[0], order="F")
            one.free()

    def ours(self, call: Callable[[], Any]) -> tuple[Times, Any]:
        """Time of the slowest rank and processor time of all, and what the call returned here."""
        self.work[:] = self.A
        self.grid.comm.Barrier()
        begin, cpu = time.perf_counter(), time.process_time()
        result = call()
        wall_s, cpu_s = time.perf_counter() - begin, time.process_time() - cpu
        comm = self.grid.comm
        return (comm.allreduce(wall_s, op=MPI.MAX), comm.allreduce(cpu_s)), result

    def peer(self, call: Callable[[], Any]) -> Times:
        """Rank 0 alone, with all threads, while the others sleep."""
        found = 0.0, 0.0
        idle_barrier(self.grid.comm)
        if self.grid.rank == 0:
            self.set_threads(self.threads)
            self.out[:] = self.whole[0]
            begin, cpu = time.perf_counter(), time.process_time()
            call()
            found = time.perf_counter() - begin, time.process_time() - cpu
            self.set_threads(1)
            time.sleep(SETTLE_S)
        idle_barrier(self.grid.comm)
        return found

    def set_threads(self, count: int) -> None:
        """Of numpy's library, and of scipy's."""
        for library in self.libraries:
            set_threads(library, count)

    def matmul(self) -> None:
        """C = A B by our kernel."""
        matmul(self.grid, self.desc, self.A, self.desc, self.B, self.desc, self.work)

    def numpys(self) -> None:
        """C = A B by numpy, as Cᵀ = Bᵀ Aᵀ: the transposes are row-major, as numpy likes it."""
        np.matmul(self.whole[1].T, self.whole[0].T, out=self.out.T)

    def lu(self) -> NDArray[np.int64]:
        """Factor by our kernel."""
        return lu(self.grid, self.desc, self.work)

    def scipys(self) -> None:
        """Factor by scipy, in place."""
        scipy.linalg.lu_factor(self.out, overwrite_a=True, check_finite=False)

    def residual(self, pivots: NDArray[np.int64] | None) -> float:
        """Of our last result: factors if there are pivots, else a product."""
        if pivots is not None:
            parts = self.grid, self.desc, self.work, pivots, self.fills[0]
            return verification.lu_residual(*parts)
        a, b, c = ((self.desc, part) for part in (self.A, self.B, self.work))
        return verification.product_residual(self.grid, a, b, c)

    def rounds(self, kernel: str, repeats: int) -> dict[str, Any]:
        """One warm and checked round, then ``repeats`` timed ones."""
        calls: dict[str, tuple[Callable[[], Any], Callable[[], None]]] = {
            "matmul": (self.matmul, self.numpys),
            "lu": (self.lu, self.scipys),
        }
        mine, theirs = calls[kernel]
        _, pivots = self.ours(mine)
        residual = self.residual(pivots)
        if not residual < verification.PASSES_BELOW:
            raise RuntimeError(f"{kernel} n = {self.desc.n}: residual {residual}")
        self.peer(theirs)
        ours, peer = [], []
        for number in range(repeats):
            if number % 2:
                peer.append(self.peer(theirs))
            ours.append(self.ours(mine)[0])
            if not number % 2:
                peer.append(self.peer(theirs))
        return {
            "kernel": kernel,
            "type": str(self.A.dtype),
            "grid": [self.grid.rows, self.grid.cols],
            "n": self.desc.n,
            "threads": self.threads,
            "residual": residual,
            "ours_s": ours,
            "peer_s": peer,
        }


def main() -> None:
    """Measure what the launcher asked for; rank 0 writes one line of JSON per result."""
    wanted = json.loads(sys.argv[1])
    grid = Grid(MPI.COMM_WORLD, *wanted["grid"])
    results = []
    for n in wanted["n"]:
        for kind in wanted["types"]:
            bench = Bench(grid, n, kind, wanted["nb"], wanted["threads"])
            results += [bench.rounds(kernel, wanted["repeats"]) for kernel in ("matmul", "lu")]
    if grid.rank == 0:
        Path(wanted["output"]).write_text("".join(json.dumps(row) + "\n" for row in results))
    grid.free()


main()
