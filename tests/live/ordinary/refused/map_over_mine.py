"""Each rank advances its items in a function that a comprehension calls."""

from mpi4py import MPI
import numpy as np, resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()

state = {k: k for k in range(24)}  # refused


def tick(k, s):
    state[k] = (state[k] * 7 + s) % 101  # refused
    return state[k]


total = 0
for step in rs.iterations(40):
    total += comm.allreduce(sum(tick(k, step) for k in state if k % comm.size == comm.rank))
if comm.rank == 0:
    st, e = {k: k for k in range(24)}, 0
    for s in range(40):
        for k in st:
            st[k] = (st[k] * 7 + s) % 101
        e += sum(st.values())
    print("sum", total, "expected", e)
