"""DQ's own process manager: starts MPI ranks, talks PMI-1 with them, and knows how each ended.

pmi.py       the words of PMI-1 and the state of one MPI world: pure, no descriptor
world.py     one MPI world as one keeper has it; worlds.py: those of a job, by number
ends.py      how the ranks of a keeper stand, on disk, for the agent when the keeper is gone
adoption.py  ranks that another process manager has started, taken into a job
dialogue.py  what ranks say on their two sockets, and what they are answered
exchange.py  between the keepers of several nodes: barriers, worlds that join
loss.py      a lost rank: can the others go on without it?
output.py    whole lines of ranks' output into files; marks.py: which rank has written what
program.py   what a command line runs, and running it in a forked rank
keeper.py    the parent of one job's ranks on one node: a loop over their descriptors
starter.py   the fork server: a process with numpy and mpi4py loaded that keepers are forked from
preload.py   what it has loaded, and how a rank gets it
learned.py   packages that ranks have imported, loaded by their keeper for later ranks
boot.py      starts a keeper or a starter in any interpreter
program_keeper.py   the keeper of one program, for mpiexec and its proxies

Standard library only, and relative imports only: a starter runs in the job's interpreter, which
need not have DQ installed, and loads dq_client as a package of another name. Of other folders they
import channel, imports, opened and process of base. docs/ranks.md has the protocols.
"""
