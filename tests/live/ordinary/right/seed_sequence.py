"""A seed sequence that gives a generator to each iteration."""

import numpy as np, resize_lib

ss = np.random.SeedSequence(5)
rs = resize_lib.session()
total = 0
for step in rs.iterations(40):
    child = ss.spawn(1)[0]
    v = int(np.random.default_rng(child).integers(1000))
    total += rs.comm.allreduce(sum(v for _ in range(rs.rank, 6, rs.size)))
if rs.rank == 0:
    s2 = np.random.SeedSequence(5)
    print(
        "sum",
        total,
        "expected",
        sum(6 * int(np.random.default_rng(s2.spawn(1)[0]).integers(1000)) for _ in range(40)),
    )
