"""A Monte Carlo run of the Ising model."""

import numpy as np

import resize_lib


spins = np.ones((12, 12), np.int8)
rng = np.random.default_rng(5)
accepted = [0]
rs = resize_lib.session()
x = rs.array("x", 24)
total = 0
for step in rs.iterations(50):
    x.local += 1
    for _ in range(20):
        i, j = rng.integers(0, 12, 2)
        de = (
            2
            * int(spins[i, j])
            * int(
                spins[(i + 1) % 12, j] + spins[i - 1, j] + spins[i, (j + 1) % 12] + spins[i, j - 1]
            )
        )
        if de <= 0 or rng.random() < np.exp(-de / 2):
            spins[i, j] *= -1
            accepted[-1] += 1
    value = int(spins.sum()) + accepted[0]
    total += rs.comm.bcast(value, rs.size - 1)


if rs.rank == 0:
    print("sum", total, "expected", 8678)
