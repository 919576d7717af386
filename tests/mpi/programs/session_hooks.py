"""Functions declared with `rs.on_resize`, under resizes by script: who calls them, and when.

    python session_hooks.py MOVES HOST...

Each rank prints one line for each call, and rank 0 one for each remap point.
"""

from __future__ import annotations

import json
import os
import sys
import time

from mpi4py import MPI

import resize_lib
from dq_client.base import messages as m
from resize_lib import resize
from tests.mpi.programs.session_script import Script, ScriptedLink, random_moves, scripted

HOOK_S = 0.5


class Link(ScriptedLink):
    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self.step = None

    def remap(self, point: m.RemapPoint) -> m.RemapAnswer:
        print(json.dumps({"turn": point.iteration_time_s, "size": point.processors}), flush=True)
        return super().remap(point)

    def tell(self, body: m.Committed | m.Aborted) -> None:
        self.settled = body.resize_id


def main() -> None:
    moves, *hosts = sys.argv[1:]
    script = random_moves(3, int(moves), 2, hosts)
    resize.PATIENT_FROM_S = 0.0
    with resize_lib.session(connect=lambda: Link(script), report_interval_s=0) as rs:
        x = rs.array("x", 100, init=lambda i: i * 1.0)
        ring: list[MPI.Intracomm] = []

        @rs.on_resize
        def halo(comm: MPI.Intracomm) -> None:
            ring[:] = [comm.Create_cart([comm.size], [True])]
            print(json.dumps({"hook": "halo", "pid": os.getpid(), "size": comm.size}), flush=True)

        @rs.on_resize
        def plan(comm: MPI.Intracomm) -> None:
            assert ring[0].size == comm.size, "called in the order of their declarations"
            time.sleep(HOOK_S * (comm.rank == comm.size - 1))
            print(json.dumps({"hook": "plan", "pid": os.getpid(), "size": comm.size}), flush=True)

        for _ in rs.iterations():
            assert ring[0].size == rs.size, "a turn with what was made for other ranks"
            assert rs.comm.allreduce(x.local.sum()) == 4950.0
            if rs.comm.bcast(rs.rank == 0 and scripted(rs).finished(rs._session.job.resize_id)):
                break


if __name__ == "__main__":
    main()
