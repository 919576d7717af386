"""What only `launcher = "mpiexec"` needs, around MPICH's launcher (docs/mpiexec.md).

command.py     its command line, and the dq-rsh program that it calls
open_mpi.py    the same for Open MPI

The agent's part is node/agent (proxies.py, rsh_socket.py, marks.py), the program base/dq_rsh.py.
The library's part is resize_lib/processes/hydra.
"""
