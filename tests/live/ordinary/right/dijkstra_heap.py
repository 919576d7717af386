"""Shortest ways in a graph, by a heap."""

import heapq
import numpy as np

import resize_lib


graph = {k: [((k * 7 + 1) % 50, k % 5 + 1), ((k + 1) % 50, 3)] for k in range(50)}
heap, dist = [(0, 0)], {0: 0}
rs = resize_lib.session()
x = rs.array("x", 24)
total = 0
for step in rs.iterations(50):
    x.local += 1
    value = 0
    if heap:
        d, node = heapq.heappop(heap)
        for other, w in graph[node]:
            if d + w < dist.get(other, 10**9):
                dist[other] = d + w
                heapq.heappush(heap, (d + w, other))
        value = d + len(heap) + sum(dist.values())
    total += rs.comm.bcast(value, rs.size - 1)


if rs.rank == 0:
    print("sum", total, "expected", 20121)
