"""`first` and `previous`: what is only made in the first iteration and used in all."""

import resize_lib

rs = resize_lib.session()
first = True
total = 0.0
for step in rs.iterations(50):
    if first:
        reference = rs.comm.allreduce(sum(1.5 * i for i in range(rs.rank, 6, rs.size)))
        previous = 0.0
        first = False
    value = rs.comm.allreduce(sum(step * i / 3 for i in range(rs.rank, 6, rs.size)))
    total += (value - previous) * reference + value
    previous = value
if rs.rank == 0:
    expected = 22.5 * 5 * 49 + sum(5 * k for k in range(50))
    print("sum", total, "expected", expected)
