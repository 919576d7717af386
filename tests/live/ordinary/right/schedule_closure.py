"""A closure with nonlocal, a scheduler made by a factory, called in the loop; a nested closure list."""

from mpi4py import MPI
import resize_lib


def make_schedule(base):
    factor, calls, seen = 1.0, 0, []

    def schedule(loss):
        nonlocal factor, calls
        calls += 1
        if seen and loss > seen[-1] * 0.99:
            factor *= 0.5
        seen.append(loss)
        return base * factor

    schedule.count = lambda: calls
    return schedule


def run(rng, red):
    sched = make_schedule(0.2)
    w = 5.0
    for _ in rng:
        loss = red(w * w)
        w -= sched(loss) * w
    return w * 1e6 + sched.count()


with resize_lib.session() as rs:
    got = run(rs.iterations(40), lambda v: rs.comm.allreduce(v, op=MPI.MAX))
    if rs.rank == 0:
        print("sum", got, "expected", run(range(40), lambda v: v))
