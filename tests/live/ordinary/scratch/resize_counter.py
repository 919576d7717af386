"""How often this rank was resized, counted in on_resize, with the sizes it has seen."""

import resize_lib

rs = resize_lib.session()
resizes = 0
seen = []


@rs.on_resize
def count(comm):
    global resizes
    resizes += 1
    seen.append(comm.size)


total = 0
for step in rs.iterations(50):
    total += rs.comm.allreduce(sum(step + i for i in range(rs.rank, 6, rs.size)))
if rs.rank == 0:
    print(resizes, "resizes:", seen)
    print("sum", total, "expected", 6 * 1225 + 50 * 15)
