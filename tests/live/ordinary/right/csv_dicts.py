"""A csv.DictReader over lines in memory."""

import csv
import io

import resize_lib

text = "name,value\n" + "".join(f"row{i},{i * i % 31}\n" for i in range(80))
rs = resize_lib.session()
rows = csv.DictReader(io.StringIO(text))
total = 0
for step in rs.iterations(50):
    row = next(rows)
    total += rs.comm.allreduce(sum(int(row["value"]) for _ in range(rs.rank, 5, rs.size)))
    total += len(row["name"])
if rs.rank == 0:
    print("sum", total, "expected", sum(5 * (i * i % 31) + len(f"row{i}") for i in range(50)))
