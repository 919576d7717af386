"""Many emulated nodes on one machine: what slows them, and does the machine carry them?

contained.py      a contained cluster: made, found again after a crash, removed
network.py        its bridge and shaped links
job_processes.py  finding the processes of jobs
enforcement.py    what agents do for all this where no namespace does it

Which mechanism, and whether the nodes fit: deploy/mechanism.py. Control groups, and how a rank
joins one once MPI is up: base/cgroups.py. What a rank does itself, pacing among it, is in
resize_lib/emulation.
"""
