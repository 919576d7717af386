"""Nodes that a batch system is asked for: each is a job of its own there, a *holder*.

    system.py   the port: what a batch system is asked, and how its commands are run
    bringup.py  `dq up` and `dq down` of a cluster whose nodes come from a batch system
    holder.py   what an agent in a holder finds out for itself

The systems: deploy/slurm, deploy/grid_engine.py; by the name of their table: deploy/systems.py.
The tables of a cluster file, and what a home notes of its batch system: deploy/batch_settings.py.
The server's side, which asks for holders and gives them back, is dq_server/live/engines.
How to write another one: docs/engines.md.
"""
