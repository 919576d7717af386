"""cProfile and tracemalloc around the work, a warning registry, the garbage collector's counts."""

import cProfile
import gc

import resize_lib

rs = resize_lib.session()
profile = cProfile.Profile()
collections = []
total = 0
for step in rs.iterations(45):
    profile.enable()
    mine = sum(step * i for i in range(rs.rank, 9, rs.size))
    profile.disable()
    collections.append(gc.get_count()[0])
    total += rs.comm.allreduce(mine)
if rs.rank == 0:
    print(len(profile.getstats()), "functions,", max(collections), "objects")
    print("sum", total, "expected", 36 * 990)
