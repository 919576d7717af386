"""A text file that is iterated over with zip, so that its position cannot be asked for."""

from pathlib import Path

import resize_lib

rs = resize_lib.session()
total = 0
with open(Path(__file__).with_name("_prices.csv")) as lines:
    next(lines)
    for line, step in zip(lines, rs.iterations(50)):
        volume = int(line.split(",")[2])
        total += rs.comm.allreduce(sum(volume + step for _ in range(rs.rank, 4, rs.size)))
if rs.rank == 0:
    print("sum", total, "expected", 4 * sum(1000 + 2 * i for i in range(50)))
