"""An operation of the program's own, made before the loop: argmax over pairs."""

from mpi4py import MPI
import resize_lib


def better(a, b):
    return max(a, b)


def longer(a, b, datatype=None):
    return a if (len(a), a) >= (len(b), b) else b


comm = MPI.COMM_WORLD
most = MPI.Op.Create(longer, commute=True)
rs = resize_lib.session()
words, best = [], (0, 0)
for step in rs.iterations(40):
    texts = [f"{(step * i) % 97}" * (1 + (step + i) % 3) for i in range(comm.rank, 7, comm.size)]
    mine = max(texts, key=lambda t: (len(t), t), default="")
    words.append(comm.allreduce(mine, op=most))
    score = max(((step * i % 13, i) for i in range(comm.rank, 7, comm.size)), default=(0, 0))
    best = better(best, comm.allreduce(score, op=MPI.MAX))
if comm.rank == 0:
    want = [
        max((f"{(s * i) % 97}" * (1 + (s + i) % 3) for i in range(7)), key=lambda t: (len(t), t))
        for s in range(40)
    ]
    top = max((s * i % 13, i) for s in range(40) for i in range(7))
    print("sum", sum(map(int, words)) + sum(best), "expected", sum(map(int, want)) + sum(top))
