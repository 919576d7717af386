"""What every start of ranks needs, whatever launches them: environment, limits, checks."""

from __future__ import annotations

import os
import resource
import shutil
from pathlib import Path

INTERFACE_VARIABLE = "DQ_INTERFACE"  # where ranks that join a job find it
PORTS_VARIABLE = "DQ_PORTS"  # LOW-HIGH: what ranks that listen themselves may use
OPEN_FILES_WANTED = 65536

ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
MPI_TUNING = {
    # Between ranks that did not start together even neighbours use the network module, and there
    # ucx moves 8 GB/s where ofi moves 1.
    "MPIR_CVAR_CH4_NETMOD": "ucx",
    "UCX_LOG_LEVEL": "error",
    "UCX_LOG_FILE": "stderr",  # what goes to stdout is the program's
    "UCX_WARN_UNUSED_ENV_VARS": "n",
    # A large message in one call of the kernel, as within a world, and not in calls of 512 KiB:
    # that alone made ranks that have joined 0.82 of as fast as ranks that started together.
    "UCX_CMA_SEG_SIZE": "1g",
    # In MPI_Init hwloc would move the rank to each core in turn to ask that about itself, and wait
    # there for those that compute: on two cores 13 ms and not 9. Linux's files say what MPI needs.
    "HWLOC_COMPONENTS": "-x86",
}
# Where all nodes are one machine. No network: its listening sockets would be open to every user.
# And nothing that new ranks would only wait for: with a second kind of shared memory, as in "sm",
# and the libraries for InfiniBand MPI_Init takes 14 ms of processor time and not 10.
ON_ONE_MACHINE = {
    "UCX_TLS": "posix,xpmem,cma,self",
    "UCX_MODULES": "^ib,rdmacm",
    "UCX_POSIX_RX_BUFS_GROW": "64",  # buffers of 8 KiB for each rank at first, not 512
}

NOT_STARTED = 127  # exit code: as a shell says of a program that cannot be run


class LaunchError(Exception):
    """This job cannot be started as asked; the message says why and what to do."""


def rank_environment(interface: str) -> dict[str, str]:
    """What DQ's own ranks have in their environment unless the job says otherwise.

    `interface`: the network that the nodes share; `lo` when all are this machine.
    """
    if interface == "lo":
        return {**ONE_THREAD, **MPI_TUNING, **ON_ONE_MACHINE}
    return {**ONE_THREAD, **MPI_TUNING, "UCX_NET_DEVICES": interface}


def raise_open_file_limit(wanted: int = OPEN_FILES_WANTED) -> int:
    """Let this process and its children hold more open files; returns the limit reached.

    mpiexec leaks about three descriptors for every spawn, and the usual limit of 1,024 would end
    a job after some three hundred expansions. Never lowers a limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    goal = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if goal > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (goal, hard))
    return max(goal, soft)


def check_program(argv: list[str], cwd: str, env: dict[str, str]) -> None:
    """Find out before MPI does: a missing program would take the launcher down with it."""
    if not Path(cwd).is_dir():
        raise LaunchError(f"no such folder: {cwd}")
    program = argv[0]
    found = shutil.which(program, path=env.get("PATH", os.defpath))
    if "/" in program:
        candidate = Path(cwd, program)
        found = str(candidate) if os.access(candidate, os.X_OK) and candidate.is_file() else None
    if found is None:
        if "/" in program and Path(cwd, program).is_file():
            raise LaunchError(
                f"{program} is not executable: chmod +x makes it so, or name its interpreter, as"
                f" python {program}"
            )
        raise LaunchError(f"no such program: {program}")
