"""A walk on a ring that remembers where it has been."""

import time

import resize_lib

rs = resize_lib.session()
visited = {0}
place = 0
revisits = 0
for step in rs.iterations(45):
    place = (place * 3 + step + 1) % 29
    if place in visited:
        revisits += rs.comm.allreduce(1) // rs.size
    visited.add(place)
    time.sleep(0.02)
if rs.rank == 0:
    seen, at, again = {0}, 0, 0
    for step in range(45):
        at = (at * 3 + step + 1) % 29
        again += at in seen
        seen.add(at)
    print("sum", revisits + 1000 * sum(visited), "expected", again + 1000 * sum(seen))
