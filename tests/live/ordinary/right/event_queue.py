"""A discrete-event simulation: a heap of events, bisect into a sorted list."""

import bisect
import heapq

import resize_lib


def advance(queue, finished, share):
    at, name = heapq.heappop(queue)
    heapq.heappush(queue, (at + 3 + (at * 7 + name) % 5, name))
    bisect.insort(finished, (at * 31 % 17, name))
    if at % 4 == 0 and len(queue) < 20:
        heapq.heappush(queue, (at + 2, name + 10))
    return share(at * name + finished[0][0])


rs = resize_lib.session()
queue, finished = [(i, i) for i in range(5)], []
heapq.heapify(queue)
total = 0
for step in rs.iterations(50):
    total += advance(
        queue, finished, lambda x: rs.comm.allreduce(sum(x for _ in range(rs.rank, 3, rs.size)))
    )
if rs.rank == 0:
    q, f = [(i, i) for i in range(5)], []
    expected = sum(advance(q, f, lambda x: 3 * x) for _ in range(50))
    print("sum", total + sum(map(sum, finished)), "expected", expected + sum(map(sum, f)))
