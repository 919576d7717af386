"""An order that is drawn once in each epoch and used in all of its batches."""

import numpy as np

import resize_lib

N, BATCH = 48, 8


def main():
    rs = resize_lib.session()
    rng = np.random.default_rng(1)
    data = rng.integers(0, 100, N)
    total = 0
    for epoch in rs.iterations(8):
        order = rng.permutation(N)
        for start in rs.iterations(range(0, N, BATCH)):
            mine = data[order[start : start + BATCH]][rs.rank :: rs.size]
            total += (start + 1) * rs.comm.allreduce(int(mine.sum()))
    if rs.rank == 0:
        rng = np.random.default_rng(1)
        data, expected = rng.integers(0, 100, N), 0
        for _ in range(8):
            order = rng.permutation(N)
            for start in range(0, N, BATCH):
                expected += (start + 1) * int(data[order[start : start + BATCH]].sum())
        print("sum", total, "expected", expected)


main()
