"""The batch systems, by their tables in a cluster file."""

from __future__ import annotations

from dq_client.deploy.batch.system import System
from dq_client.deploy.batch_settings import (
    BatchRecord,
    BatchTable,
    GridEngineTable,
    SlurmTable,
)


def system_of(table: BatchTable, kill_wait_s: float | None = None) -> System:
    """The system that the table is for. `kill_wait_s`: as Site has it; None: not asked yet."""
    match table:
        case SlurmTable():
            from dq_client.deploy.slurm.commands import Slurm

            return Slurm(table, kill_wait_s)
        case GridEngineTable():
            from dq_client.deploy.grid_engine import GridEngine

            return GridEngine(table, kill_wait_s)
    raise AssertionError(f"no system for {table}")


def systems_of(noted: BatchRecord) -> dict[str, System]:
    """Those of a home's cluster, by queue; one without queues has a nameless one."""
    return {name: system_of(t, noted.kill_wait_s) for name, t in noted.queues().items()}
