"""A state machine with match, walrus and a dispatch table; continue and else."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


def machine(loop, red):
    mode, ups, acc = "idle", 0, []
    table = {"up": lambda v: v + 3, "down": lambda v: v - 1}
    v = 0
    for k in loop:
        match mode, k % 4:
            case "idle", 0:
                mode = "up"
            case "up", 3:
                mode = "down"
                ups += 1
                continue
            case "down", n if n > 1:
                mode = "idle"
        if (f := table.get(mode)) is None:
            continue
        v = f(red(v))
        acc.append((mode, v))
    else:
        ups *= 10
    return ups + v + sum(x for m, x in acc if m == "up")


got = machine(rs.iterations(45), lambda v: comm.allreduce(v, op=MPI.MAX))
if comm.rank == 0:
    print("sum", got, "expected", machine(range(45), lambda v: v))
