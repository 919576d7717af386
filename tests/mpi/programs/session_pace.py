"""Turns of 1 ms that become 40 times as long, and short again; what rank 0 reports of them.

    mpiexec -n SIZE python session_pace.py

Rank 0 prints an object: for each report its loop, its turns, their mean time, and when it came;
after which turn each kind of turns ended, and the ranks' counts of remap points.
"""

from __future__ import annotations

import json
import time
from typing import Any

import resize_lib
from dq_client.base import messages as m
from tests.mpi.programs.session_script import Script, ScriptedLink

REPORTS: list[tuple[str, int, float, float]] = []


class Link(ScriptedLink):
    shares = True

    def remap(self, point: m.RemapPoint) -> m.RemapAnswer:
        now_s = time.perf_counter()
        REPORTS.append((point.loop, point.iterations, point.iteration_time_s, now_s))
        return m.RemapAnswer("continue")


def main() -> None:
    found: dict[str, Any] = {}
    with resize_lib.session(connect=lambda: Link(Script(2, ["localhost"]))) as rs:

        @rs.on_resize
        def plan(comm: Any) -> None:
            assert comm.allreduce(1) == rs.size
            time.sleep(1.0 * comm.rank)  # not of the first turn, though the others wait for it

        for name, count, turn_s in (("short", 400, 1e-3), ("long", 8, 40e-3), ("short", 100, 1e-3)):
            found[f"{name} from"] = time.perf_counter()
            for turn in rs.iterations(name=name):
                if turn == count:
                    break
                time.sleep(turn_s * (1 + rs.rank) / rs.size)
                rs.comm.Barrier()
        for _ in rs.iterations(50, name="last"):
            time.sleep(1e-3)
        seqs = rs.comm.gather(rs._session.job.seq)
    if seqs is not None:
        print(json.dumps({"reports": REPORTS, "seqs": seqs, **found}))


if __name__ == "__main__":
    main()
