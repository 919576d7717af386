"""An example of docs/ as it stands, resized by script.

mpiexec -n 2 python session_example.py MOVES FILE [ARG] HOST...
"""

from __future__ import annotations

import runpy
import sys
from functools import partial

import resize_lib
from dq_client.base import messages as m
from resize_lib import resize
from tests.mpi.programs.session_script import Script, ScriptedLink, random_moves


class Link(ScriptedLink):
    def __init__(self, script: Script) -> None:
        super().__init__(script)

    def remap(self, point: m.RemapPoint) -> m.RemapAnswer:
        if point.seq % 4:  # a solver shall get somewhere in between
            return m.RemapAnswer("continue", point.preparing)
        self.step = None
        return super().remap(point)


def main() -> None:
    moves, example, arg, *hosts = sys.argv[1:]
    resize.PATIENT_FROM_S = 0.0
    script = random_moves(5, int(moves), 2, hosts)
    resize_lib.session = partial(
        resize_lib.session, connect=lambda: Link(script), report_interval_s=0
    )
    sys.argv = [example, arg]
    runpy.run_path(example, run_name="__main__")


if __name__ == "__main__":
    main()
