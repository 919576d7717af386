"""enumerate with a start around a loop over a sequence of parameters."""

import resize_lib

rs = resize_lib.session()
temperatures = [300 + 5 * i for i in range(40)]
total = 0
for number, kelvin in enumerate(rs.iterations(temperatures), 1):
    total += rs.comm.allreduce(sum(kelvin * number for _ in range(rs.rank, 7, rs.size)))
if rs.rank == 0:
    print("sum", total, "expected", 7 * sum((300 + 5 * i) * (i + 1) for i in range(40)))
