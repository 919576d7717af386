"""What `dq doctor` runs under mpiexec: one small trial of this MPI per call.

    mpiexec -n N python -m resize_lib.processes.probe TRIAL HOST

A trial that works prints `dq-probe: DETAIL` from one rank and ends with 0. One that is known not to
prints `dq-probe-not: REASON`; others fail in any way an MPI library may, hanging included: the
caller sets a time limit. Trials use plain MPI calls, so that they also test libraries which no
backend supports; only leaving a running job has no plain call, and there the backend is tried.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn

from mpi4py import MPI

from resize_lib.processes.choice import choose_backend
from resize_lib.processes.interface import expand

MARK = "dq-probe: "
MARK_NOT = "dq-probe-not: "
ROLE_SPAWNED = "spawned"


def _say(detail: str) -> None:
    sys.stdout.write(f"{MARK}{detail}\n")
    sys.stdout.flush()


def _give_up(reason: str) -> NoReturn:
    sys.stdout.write(f"{MARK_NOT}{reason}\n")
    sys.exit(1)


def _spawn(trial: str, host: str) -> MPI.Intercomm:
    info = MPI.Info.Create({"host": host, "hosts": host})
    argv = ["-m", "resize_lib.processes.probe", trial, ROLE_SPAWNED]
    return MPI.COMM_SELF.Spawn(sys.executable, argv, maxprocs=1, info=info)


def _library(_host: str) -> None:
    vendor, version = MPI.get_vendor()
    _say(f"{vendor} {'.'.join(map(str, version))}")


def _start(_host: str) -> None:
    """Two ranks that see each other; two jobs of one rank mean a foreign mpiexec."""
    total = MPI.COMM_WORLD.allreduce(1)
    if total != 2:
        _give_up("mpiexec and the MPI library of mpi4py do not belong together")
    if MPI.COMM_WORLD.rank == 0:
        _say("two ranks started and exchanged a message")


def _meet(host: str, trial: str) -> MPI.Intercomm:
    """Spawn one rank (or be it): the intercommunicator, after a first message over it."""
    spawned = host == ROLE_SPAWNED
    link = MPI.Comm.Get_parent() if spawned else _spawn(trial, host)
    if spawned:
        link.send(MPI.Get_processor_name(), dest=0)
    else:
        link.recv(source=0)
    return link


def _spawn_trial(host: str) -> None:
    _meet(host, "spawn")
    if host != ROLE_SPAWNED:
        _say(f"one rank started on {host} by a running job")


def _merge(host: str) -> None:
    spawned = host == ROLE_SPAWNED
    merged = _meet(host, "merge").Merge(high=spawned)
    total = merged.allreduce(1)
    if not spawned and total == 2 and merged.rank == 0:
        _say("old and new rank in one communicator, the old one first")


def _disconnect(host: str) -> None:
    spawned = host == ROLE_SPAWNED
    link = _meet(host, "disconnect")
    merged = link.Merge(high=spawned)
    merged.Disconnect()
    link.Disconnect()
    if not spawned:
        _say("communicators between old and new rank taken apart")


def _exit(_host: str) -> None:
    """Rank 0 of two ranks that started together ends; the other works on."""
    backend = choose_backend()
    if not backend.can_resize:
        _give_up(backend.why_not)
    comm = backend.shrink(backend.start(), {0})
    if comm is None:
        backend.leave()
    _say(f"a starting rank left, the job went on with {comm.allreduce(1)}")


def _release(host: str) -> None:
    """A spawned rank joins and leaves, then another one on the same host."""
    backend = choose_backend()
    if not backend.can_resize:
        _give_up(backend.why_not)
    comm = backend.start()
    if backend.spawned:
        backend.shrink(comm, {1})
        backend.leave()
    for _ in range(2):
        larger = expand(backend, comm, [host])
        smaller = backend.shrink(larger, {1})
        assert smaller is not None  # rank 0 stays
        comm = smaller
    _say(f"a rank on {host} joined and was released, twice")


TRIALS: dict[str, Callable[[str], None]] = {
    "library": _library,
    "start": _start,
    "spawn": _spawn_trial,
    "merge": _merge,
    "disconnect": _disconnect,
    "release": _release,
    "exit": _exit,
}

if __name__ == "__main__":
    TRIALS[sys.argv[1]](sys.argv[2])
