"""A state dictionary of numpy arrays of several dtypes, and a structured array."""

import numpy as np

import resize_lib

rs = resize_lib.session()
state = {
    "mean": np.zeros(5),
    "count": np.zeros(5, dtype=np.int64),
    "mask": np.ones(5, dtype=bool),
    "name": np.array(["a", "bb", "c", "dd", "e"]),
}
table = np.zeros(3, dtype=[("hits", "i4"), ("score", "f8")])
scalar = np.array(1.0)  # of no dimension
for step in rs.iterations(50):
    x = rs.comm.allreduce(np.arange(5.0) * len(range(rs.rank, 6, rs.size)) / 6)
    state["count"][state["mask"]] += 1
    state["mean"] += (x + step - state["mean"]) / np.maximum(state["count"], 1)
    state["mask"][step % 5] ^= True
    state["name"][step % 5] = "zz"[: 1 + step % 2]
    table["hits"][step % 3] += 1
    table[step % 3]["score"] += scalar
    scalar *= 1.05
if rs.rank == 0:
    count, mean, mask = np.zeros(5), np.zeros(5), np.ones(5, dtype=bool)
    for step in range(50):
        count[mask] += 1
        mean += (np.arange(5.0) + step - mean) / np.maximum(count, 1)
        mask[step % 5] ^= True
    expected = mean.sum() + count.sum() + mask.sum() + 50 + sum(1.05**k for k in range(50))
    arrays = (state["mean"], state["count"], state["mask"], table["hits"], table["score"])
    print("sum", float(sum(a.sum() for a in arrays)), "expected", float(expected))
