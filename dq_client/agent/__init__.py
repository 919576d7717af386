"""The node agent (the thesis's DQ client): starts, watches and ends the processes of jobs.

agent.py        the loop: orders from the server, heartbeats
applications.py the applications of jobs: launched, killed, ended, and their output
reports.py      what the server must acknowledge, told until it has
departures.py   processors that are to become empty, until they are
ranks.py        ranks on this agent's nodes that ended without a word
proxies.py      programs that MPI's launcher wants run on this node, or from here on another
holdings.py     the job instances with processes here, recorded on disk so that they outlive
                the agent
keeper.py       a tiny parent for each process tree: keeps the exit code, loses no descendant
rsh.py          the socket that dq-rsh asks for proxies on other nodes
tree.py         finding and ending every process of a job instance
"""
