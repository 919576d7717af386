"""Results that each rank appends to a list of its own, gathered after the loop."""

import resize_lib

rs = resize_lib.session()
found = []  # refused
for step in rs.iterations(40):
    for i in range(rs.rank, 7, rs.size):
        if (step + i) % 3 == 0:
            found.append(step * i)  # refused
parts = rs.comm.gather(found, root=0)
if rs.rank == 0:
    total = sum(map(sum, parts))
    print(
        "sum",
        total,
        "expected",
        sum(s * i for s in range(40) for i in range(7) if (s + i) % 3 == 0),
    )
