"""Master and workers with tags, within each iteration; rank 0 hands out, computes alone if single."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
WORK, STOP = 1, 2
rs = resize_lib.session()
results = []


def work(k):
    return k * k + 1


for r in rs.iterations(25):
    tasks = list(range(r * 6, r * 6 + 6))
    if comm.size == 1:
        got = [work(t) for t in tasks]
    elif comm.rank == 0:
        got, busy = [], min(comm.size - 1, len(tasks))
        for w in range(1, comm.size):
            if tasks:
                comm.send(tasks.pop(), dest=w, tag=WORK)
            else:
                comm.send(None, dest=w, tag=STOP)
        for w in range(1, comm.size):
            while w <= busy:
                msg = comm.recv(source=w, tag=WORK)
                got.append(msg)
                if tasks:
                    comm.send(tasks.pop(), dest=w, tag=WORK)
                else:
                    comm.send(None, dest=w, tag=STOP)
                    break
    else:
        got = None
        st = MPI.Status()
        while True:
            t = comm.recv(source=0, tag=MPI.ANY_TAG, status=st)
            if st.tag == STOP:
                break
            comm.send(work(t), dest=0, tag=WORK)
    if comm.rank == 0:
        results.extend(sorted(got))
if comm.rank == 0:
    print("sum", sum(results) + len(results), "expected", sum(work(k) for k in range(150)) + 150)
