"""An inner loop over a list that each round turns and sorts."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
jobs = [[k, k * k] for k in range(12)]
done = 0
for rnd in rs.iterations(5):
    jobs = jobs[3:] + jobs[:3]
    for a, b in rs.iterations(jobs):
        done += comm.allreduce(a * (rnd + 1) + b if comm.rank == 0 else 0)
        if a == 7:
            continue
    jobs.sort(key=lambda j: -j[1] * (-1) ** rnd)
if comm.rank == 0:
    print("sum", done, "expected", sum(a * (r + 1) + a * a for r in range(5) for a in range(12)))
