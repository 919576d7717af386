"""How Open MPI's own launcher starts a job: on this machine, as a user would start it by hand.

Open MPI's ranks need its launcher (PMIx), which knows nothing of dq-rsh. Such a job is resized by
restart (docs/mpi.md), so the launcher starts a world of fixed size each time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from dq_client.base.launch import ONE_THREAD, LaunchError

NAMES = ("orterun", "prterun", "ompirun_wrapper")  # what mpiexec is a link to, or starts
HYDRA = "hydra_pmi_proxy"


def is_open_mpi(mpiexec: str) -> bool:
    """Whether this mpiexec is Open MPI's; found out without starting it."""
    path = Path(mpiexec).resolve()
    if path.name in NAMES or "openmpi" in path.name:
        return True
    beside = [folder / "ompi_info" for folder in (path.parent, Path(mpiexec).parent)]
    return any(found.exists() for found in beside) and not path.with_name(HYDRA).exists()


def words(mpiexec: str, ranks: int, program: Sequence[str], interface: str) -> list[str]:
    """The command line.

    Raises:
        LaunchError: the nodes are several machines.
    """
    if interface != "lo":
        raise LaunchError(
            "jobs under Open MPI run on one machine only, because its launcher cannot use DQ's"
            " nodes. Use MPICH across machines (pip install 'dq-mpi[mpich]', docs/mpi.md)"
        )
    return [mpiexec, "--host", f"localhost:{ranks}", "-n", str(ranks), *program]


def environment() -> dict[str, str]:
    """What the launcher and the ranks need beside the job's own."""
    env = {
        **ONE_THREAD,
        # The scheduler says how many ranks there are, and the kernel where they run.
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "OMPI_MCA_mpi_yield_when_idle": "1",
    }
    if os.geteuid() == 0:  # it refuses otherwise; DQ's agents run as who submits
        env |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return env
