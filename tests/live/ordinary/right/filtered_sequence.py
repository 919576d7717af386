"""An inner loop over what is left of a dict; fewer items in each sweep."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
alive = {k: 5 + k for k in range(10)}
acc = 0
for sweep in rs.iterations(6):
    for k in rs.iterations([k for k in alive if alive[k] > 0]):
        alive[k] -= 2 + comm.allreduce(k) // comm.size % 2
        acc = (acc * 7 + k + alive[k]) % 100003
if comm.rank == 0:
    al, e = {k: 5 + k for k in range(10)}, 0
    for _ in range(6):
        for k in [k for k in al if al[k] > 0]:
            al[k] -= 2 + k % 2
            e = (e * 7 + k + al[k]) % 100003
    print("sum", acc, "expected", e)
