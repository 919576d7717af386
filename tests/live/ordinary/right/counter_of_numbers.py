"""A Counter of whole numbers."""

from collections import Counter
import resize_lib

rs = resize_lib.session()
N = 60
lengths = Counter()
total = 0
for step in rs.iterations(N):
    lengths[step % 5] += 1
    total += rs.comm.allreduce(float(lengths[0])) / rs.size
if rs.rank == 0:
    print(f"sum {total} expected {float(sum(k // 5 + 1 for k in range(N)))}")
