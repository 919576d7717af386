"""What only `launcher = "mpiexec"` needs, around MPICH's launcher (docs/mpiexec.md).

command.py     its command line, and the dq-rsh program that it calls
dq_rsh.py      that program: asks the node's agent to run something on another node
rsh_socket.py  the socket of the agent that dq-rsh connects to
proxies.py     programs that mpiexec wants run on this node, or from here on another
presence.py    a rank's mark: that it is in its session and has not left it
marks.py       ranks on an agent's nodes that ended without leaving their job

The library's part is resize_lib/processes/hydra.
"""
