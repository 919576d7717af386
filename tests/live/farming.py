"""A task farm of a protected job whose rank dies in one task: `python farming.py FOLDER`.

Each task leaves a file that is named by the start of the job and the task; rank 0 prints the sum.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import resize_lib

TASKS = 120
FATAL = 90


def main() -> int:
    folder, life = Path(sys.argv[1]), os.environ["DQ_JOB_INSTANCE"]

    def task(number: int) -> int:
        if number == FATAL and life == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        (folder / f"{life}-{number}").touch()
        time.sleep(0.03)
        return number * number

    with resize_lib.session() as rs:
        before = rs.map(abs, range(-5, 0))
        squares = rs.map(task, range(TASKS))
        for turn in rs.iterations(2):
            assert before[turn] == 5 - turn
        if rs.rank == 0:
            print(sum(squares), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
