"""A pipe in which a byte waits from one iteration to the next."""

import os

import resize_lib

rs = resize_lib.session()
reader, writer = os.pipe()  # refused
os.write(writer, b"\x01")  # refused
total = 0
for step in rs.iterations(40):
    number = os.read(reader, 1)[0]
    os.write(writer, bytes([number * 5 % 251]))
    total += rs.comm.allreduce(sum(number for _ in range(rs.rank, 3, rs.size)))
if rs.rank == 0:
    print("sum", total, "expected", 3 * sum(pow(5, k, 251) for k in range(40)))
