"""Ranks under MPICH's own process manager: what only a job started by mpiexec needs.

backend.py   how ranks join and leave
pmi.py       asking hydra for new ranks without waiting, and telling it that an exit is intended
arrivals.py  new ranks report to the job over TCP: hydra has no channel for that
hosts.py     host lists as hydra reads them
"""
