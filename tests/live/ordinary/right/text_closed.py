"""A text in memory that the loop closes."""

import io
import resize_lib

rs = resize_lib.session()
N = 40
text = io.StringIO("1 2 3")
numbers = [int(x) for x in text.read().split()]
total = 0
for step in rs.iterations(N):
    if step == 0:
        text.close()
    total += rs.comm.allreduce(float(len(numbers))) / rs.size
if rs.rank == 0:
    print(f"sum {total} expected {float(3 * N)}")
