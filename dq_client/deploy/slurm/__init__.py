"""Slurm: nodes of a cluster are Slurm jobs, or the nodes of an allocation that is there already.

    commands.py    sbatch, squeue, scancel and scontrol, each with a time limit
    script.py      the batch script of a holder: a Slurm job that is one node of the cluster
    bringup.py     `dq up` and `dq down` of a cluster whose nodes Slurm is asked for
    allocation.py  `dq up --cluster slurm` inside of salloc or sbatch

The table [slurm] of a cluster file, and what a home notes of its Slurm: deploy/slurm_settings.py.
The server's side, which asks for holders and gives them back, is dq_server/live/engines.
"""
