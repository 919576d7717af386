"""The command line and the environment that start an MPI job on DQ's nodes with mpiexec.

For MPICH's mpiexec (hydra), and Open MPI's on one machine (open_mpi.py). docs/mpiexec.md has the
experiments behind each part for hydra:

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
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dq_client.base import dq_rsh
from dq_client.base.dq_rsh import spelled_in_numbers
from dq_client.base.launch import INTERFACE_VARIABLE, MPI_TUNING, ONE_THREAD, LaunchError
from dq_client.node.mpiexec import open_mpi

RSH_NAME = "dq-rsh"
NODE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")


@dataclass(frozen=True)
class MpiexecCommand:
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
) -> MpiexecCommand:
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
    mpiexec = mpiexec or find_mpiexec()
    if open_mpi.is_open_mpi(mpiexec):
        argv = open_mpi.words(mpiexec, ranks, program, interface)
        return MpiexecCommand(argv, open_mpi.environment())
    launcher = ["-launcher", "rsh", "-launcher-exec", str(rsh), "-iface", interface]
    argv = [mpiexec, *launcher, "-hosts", hosts, "-n", str(ranks), *program]
    env = {**ONE_THREAD, **MPI_TUNING, dq_rsh.SOCKET_VARIABLE: str(rsh_socket)}
    env[INTERFACE_VARIABLE] = interface
    if transports is not None:
        env["UCX_TLS"] = transports
    return MpiexecCommand(argv, env)


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


def find_mpiexec(library: str = "") -> str:
    """The mpiexec beside this Python if there is one, else the first in PATH.

    library: the MPI whose ranks it has to start, such as "MPICH 4.0.2". Where several MPIs are
    installed (Debian), the plain name may be another one's.
    """
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("mpiexec")
    if library.startswith("MPICH") and (not found or open_mpi.is_open_mpi(found)):
        found = shutil.which("mpiexec.mpich") or shutil.which("mpiexec.hydra") or found
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
