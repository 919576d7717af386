"""Each rank appends to lists in a dict, which are added up after the loop."""

import resize_lib

rs = resize_lib.session()
found = {"even": [], "odd": []}  # refused
for step in rs.iterations(40):
    for i in range(rs.rank, 12, rs.size):
        found["odd" if i % 2 else "even"].append(i)  # refused
total = rs.comm.allreduce(sum(found["even"]) + sum(found["odd"]))
if rs.rank == 0:
    print("sum", total, "expected", 66 * 40)
