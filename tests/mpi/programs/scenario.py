"""Small stories about ranks that come and go; `scenario.py NAME HOST...` runs one of them.

mpi4py comes first on purpose: that is the order most programs import in.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Never
from unittest.mock import patch

from mpi4py import MPI

from harness.ranks import node_here
from resize_lib import processes
from resize_lib.processes import ShrinkError, SpawnError, choose_backend, command, idle_bcast

BACKEND = choose_backend()
# What every rank does next, given how many steps are done then; its communicator afterwards.
Step = Callable[[MPI.Intracomm, int], MPI.Intracomm]


def show(comm: MPI.Intracomm, **what: Any) -> None:
    if comm.rank == 0:
        print(json.dumps({"size": comm.size, **what}), flush=True)


def where(comm: MPI.Intracomm) -> list[str]:
    return comm.allgather(node_here())


def pids(comm: MPI.Intracomm) -> list[int]:
    return comm.allgather(os.getpid())


def shrink(comm: MPI.Intracomm, leaving: Collection[int]) -> MPI.Intracomm:
    smaller = BACKEND.shrink(comm, leaving)
    if smaller is None:
        BACKEND.leave()
    return smaller


def start_and_join(steps: Sequence[Step]) -> MPI.Intracomm:
    """Run `steps`, a list of functions comm -> comm, from the one that is next for this rank."""
    comm = BACKEND.start()
    done = idle_bcast(comm, 0)
    while True:
        for step in steps[done:]:
            done += 1
            comm = step(comm, done)
        return comm


def expand(hosts: Sequence[str]) -> Step:
    """A step that expands; new ranks go on after it, because rank 0 tells them how far it is."""

    def step(comm: MPI.Intracomm, done: int) -> MPI.Intracomm:
        comm = processes.expand(BACKEND, comm, hosts)
        idle_bcast(comm, done)
        return comm

    return step


def release(leaving: Collection[int]) -> Step:
    return lambda comm, _: shrink(comm, leaving)


def shrink_to_one(hosts: list[str]) -> None:
    comm = start_and_join([release({0, 1, 3})])
    show(comm, pids=pids(comm))


def to_other_processors(hosts: list[str]) -> None:
    """From four starting ranks to two spawned ones: none of the first processors is kept."""
    comm = start_and_join([expand([hosts[-1]] * 2), release({0, 1, 2, 3})])
    show(comm, spawned=comm.allgather(BACKEND.spawned), where=where(comm))


def same_node_again(hosts: list[str]) -> None:
    steps: list[Step] = []
    for _ in range(3):
        steps += [expand([hosts[-1]] * 2), release({1, 2})]
    comm = start_and_join(steps)
    show(comm, where=where(comm))


def open_requests(hosts: list[str]) -> None:
    """Messages that nobody has waited for, and one that is kept, are under way at each resize."""
    kept: list[MPI.Request] = []

    def talk(comm: MPI.Intracomm, done: int) -> MPI.Intracomm:
        comm.isend(comm.rank, dest=(comm.rank + 1) % comm.size)
        kept.append(comm.irecv(source=(comm.rank - 1) % comm.size))
        return comm

    comm = start_and_join([talk, expand([hosts[-1]] * 2), talk, release({0, 2}), talk])
    show(comm, heard=comm.allgather([request.wait() for request in kept]))


def values_of_any_length(hosts: list[str]) -> None:
    """Broadcasts that fit into one message, just do or do not, and that need more; any root."""
    comm = BACKEND.start()
    right = True
    for length in (0, 1, *range(1000, 1020), 100_000):
        for root in range(comm.size):
            sent = "x" * length + str(root)
            right &= idle_bcast(comm, sent if comm.rank == root else None, root) == sent
    show(comm, right=comm.allgather(right))


def no_names_of_shared_memory(hosts: list[str]) -> None:
    """What MPICH shares has no name any more, so that a rank that is killed leaves nothing."""
    comm = start_and_join([expand([hosts[-1]]), release({0})])
    maps = Path("/proc/self/maps").read_text().splitlines()
    mine = [line.split(maxsplit=5)[-1] for line in maps if "mpich_shm" in line]
    named = [path for path in mine if Path(path).exists()]
    show(comm, found=comm.allgather(bool(mine)), named=comm.allgather(named))


def order(hosts: list[str]) -> None:
    """A host named twice, with another in between: ranks stand as named."""
    wanted = [hosts[1], hosts[2], hosts[1], hosts[0]]
    comm = start_and_join([expand(wanted)])
    show(comm, where=where(comm), wanted=wanted)


def expand_with(
    comm: MPI.Intracomm, hosts: list[str], argv: list[str] | None = None, folder: str | None = None
) -> None:
    """Expand as if the program had been started otherwise."""
    words, where = argv or command.program_command(), folder or command.start_folder()
    with (
        patch.object(command, "program_command", lambda: words),
        patch.object(command, "start_folder", lambda: where),
    ):
        processes.expand(BACKEND, comm, [hosts[0]])


def refused(hosts: list[str]) -> None:
    """Every rank hears the same refusal, and the job goes on at its size."""
    comm = BACKEND.start()
    messages = []
    requests: tuple[Callable[[], object], ...] = (
        lambda: expand_with(comm, hosts, ["/no/such/python", "app.py"]),
        lambda: expand_with(comm, hosts, [sys.executable, "missing.py"]),
        lambda: expand_with(comm, hosts, folder="/no/such/folder"),
        lambda: processes.expand(BACKEND, comm, ["n01:4,n02"]),
        lambda: processes.expand(BACKEND, comm, []),
        lambda: BACKEND.shrink(comm, set(range(comm.size))),
        lambda: BACKEND.shrink(comm, {comm.size}),
        lambda: BACKEND.shrink(comm, set()),
    )
    for ask in requests:
        try:
            ask()
        except (SpawnError, ShrinkError) as error:
            messages.append(f"{type(error).__name__}: {error}")
        else:
            messages.append("accepted")
    heard = comm.allgather(messages)
    show(comm, messages=messages, alike=all(other == messages for other in heard))


def never_resized(hosts: list[str]) -> None:
    comm = BACKEND.start()
    show(comm, sum=comm.allreduce(1))


def exit_code(hosts: list[str]) -> Never:
    comm = start_and_join([expand([hosts[0]] * 2), release({0})])
    show(comm)
    raise SystemExit(3 if comm.rank == 1 else 0)


def crash_in_spawned(hosts: list[str]) -> None:
    comm = start_and_join([expand([hosts[0]] * 2), release({1})])
    if comm.rank == comm.size - 1:
        raise RuntimeError("a spawned rank fails")
    comm.barrier()


def crash_in_starting(hosts: list[str]) -> None:
    comm = start_and_join([expand([hosts[0]])])
    if comm.rank == 0:
        raise RuntimeError("a starting rank fails")
    comm.barrier()


def crash_unresized(hosts: list[str]) -> None:
    comm = BACKEND.start()
    if comm.rank == 1:
        raise RuntimeError("one rank fails")
    comm.barrier()


def exit_callbacks(hosts: list[str]) -> None:
    """A leaver's exit callbacks run and its output is not lost."""
    import atexit

    comm = BACKEND.start()
    atexit.register(print, f"callback of rank {comm.rank}")
    comm = shrink(comm, {0})
    show(comm)


