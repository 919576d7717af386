"""The node agent (the thesis's DQ client): starts, watches and ends the processes of jobs.

agent.py        the loop: orders from the server, heartbeats; make_agent puts the parts together
notice.py       an order to leave the nodes: its deadline and its cause
context.py      what the parts share: who the agent is, what it holds, what it says
applications.py the applications of jobs: launched, killed, ended, and their output
vacancies.py    processors that are to become empty, until they are
copies.py       copies of protected jobs that this agent's nodes hold in memory
reports.py      what the server must acknowledge, sent until it has
holdings.py     the job instances with processes here, recorded on disk so that they outlive
                the agent
own_ranks.py    ranks that DQ starts itself, through keepers (dq_client/node/ranks)
proxies.py      programs that mpiexec wants run on this node, or from here on another
rsh_socket.py   the socket that dq-rsh connects to (base/dq_rsh.py)
marks.py        ranks that ended without leaving their job (base/presence.py)
local_start.py  one start of a job with such ranks, as its agent knows it
keepers.py      the agent's end of a keeper's line; how a keeper is made
starters.py     processes with packages loaded that keepers are forked from
"""
