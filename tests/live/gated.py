"""A program as it stands, which waits after some of its iterations until it may go on.

gated.py FOLDER TURN,TURN... PROGRAM ARG...

Rank 0 says that it is there by a file at-TURN in FOLDER, and waits for go-TURN, when an order to
resize the job has been given. Then each iteration takes twice as long as the one before until that
has been done: the server answers when it can, and is not asked more than 20 times a second.
"""

from __future__ import annotations

import runpy
import sys
import time
from pathlib import Path

from resize_lib import jobsession, resize, runtime

FOLDER = Path(sys.argv[1])
PAUSE_S_MAX = 1.0  # the resize may have been refused
GATES = {int(iteration) for iteration in sys.argv[2].split(",")}


class GatedRuntime(runtime.Runtime):
    """Counts its iterations, in whichever loop."""

    made = 0
    gated = (0, 0)  # the grid at the gate passed last
    pause_s = 0.0

    def iteration_ends(self, elapsed_s: float, *, last: bool) -> None:
        """Wait at a gate, then as always. Ranks that join become rank 0 only after the last one."""
        self.made += 1
        if not self.spawned and self.rank == 0 and self.made in GATES:
            (FOLDER / f"at-{self.made}").touch()
            while not (FOLDER / f"go-{self.made}").exists():
                time.sleep(0.01)
            self.gated, self.pause_s = (self.grid.rows, self.grid.cols), 0.05
        if self.gated == (self.grid.rows, self.grid.cols):
            time.sleep(self.pause_s)
            self.pause_s = min(2 * self.pause_s, PAUSE_S_MAX)
        super().iteration_ends(elapsed_s, last=last)


if __name__ == "__main__":
    resize.PATIENT_FROM_S = 0.0  # no iteration goes by while ranks that join come up
    jobsession.Runtime = GatedRuntime  # type: ignore[attr-defined]
    sys.argv = sys.argv[3:]
    runpy.run_path(sys.argv[0], run_name="__main__")
