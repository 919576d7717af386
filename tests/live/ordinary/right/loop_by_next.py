"""A while loop that takes its iterations by next(), with an else."""

import resize_lib

rs = resize_lib.session()
loop = rs.iterations(60)
low, high, halvings, values = 0.0, 100.0, 0, []
while (step := next(loop, None)) is not None:
    middle = (low + high) / 2
    x = rs.comm.allreduce(sum(middle / 4 for _ in range(rs.rank, 4, rs.size)))
    if x * x < 1234.5:
        low = middle
    else:
        high = middle
    halvings += 1
    values.append(x)
else:
    halvings += 1000
if rs.rank == 0:
    a, b, seen = 0.0, 100.0, []
    for _ in range(60):
        m = (a + b) / 2
        seen.append(m)
        a, b = (m, b) if m * m < 1234.5 else (a, m)
    print("w", low + halvings + sum(values), "expected", a + 1060 + sum(seen))
