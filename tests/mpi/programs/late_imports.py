"""A job that grows twice; its new ranks tell what they imported once others waited for them.

    late_imports.py PATH HOST...      PATH as in session_resizes.py

Each prints the modules that it loaded between its report to the job and its second turn.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from mpi4py import MPI

import resize_lib
from resize_lib import resize
from resize_lib.processes import choose_backend
from tests.mpi.programs.session_script import Script, ScriptedLink

BACKEND: Any = choose_backend()


def main() -> None:
    path, *hosts = sys.argv[1:]
    resize.PATIENT_FROM_S = 0.0 if path == "patient" else 1e9
    script = Script(2, hosts)
    script.expand(script.free[:2], 2, 2)
    script.expand(script.free[:1], 5, 1)
    script.shrink([0, 3], 1, 3)
    note_at_arrival()
    with resize_lib.session(connect=lambda: ScriptedLink(script), report_interval_s=0) as rs:
        rs.matrix("A", 500, 400, block=64, init=lambda i, j: i * 1.0 + j)
        rs.array("B", 1000, layout="cyclic", init=1.0)
        rs.array("C", 1000, layout="weighted", weights=[1.0, 2.0, 3.0, 4.0, 5.0])
        rs.value("V", {"a": 1})
        for _ in rs.iterations():
            rs.comm.allreduce(1)
            BACKEND.turns += 1
            if rs.spawned and BACKEND.turns == 2:
                late = sorted(set(sys.modules) - BACKEND.before)
                print(json.dumps({"late": late}), flush=True)
            if rs._session.job.resize_id == 3:
                break


def note_at_arrival() -> None:
    """Keep the modules that are loaded when this rank reports: on an object that is no state."""
    BACKEND.before, BACKEND.turns = set[str](), 0
    found: set[str] = BACKEND.before
    told: Any = BACKEND.join

    def join(reserve: Any = None) -> MPI.Intracomm:
        found.update(sys.modules)
        comm: MPI.Intracomm = told(reserve)
        return comm

    BACKEND.join = join


if __name__ == "__main__":
    main()
