import functools

import resize_lib

FACTORS = [3, 5, 7]


@functools.cache
def power(base, n):
    return 1 if n == 0 else base * power(base, n - 1)


def interpolation():
    table = {}

    @functools.lru_cache(maxsize=8)
    def weight(n):
        return table.get(n, n * n)

    return weight


weight = interpolation()
rs = resize_lib.session()
x = rs.array("x", 24)
total = 0
for step in rs.iterations(50):
    x.local += 1
    value = power(FACTORS[step % 3], step % 4) + weight(step % 11)
    total += rs.comm.bcast(value, rs.size - 1)

if rs.rank == 0:
    print(
        "sum",
        total,
        "expected",
        sum(power(FACTORS[s % 3], s % 4) + weight(s % 11) for s in range(50)),
    )
