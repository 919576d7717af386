"""The iterations are asked for by next, in a while loop."""

import resize_lib

rs = resize_lib.session()
turns = iter(rs.iterations(40))
factor, total = 1, 0
while (step := next(turns, None)) is not None:  # refused
    factor = factor * 3 % 101
    total += rs.comm.allreduce(sum(factor * i for i in range(rs.rank, 5, rs.size)))
if rs.rank == 0:
    print("sum", total, "expected", sum(10 * pow(3, k + 1, 101) for k in range(40)))
