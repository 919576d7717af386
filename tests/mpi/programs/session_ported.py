"""A program of docs/examples/porting as it stands, resized 1 -> 2 -> 4 -> 2 by script.

session_ported.py SEED TURNS PROGRAM "ARG ARG ..." HOST... ; the seed says after which of its first
TURNS turns. Rank 0 is one of those that leave in the end.
"""

from __future__ import annotations

import random
import runpy
import sys
from collections.abc import Sequence
from functools import partial

import resize_lib
from dq_client.base import messages as m
from resize_lib import resize
from tests.mpi.programs.session_script import Script, ScriptedLink


class Link(ScriptedLink):
    """Each move at its remap point, of those numbered in `at`."""

    def __init__(self, script: Script, at: Sequence[int]) -> None:
        super().__init__(script)
        self.at = at

    def hello(self, processors: int, legal: Sequence[int] = ()) -> m.JobWelcome:
        assert not legal or {1, 2, 4} <= set(legal)
        return super().hello(processors)

    def remap(self, point: m.RemapPoint) -> m.RemapAnswer:
        self.step = None  # a turn's number begins anew with each loop
        done = self.next_id(point.resize_id) - 1
        if not point.preparing and done < len(self.at) and point.seq < self.at[done]:
            return m.RemapAnswer("continue")
        return super().remap(point)


def main() -> None:
    seed, turns, program, args, *hosts = sys.argv[1:]
    resize.PATIENT_FROM_S = 0.0  # the ranks that join come at that very remap point
    script = Script(1, hosts)
    script.expand(script.free[:1], 1, 2)
    script.expand(script.free[:2], 2, 2)
    script.shrink([0, 2], 2, 1)
    at = sorted(random.Random(int(seed)).sample(range(1, int(turns)), 3))
    resize_lib.session = partial(
        resize_lib.session, connect=lambda: Link(script, at), report_interval_s=0
    )
    sys.argv = [program, *args.split()]
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
