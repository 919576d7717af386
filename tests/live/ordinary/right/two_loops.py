"""Two loops, one after the other, with state that the first leaves for the second."""

import resize_lib

rs = resize_lib.session()
warm = 0
for step in rs.iterations(25):
    warm += rs.comm.allreduce(sum(step * i for i in range(rs.rank, 5, rs.size)))
scale = warm / 100
samples = []
for step in rs.iterations(25):
    samples.append(rs.comm.allreduce(sum(scale * i for i in range(rs.rank, 5, rs.size))) + step)
if rs.rank == 0:
    warm = 10 * sum(range(25))
    print("sum", sum(samples), "expected", 25 * warm / 100 * 10 + sum(range(25)))
