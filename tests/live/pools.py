"""Three pools of mpi4py one after the other: `python pools.py WORKERS`."""

from __future__ import annotations

import sys

from mpi4py.futures import MPIPoolExecutor


def square(x: int) -> int:
    return x * x


if __name__ == "__main__":
    for _ in range(3):
        with MPIPoolExecutor(max_workers=int(sys.argv[1])) as pool:
            print(list(pool.map(square, range(5))), flush=True)
