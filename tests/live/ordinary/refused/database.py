"""A database in memory that the iterations fill."""

import sqlite3

import resize_lib

rs = resize_lib.session()
db = sqlite3.connect(":memory:")  # refused
db.execute("create table samples (step integer, value integer)")  # refused
total = 0
for step in rs.iterations(40):
    db.execute("insert into samples values (?, ?)", (step, step * step))
    known = db.execute("select sum(value) from samples").fetchone()[0]
    total += rs.comm.allreduce(sum(known for _ in range(rs.rank, 3, rs.size)))
if rs.rank == 0:
    print("sum", total, "expected", 3 * sum(sum(k * k for k in range(n + 1)) for n in range(40)))
