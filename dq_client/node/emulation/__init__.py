"""Many emulated nodes on one machine: what slows them, and does the machine carry them?

mechanism.py      paced, contained or governor: which, what it leaves out, and whether the nodes fit
contained.py      a contained cluster: made, found again after a crash, removed
cgroups.py        shares of a core by control group
network.py        its bridge and shaped links
fleet.py          its agents with root, each the first process of a node's namespaces
governor.py       without control groups: processes are stopped and continued by a budget
job_processes.py  finding those processes, and how a rank says that MPI is up
enforcement.py    what agents do for all this where no namespace does it

What a rank does itself, pacing among it, is in resize_lib/emulation.
"""
