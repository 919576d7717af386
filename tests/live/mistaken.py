"""Programs with a mistake each: `mistaken.py CASE [TURNS]`. The line to be named ends in `HERE`."""

from __future__ import annotations

import os
import random
import sys
import threading
import time

from mpi4py import MPI

import resize_lib

CASE = sys.argv[1]
TURNS = int(sys.argv[2]) if len(sys.argv) > 2 else 60
counted: int  # by a hook
JOINS = os.environ.get("DQ_JOINS") == "1"
world = MPI.COMM_WORLD

if CASE == "joining hangs":
    time.sleep(3600 if JOINS else 0)
if CASE == "joining leaves" and JOINS:
    sys.exit(0)

if CASE == "fails early":
    1 / 0  # noqa: B018 - HERE: fails early
if CASE == "joining fails early" and JOINS:
    raise RuntimeError("no such folder")  # HERE: joining fails early

with resize_lib.session() as rs:
    x = rs.array("x", 4096, init=1.0)
    if CASE == "joining fails" and JOINS:
        raise RuntimeError("no such file")  # HERE: joining fails
    if CASE == "joining leaves in the session" and rs.spawned:
        sys.exit(0)
    if CASE == "unpicklable value":
        rs.value("lock", threading.Lock())
    if CASE == "differing value":
        rs.value("seed", random.SystemRandom().random())
    sums, sent = [0], list[MPI.Request]()
    if CASE == "differing object":
        rs.keep(sums=sums)
    if CASE == "name of a hook":

        @rs.on_resize
        def count(comm: MPI.Intracomm) -> None:
            global counted
            counted = comm.size

        for _ in rs.iterations(TURNS):
            part = 4096 // counted  # HERE: name of a hook
            for _ in rs.iterations(1):
                x.local[:] += 1
                time.sleep(0.05)
        TURNS = 0
    kept, first = x.local, rs.grid.row_comm
    view = kept[1:] if len(kept) else kept
    split: list[MPI.Comm] = []  # HERE: kept split
    dups = CASE == "duplicate of the world" and not rs.spawned
    duplicate = [world.Dup()] if dups else list[MPI.Intracomm]()
    for turn in rs.iterations(2 if CASE == "sent between loops" else TURNS):
        if CASE == "duplicate of the world":
            if duplicate:
                duplicate[0].allreduce(1)  # HERE: duplicate of the world
        elif CASE == "kept split":
            split = split or [rs.comm.Split(0)]
            split[0].allreduce(1)
        elif CASE == "kept and written":
            kept += 1  # HERE: kept and written
        elif CASE == "kept and read":
            total = kept.sum()  # HERE: kept and read
        elif CASE == "view of a kept part":
            view.fill(1)  # HERE: view of a kept part
        elif CASE == "kept communicator":
            first.allreduce(1)  # HERE: kept communicator
        elif CASE == "one leaves the loop" and rs.rank == 1 and turn == 5:
            break
        elif CASE == "one exits" and rs.rank == 1 and turn == 5:
            sys.exit(0)  # HERE: one exits
        elif CASE == "one exits, others communicate":
            if rs.rank == 1 and turn == 5:
                sys.exit(0)  # HERE: one exits, others communicate
            rs.comm.allreduce(1)
        elif CASE == "one sleeps" and rs.rank == 1 and turn == 5:
            time.sleep(3600)  # HERE: one sleeps
        elif CASE == "differing object":
            sums[0] += rs.rank
        elif CASE == "message under way":
            while rs.comm.iprobe(tag=5):
                rs.comm.recv(tag=5)
            to = (rs.rank + 1) % rs.size
            sent.append(rs.comm.isend(turn, to, tag=5))  # HERE: message under way
        elif CASE == "an exception" and rs.rank == 0 and turn == 5:
            raise ValueError("what was expected is not there")  # HERE: an exception
        x.local[:] += 1
        time.sleep(0.05)
    if CASE == "sent between loops":
        rs.comm.reduce(1)  # HERE: sent between loops
        for _ in rs.iterations(TURNS):
            x.local[:] += 1
            time.sleep(0.05)
    total = rs.comm.reduce(float(x.local.sum()))
    if rs.rank == 0:
        print("sum", total, "ranks", rs.size, flush=True)
