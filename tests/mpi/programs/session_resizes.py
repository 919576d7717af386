"""A session that is resized by script and checks all its data at every turn.

    mpiexec -n SIZE python session_resizes.py random:SEED:COUNT|faulty SIZE patient|begun HOST...

"patient": the job waits for its new ranks; "begun": it computes on while they start. What the
session reports is printed line by line, at the end an object with the sizes and marks.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING

import psutil
from mpi4py import MPI

import resize_lib
from harness.ranks import MARK, node_here, processes_of
from resize_lib import resize
from resize_lib.redistribution import arena
from tests.mpi.programs.session_data import Everything
from tests.mpi.programs.session_script import (
    FAULTS,
    Faults,
    Script,
    ScriptedLink,
    faulty_moves,
    random_moves,
    scripted,
)
from tests.open_receive import opened, taken_back

if TYPE_CHECKING:
    from resize_lib.declared.packed import Value
    from resize_lib.jobsession import Session


def main() -> None:
    which, size, path, *hosts = sys.argv[1:]
    faults: Faults
    if which == "faulty":
        script, faults = faulty_moves(int(size), hosts), FAULTS
    else:
        _, seed, count = which.split(":")
        script, faults = random_moves(int(seed), int(count), int(size), hosts), {}
    arena.KEPT_BYTES_MIN = 0
    resize.PATIENT_FROM_S = 0.0 if path == "patient" else 1e9
    with resize_lib.session(connect=lambda: ScriptedLink(script), report_interval_s=0) as rs:
        data = Everything(rs, faults)
        sizes: Value[list[int]] = rs.value("sizes", [])
        unused: Value[int | None] = rs.value("unused", None)
        waiting = MPI.REQUEST_NULL
        for _ in rs.iterations():
            taken_back(waiting)
            data.check()
            data.check_survivors()
            if unused.value is None:  # after the first check: Cartesian arrays keep some
                unused.value = unused_communicators(rs.comm)
            where(rs, script)
            if rs._session.job.resize_id and not faults:  # what is not needed went after the move
                assert rs._session.arena.free_bytes <= rs._session.arena.used_bytes
            if sizes.value[-1:] != [rs.size]:
                sizes.value.append(rs.size)
            data.mark()
            if rs.comm.bcast(rs.rank == 0 and scripted(rs).finished(rs._session.job.resize_id)):
                break
            data.advance()
            time.sleep(0.05)
            waiting = opened(rs.comm)
        ranks = rs.comm.bcast(ranks_in_the_end(rs.size) if rs.rank == 0 else None)
        unused_in_the_end = unused_communicators(rs.comm)
        if rs.rank == 0:
            told = {
                "sizes": sizes.value,
                "marks": data.known.value["marks"],
                "ranks": ranks,
                "unused communicators": [unused.value, unused_in_the_end],
            }
            print(json.dumps(told), flush=True)


def where(rs: Session, script: Script) -> None:
    """The job stands where the last resize that was carried out put it, and on that grid."""
    done = rs._session.job.resize_id
    places = script.moves[done - 1].after if done else script.start
    if done:
        move = script.moves[done - 1]
        assert (rs.grid.rows, rs.grid.cols) == (move.rows, move.cols), done
    assert rs.processors == tuple(p.processor for p in places), (done, rs.processors)
    found = rs.comm.allgather(node_here())
    assert found == [p.host for p in places], (done, found)


def unused_communicators(comm: MPI.Intracomm) -> int:
    """How many communicators MPI could still make in the rank that has the fewest (of 2,048)."""
    made = []
    try:
        while True:
            made.append(MPI.COMM_SELF.Dup())
    except MPI.Exception:
        for each in made:
            each.Free()
    fewest: int = comm.allreduce(len(made), MPI.MIN)
    return fewest


def ranks_in_the_end(size: int, patience_s: float = 5.0) -> int:
    """How many ranks the operating system knows; those that left may take a moment to go."""
    end = time.monotonic() + patience_s
    while True:
        count = sum(map(is_rank, processes_of(os.environ[MARK])))
        if count == size or time.monotonic() > end:
            return count
        time.sleep(0.05)


def is_rank(process: psutil.Process) -> bool:
    try:
        return process.cmdline()[1:2] == sys.argv[:1]
    except psutil.Error:  # it has ended
        return False


if __name__ == "__main__":
    main()
