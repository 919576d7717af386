"""What the start looked like: size, host, library, time; printed at the start and at the end."""

from mpi4py import MPI

import resize_lib

rs = resize_lib.session()
started_on = rs.size
host = MPI.Get_processor_name()
begin = MPI.Wtime()
if rs.rank == 0:
    print(f"running on {started_on} ranks of {host}, {MPI.Get_library_version()[:20]}")
total = 0
for step in rs.iterations(50):
    total += rs.comm.allreduce(sum(step * i for i in range(rs.rank, 6, rs.size)))
if rs.rank == 0:
    print(f"began on {started_on}, ended on {rs.size} after {MPI.Wtime() - begin:.2f} s")
    print("sum", total, "expected", 15 * 1225)
