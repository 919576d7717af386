"""State in the environment of the process and in the context of decimal."""

import decimal
import os

import resize_lib

rs = resize_lib.session()
os.environ["APP_STAGE"] = "0"  # refused
total = 0
for step in rs.iterations(40):
    if step % 10 == 5:
        os.environ["APP_STAGE"] = str(int(os.environ["APP_STAGE"]) + 1)  # refused
        decimal.getcontext().prec = 10 + step  # refused
    value = int(os.environ["APP_STAGE"]) + len(str(decimal.Decimal(1) / 3))
    total += rs.comm.allreduce(sum(value for _ in range(rs.rank, 3, rs.size)))
if rs.rank == 0:
    prec, expected = 28, 0
    for step in range(40):
        prec = 10 + step if step % 10 == 5 else prec
        expected += 3 * ((step + 5) // 10 + prec + 2)
    print("sum", total, "expected", expected)
