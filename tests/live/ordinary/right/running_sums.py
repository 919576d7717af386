"""itertools.accumulate, takewhile, starmap."""

import itertools
import operator

import resize_lib

rs = resize_lib.session()
sums = itertools.accumulate(range(1, 100))
products = itertools.accumulate(itertools.cycle([3, 7, 11]), lambda a, b: a * b % 10007)
pairs = zip(range(0, 300, 2), range(2, 302, 2))
low = itertools.takewhile(lambda x: x < 5000, range(0, 6000, 10))
every = itertools.starmap(operator.mul, zip(range(90), range(90)))
total = 0
for step in rs.iterations(50):
    a, b = next(pairs)
    value = next(sums) + next(products) + a * b + next(low) + next(every)
    total += rs.comm.allreduce(sum(value for _ in range(rs.rank, 5, rs.size)))
if rs.rank == 0:
    product, expected = 1, 0
    for s in range(50):
        product = product * (3, 7, 11)[s % 3] % 10007
        expected += (s + 1) * (s + 2) // 2 + product + 2 * s * (2 * s + 2) + 10 * s + s * s
    print("sum", total, "expected", 5 * expected)
