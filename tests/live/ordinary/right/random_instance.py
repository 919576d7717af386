"""A random.Random of the program's, seeded alike on every rank."""

import random
import time

import resize_lib

rs = resize_lib.session()
rng = random.Random(11)
total = 0
for step in rs.iterations(50):
    sample = rng.sample(range(1000), 12)
    rng.shuffle(sample)
    total += rs.comm.allreduce(
        sum(x * (i + 1) for i, x in enumerate(sample) if i % rs.size == rs.rank)
    )
    time.sleep(0.02)
if rs.rank == 0:
    rng, expected = random.Random(11), 0
    for _ in range(50):
        sample = rng.sample(range(1000), 12)
        rng.shuffle(sample)
        expected += sum(x * (i + 1) for i, x in enumerate(sample))
    print("sum", total, "expected", expected)
