"""A data loader that is a generator."""

import resize_lib


def loader(n):
    total = 0
    for i in range(n):
        total = total * 3 % 1009 + i
        yield total


rs = resize_lib.session()
batches = loader(100)  # refused
result = 0
for step in rs.iterations(40):
    batch = next(batches)
    result += rs.comm.allreduce(sum(batch * i for i in range(rs.rank, 5, rs.size)))
if rs.rank == 0:
    print("sum", result, "expected", 10 * sum(list(loader(100))[:40]))
