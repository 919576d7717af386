"""Slurm: nodes of a cluster are Slurm jobs, or the nodes of an allocation that is there already.

commands.py    Slurm as a batch system: sbatch, squeue, scancel and scontrol
script.py      the batch script of a holder: a Slurm job that is one node of the cluster
allocation.py  `dq up --cluster slurm` inside of salloc or sbatch
"""
