"""What each rank of ``benchmarks.linalg`` runs: one grid, all sizes, both kernels."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from apps.linalg import blas, lu, matmul, verification
from benchmarks._scalapack import Blacs, pdgemm, pdgetrf
from resize_lib.descriptors import BlockCyclic
from resize_lib.grid import Grid

_PEAK_N = 1024
_PEAK_PRODUCTS = 4


class Bench:
    """One size on one grid: data of ours and the peer's descriptor."""

    def __init__(self, grid: Grid, blacs: Blacs, n: int, nb: int) -> None:
        self.grid, self.n, self.nb = grid, n, nb
        self.desc = BlockCyclic(n, n, nb, nb)
        self.peer_desc = blacs.desc(self.desc)
        self.A, self.B = (
            verification.local_part(grid, self.desc, verification.uniform(seed)) for seed in (1, 2)
        )
        self.work = np.empty_like(self.A, order="F")
        rng = np.random.default_rng(0)
        self.factors = [np.asfortranarray(rng.random((_PEAK_N, _PEAK_N))) for _ in range(3)]

    def seconds(self, call: Callable[[], Any]) -> tuple[float, Any]:
        """Time of the slowest rank, and what the call returned here."""
        self.grid.comm.Barrier()
        begin = time.perf_counter()
        result = call()
        own = time.perf_counter() - begin
        return self.grid.comm.allreduce(own, op=MPI.MAX), result

    def peak_gflops(self) -> float:
        """Every rank multiplies for itself, all at once."""
        a, b, c = self.factors

        def products() -> None:
            for _ in range(_PEAK_PRODUCTS):
                blas.gemm(1.0, a, b, 0.0, c)

        time_s, _ = self.seconds(products)
        return self.grid.size * _PEAK_PRODUCTS * 2e-9 * _PEAK_N**3 / time_s

    def matmul(self) -> None:
        """C = A B by our kernel."""
        matmul(self.grid, self.desc, self.A, self.desc, self.B, self.desc, self.work)

    def pdgemm(self) -> None:
        """C = A B by ScaLAPACK."""
        parts = [(part, self.peer_desc) for part in (self.A, self.B, self.work)]
        pdgemm((self.n, self.n, self.n), parts[0], parts[1], parts[2])

    def lu(self) -> NDArray[np.int64]:
        """Factor by our kernel."""
        return lu(self.grid, self.desc, self.work)

    def pdgetrf(self) -> NDArray[np.int32]:
        """Factor by ScaLAPACK."""
        return pdgetrf(self.n, self.n, self.work, self.peer_desc)

    def check_product(self, _ours: None, _peer: None) -> float:
        """Residual of our product (the peer's is overwritten)."""
        self.matmul()
        return verification.product_residual(
            self.grid, (self.desc, self.A), (self.desc, self.B), (self.desc, self.work)
        )

    def check_lu(self, ours: NDArray[np.int64], peer: NDArray[np.int32]) -> float:
        """Residual of our factors; the pivots must be the peer's."""
        rows = self.desc.global_rows(self.grid.shape, self.grid.row)
        if not np.array_equal(peer[: len(rows)] - 1, ours[rows]):
            raise RuntimeError(f"n = {self.n} on {self.grid.shape}: pivots differ from pdgetrf's")
        self.work[:] = self.A
        ours = self.lu()
        return verification.lu_residual(
            self.grid, self.desc, self.work, ours, verification.uniform(1)
        )

    def rounds(self, kernel: str, repeats: int) -> dict[str, Any]:
        """One warm and checked round, then ``repeats`` timed ones."""
        calls: dict[str, tuple[Any, Any, Any, float]] = {
            "matmul": (self.matmul, self.pdgemm, self.check_product, 2e-9 * self.n**3),
            "lu": (self.lu, self.pdgetrf, self.check_lu, 2e-9 / 3 * self.n**3),
        }
        ours, peer, check, gflop = calls[kernel]
        times: list[tuple[float, float, float]] = []
        residual = float("nan")
        for number in range(repeats + 1):
            peak = self.peak_gflops()
            self.work[:] = self.A
            ours_s, our_result = self.seconds(ours)
            self.work[:] = self.A
            peer_s, peer_result = self.seconds(peer)
            if number:
                times.append((ours_s, peer_s, peak))
            else:
                residual = check(our_result, peer_result)
                if not residual < verification.PASSES_BELOW:
                    raise RuntimeError(f"{kernel} n = {self.n}: residual {residual}")
        ours_times, peer_times, peaks = zip(*times, strict=True)
        return {
            "kernel": kernel,
            "grid": [self.grid.rows, self.grid.cols],
            "n": self.n,
            "nb": self.nb,
            "gflop": gflop,
            "residual": residual,
            "ours_s": ours_times,
            "peer_s": peer_times,
            "peak_gflops": peaks,
        }


def main() -> None:
    """Measure what the launcher asked for; rank 0 writes one line of JSON per result."""
    wanted = json.loads(sys.argv[1])
    grid = Grid(MPI.COMM_WORLD, *wanted["grid"])
    blacs = Blacs(MPI.COMM_WORLD, grid.shape)
    results = []
    for n in wanted["n"]:
        bench = Bench(grid, blacs, n, wanted["nb"])
        results += [bench.rounds(kernel, wanted["repeats"]) for kernel in ("matmul", "lu")]
    if grid.rank == 0:
        Path(wanted["output"]).write_text("".join(json.dumps(row) + "\n" for row in results))
    blacs.free()
    grid.free()


main()
