"""A pair of sockets in which a number waits from one iteration to the next."""

import socket

import resize_lib

rs = resize_lib.session()
a, b = socket.socketpair()  # refused
a.sendall(bytes([1]))  # refused
total = 0
for step in rs.iterations(40):
    number = b.recv(1)[0]
    a.sendall(bytes([(number * 3 + 1) % 251]))
    total += rs.comm.allreduce(sum(number * i for i in range(rs.rank, 4, rs.size)))
if rs.rank == 0:
    n, expected = 1, 0
    for _ in range(40):
        expected += 6 * n
        n = (n * 3 + 1) % 251
    print("sum", total, "expected", expected)
