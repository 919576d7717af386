"""Many emulated nodes on one machine: which mechanism slows them, and does the machine carry them?

fitting.py     the shares of all nodes together must not exceed the machine
mechanism.py   paced or contained, and what each of them leaves out, in words
contained.py   a contained cluster: every node's namespaces, link and share of a core
fleet.py       its agents with root, each the first process of its node
cgroups.py     shares of a core by control group
network.py     its bridge and shaped links; namespaces.py: a node of its own

Contained without control groups:

governor.py    one process that stops and continues the processes of all nodes' jobs
budget.py      how much processor time a node may use
jobprocesses.py  finding those processes

joining.py     how a rank says that MPI is up
slowed.py      what agents do for all this where no namespace does it
"""
