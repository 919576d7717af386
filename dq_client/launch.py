"""The command line and the environment that start an MPI job on DQ's nodes.

For MPICH's mpiexec (hydra); docs/mpiexec.md has the experiments behind each part:

* nodes are named by DQ's own names, spelled in numbers so that nobody looks them up: with
  `-launcher rsh` hydra only hands a name on to the launcher, here `dq-rsh`, which asks the node's
  agent. So any number of names may stand for one machine;
* `-iface` names the network interface that the nodes reach mpiexec by: without it hydra tells
  them this machine's host name, which has to resolve everywhere;
* the environment given here reaches every rank, spawned ones included, through mpiexec itself.
"""

from __future__ import annotations

import os
import re
import resource
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dq_client import dq_rsh
from dq_client.dq_rsh import spelled_in_numbers

RSH_NAME = "dq-rsh"
INTERFACE_VARIABLE = "DQ_INTERFACE"  # where ranks that join a job find it
NODE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
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
    "UCX_WARN_UNUSED_ENV_VARS": "n",
    # A large message in one call of the kernel, as within a world, and not in calls of 512 KiB:
    # that alone made ranks that have joined 0.82 of as fast as ranks that started together.
    "UCX_CMA_SEG_SIZE": "1g",
}


class LaunchError(Exception):
    """This job cannot be started as asked; the message says why and what to do."""


@dataclass(frozen=True)
class Launch:
    """How to start a job: run `argv` with `env` added to the environment."""

    argv: list[str]
    env: dict[str, str] = field(default_factory=dict)


def launch_command(
    program: Sequence[str],
    placement: Sequence[tuple[str, int]],
    *,
    rsh: Path,
    rsh_socket: Path,
    interface: str = "lo",
    mpiexec: str | None = None,
    transports: str | None = None,
) -> Launch:
    """The mpiexec command that runs `program` with `count` ranks on each (node, count).

    `rsh` is what `install_rsh` returned, `rsh_socket` the agent's socket that it connects to.
    `interface` is the network interface shared by the nodes (`lo` when all are this machine);
    `transports` overrides UCX's choice (UCX_TLS). Ranks are numbered along `placement`.
    Raises LaunchError for a placement that makes no sense or a missing mpiexec.
    """
    if not program:
        raise LaunchError("no program to run")
    check_placement(placement)
    hosts = ",".join(f"{spelled_in_numbers(node)}:{count}" for node, count in placement)
    ranks = sum(count for _, count in placement)
    launcher = ["-launcher", "rsh", "-launcher-exec", str(rsh), "-iface", interface]
    argv = [mpiexec or find_mpiexec(), *launcher, "-hosts", hosts, "-n", str(ranks), *program]
    env = {**ONE_THREAD, **MPI_TUNING, dq_rsh.SOCKET_VARIABLE: str(rsh_socket)}
    env[INTERFACE_VARIABLE] = interface
    if transports is not None:
        env["UCX_TLS"] = transports
    return Launch(argv, env)


def rank_environment(interface: str) -> dict[str, str]:
    """What DQ's own ranks have in their environment unless the job says otherwise.

    `interface`: the network that the nodes share; `lo` when all are this machine. There MPI needs
    no network, and must not have one: its listening sockets would be open to every user.
    """
    if interface == "lo":
        return {**ONE_THREAD, **MPI_TUNING, "UCX_TLS": "sm,self"}
    return {**ONE_THREAD, **MPI_TUNING, "UCX_NET_DEVICES": interface}


def check_placement(placement: Sequence[tuple[str, int]]) -> None:
    """Refuse what hydra would misread: no ranks, odd names, a node named twice."""
    if not placement:
        raise LaunchError("no node to start on")
    seen: set[str] = set()
    for node, count in placement:
        if not NODE_NAME.fullmatch(node):
            raise LaunchError(f"not a node name: {node!r} (letters, digits, '.', '_' and '-')")
        if node in seen:
            raise LaunchError(f"node {node} is named twice: give it once with all its ranks")
        if count < 1:
            raise LaunchError(f"node {node} needs at least one rank, not {count}")
        seen.add(node)


def find_mpiexec() -> str:
    """MPICH's mpiexec: the one beside this Python if there is one, else the first in PATH."""
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("mpiexec")
    if not found:
        raise LaunchError(
            "no mpiexec found: install an MPI, for example pip install 'dq-mpi[mpich]'"
        )
    return found


def install_rsh(folder: Path) -> Path:
    """Write the `dq-rsh` program into `folder` (made if missing) and return its path.

    It is a two-line shell script, because hydra takes a path without arguments and a `#!` line
    cannot hold every Python's path. Safe to repeat and to race.
    """
    folder.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-I", "-S", str(Path(dq_rsh.__file__).resolve())]
    text = "#!/bin/sh\nexec " + shlex.join(words) + ' "$@"\n'
    path = folder / RSH_NAME
    if not path.is_file() or path.read_text() != text or not os.access(path, os.X_OK):
        draft = folder / f".{RSH_NAME}.{os.getpid()}"
        draft.write_text(text)
        draft.chmod(0o700)
        draft.replace(path)
    return path


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
