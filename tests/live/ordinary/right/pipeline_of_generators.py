"""Generators within an iteration: each is made, used up and forgotten; what they count stays."""

import resize_lib

seen = {"read": 0, "kept": 0}


def read(step, rank, size):
    for i in range(rank, 12, size):
        yield step * 10 + i


def keep(items, threshold):
    for item in items:
        if item % 7 > threshold:
            yield item


def run(loop, add, place):
    threshold, total = 2, 0
    for step in loop:
        items = list(keep(read(step, *place()), threshold))
        count, value = add(len(items)), add(sum(items))
        seen["read"] += 12
        seen["kept"] += count
        threshold = (threshold + (count > 5)) % 5
        total += value * (threshold + 1)
    return total + seen["kept"] * 3 + seen["read"]


rs = resize_lib.session()
got = run(rs.iterations(45), rs.comm.allreduce, lambda: (rs.rank, rs.size))
if rs.rank == 0:
    seen.update(read=0, kept=0)
    print("sum", got, "expected", run(range(45), lambda v: v, lambda: (0, 1)))
