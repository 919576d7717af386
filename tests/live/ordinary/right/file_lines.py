"""An open text file, of which each iteration reads a line."""

import os

import resize_lib

rs = resize_lib.session()
with open(os.path.join(os.path.dirname(__file__), "_prices.csv")) as file:
    file.readline()
    total = 0
    for step in rs.iterations(50):
        volume = int(file.readline().split(",")[2])
        total += rs.comm.allreduce(sum(volume for _ in range(rs.rank, 4, rs.size)))
if rs.rank == 0:
    print("sum", total, "expected", 4 * sum(1000 + i for i in range(50)))