def same_command(hosts: list[str]) -> None:
    """Spawned ranks get the interpreter flags, module form and arguments of the first ones."""
    os.chdir("/")
    comm = start_and_join([expand([hosts[0]])])
    mine = (sys.argv[1:], sys.flags.optimize, __name__, bool(sys.modules["__main__"].__spec__))
    show(comm, commands=comm.allgather(mine))


def in_the_background(hosts: list[str]) -> None:
    """The old ranks compute on while two new ones start, and take them in when they are ready."""
    comm = BACKEND.start()
    turns = 0
    if not BACKEND.spawned:
        if comm.rank == 0:
            BACKEND.begin_expand([hosts[-1]] * 2)
        ready = False
        while not ready:
            turns += 1
            time.sleep(0.005)
            ready = idle_bcast(comm, BACKEND.expand_ready() if comm.rank == 0 else None)
        comm = BACKEND.complete_expand(comm)
    turns = idle_bcast(comm, turns)
    show(comm, where=where(comm), turns=turns)


def cancelled(hosts: list[str]) -> None:
    """An expansion is called off, early and late; another one goes well afterwards."""
    comm = BACKEND.start()
    if not BACKEND.spawned:
        if comm.rank == 0:
            BACKEND.begin_expand([hosts[0]])
            BACKEND.cancel_expand()
            BACKEND.begin_expand([hosts[0]])
            while not BACKEND.expand_ready():
                time.sleep(0.005)
            BACKEND.cancel_expand()
            BACKEND.cancel_expand()
            assert not BACKEND.expand_ready()
        comm = processes.expand(BACKEND, comm, [hosts[0]])
    show(comm)


def never_completed(hosts: list[str]) -> None:
    """The job ends first; the new ranks end by themselves."""
    comm = BACKEND.start()
    if comm.rank == 0:
        BACKEND.begin_expand([hosts[0]] * 2)
    show(comm)


def begun_by_a_leaver(hosts: list[str]) -> None:
    """Rank 0 leaves with an expansion under way: that is called off."""
    comm = BACKEND.start()
    if not BACKEND.spawned:
        if comm.rank == 0:
            BACKEND.begin_expand([hosts[0]] * 2)
        comm = processes.expand(BACKEND, shrink(comm, {0}), [hosts[0]])
    show(comm)


def begun_twice(hosts: list[str]) -> None:
    """Only one expansion at a time, and none to complete without one."""
    comm = BACKEND.start()
    messages = []
    if not BACKEND.spawned:
        try:
            BACKEND.complete_expand(comm)
        except SpawnError as error:
            messages.append(str(error))
        if comm.rank == 0:
            BACKEND.begin_expand([hosts[0]])
            try:
                BACKEND.begin_expand([hosts[0]])
            except SpawnError as error:
                messages.append(str(error))
        comm = BACKEND.complete_expand(comm)
    show(comm, messages=messages)


def dead_node(hosts: list[str]) -> None:
    """A node whose agent refuses: the job hears why, goes on, and grows onto a good one."""
    comm = BACKEND.start()
    messages = []
    if not BACKEND.spawned:
        for bad in (["nosuch"], [hosts[1], "nosuch", hosts[1]]):
            try:
                processes.expand(BACKEND, comm, bad)
            except SpawnError as error:
                messages.append(str(error))
        comm = processes.expand(BACKEND, comm, [hosts[1]])
    show(comm, messages=messages, where=where(comm))


def too_late(hosts: list[str]) -> None:
    """A program that does not join in time: refused on every rank, the job goes on."""
    if BACKEND.name == "own":
        from resize_lib.processes import own

        own.ARRIVAL_LIMIT_S = 0.5
    else:
        from resize_lib.processes.hydra import arrivals

        arrivals.ARRIVAL_LIMIT_S = 0.5
    comm = BACKEND.start()
    try:
        expand_with(comm, hosts, [sys.executable, "-c", "import time; time.sleep(2)"])
    except SpawnError as error:
        heard = comm.allgather(str(error))
        show(comm, heard=heard)


if __name__ == "__main__":
    assert MPI.Is_initialized()
    globals()[sys.argv[1]](sys.argv[2:])
