"""A master that hands out tasks by tags in each round, and keeps the results."""

from mpi4py import MPI
import resize_lib

WORK, DONE = 1, 2
comm = MPI.COMM_WORLD


def f(t):
    return t * t % 17


rs = resize_lib.session()
results = {}
for rnd in rs.iterations(30):
    tasks = [rnd * 5 + k for k in range(5)]
    if comm.size == 1:
        for t in tasks:
            results[t] = f(t)
    elif comm.rank == 0:
        for n, t in enumerate(tasks):
            comm.send(t, dest=1 + n % (comm.size - 1), tag=WORK)
        for w in range(1, comm.size):
            comm.send(None, dest=w, tag=DONE)
        for n, t in enumerate(tasks):
            results[t] = comm.recv(source=1 + n % (comm.size - 1), tag=WORK)
    else:
        while True:
            st = MPI.Status()
            t = comm.recv(source=0, status=st)
            if st.Get_tag() == DONE:
                break
            comm.send(f(t), dest=0, tag=WORK)
if comm.rank == 0:
    print(
        "sum", sum(results.values()) + len(results), "expected", sum(f(t) for t in range(150)) + 150
    )
