"""Three time levels of a declared array, rotated."""

import resize_lib

rs = resize_lib.session()
before, now, after = (rs.array(name, 30, init=lambda i: 1.0 + i) for name in "abc")
for step in rs.iterations(43):
    after.local[:] = now.local + 0.25 * before.local / (1 + step)
    before, now, after = now, after, before
whole = now.allgather()
if rs.rank == 0:
    b = n = [1.0 + i for i in range(30)]
    for step in range(43):
        b, n = n, [y + 0.25 * x / (1 + step) for x, y in zip(b, n)]
    print("sum", float(whole.sum()), "expected", sum(n))
