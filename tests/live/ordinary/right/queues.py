"""PriorityQueue and LifoQueue that all ranks use alike"""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


import queue

a, b, t = queue.PriorityQueue(), queue.LifoQueue(maxsize=9), 0
for step in rs.iterations(40):
    v = comm.allreduce(sum(step * i % 7 for i in range(comm.rank, 6, comm.size)))
    a.put((v % 5, step))
    b.put(v)
    if step % 3 == 2:
        t = (t * 3 + a.get()[1] + b.get_nowait()) % 10007
    if b.full():
        b.get()
if comm.rank == 0:
    import heapq

    p, q, e = [], [], 0
    for s in range(40):
        v = sum(s * i % 7 for i in range(6))
        heapq.heappush(p, (v % 5, s))
        q.append(v)
        if s % 3 == 2:
            e = (e * 3 + heapq.heappop(p)[1] + q.pop()) % 10007
        if len(q) >= 9:
            q.pop()
    print("sum", t, "expected", e)
