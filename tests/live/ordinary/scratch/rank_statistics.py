"""Counts of this rank's own work, which only a message in the loop shows."""

import resize_lib


class Statistics:
    def __init__(self):
        self.items = 0
        self.largest = 0
        self.by_kind = {}

    def record(self, i):
        self.items += 1
        self.largest = max(self.largest, i)
        self.by_kind[i % 3] = self.by_kind.get(i % 3, 0) + 1


rs = resize_lib.session()
mine = Statistics()
total = 0
for step in rs.iterations(50):
    part = 0
    for i in range(rs.rank, 25, rs.size):
        mine.record(i)
        part += i
    total += rs.comm.allreduce(part)
    if step % 10 == 9:
        print(f"rank {rs.rank}: {mine.items} items, {mine.largest}, {mine.by_kind}", flush=True)
if rs.rank == 0:
    print("sum", total, "expected", 50 * 300)
