import functools

import resize_lib

count = 0


@functools.lru_cache(maxsize=None)  # refused
def id_of(name):
    global count
    count += 1
    return count


rs = resize_lib.session()
x = rs.array("x", 24)
total = 0
for step in rs.iterations(50):
    x.local += 1
    value = id_of("abcdefg"[step * step % 7]) * 10 + id_of(step // 10)
    total += rs.comm.bcast(value, rs.size - 1)

if rs.rank == 0:
    print("sum", total, "expected", 2080)
