"""The iterations inside a progress bar of the program's, which counts them."""

import resize_lib


class Progress:
    def __init__(self, iterable, every=10):
        self.iterable, self.every, self.lines = iterable, every, 0

    def __iter__(self):
        count = 0
        for item in self.iterable:
            yield item
            count += 1
            if count % self.every == 0:
                self.lines += 1


rs = resize_lib.session()
bar = Progress(rs.iterations(50), every=7)
total = 0
for step in bar:
    total += rs.comm.allreduce(sum(step * i + bar.lines for i in range(rs.rank, 5, rs.size)))
if rs.rank == 0:
    print("sum", total, "expected", sum(10 * k + 5 * (k // 7) for k in range(50)))
