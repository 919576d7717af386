"""A plain worker: takes tasks (files) out of a folder, and puts back what it has not finished.

python crewing.py FOLDER     FOLDER/todo/N becomes FOLDER/done/N, which holds N * N
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path


class Leave(BaseException):
    """The scheduler wants the processor back."""


def leave(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is on its way
    raise Leave


def main(folder: Path) -> None:
    mine = folder / "doing" / os.environ["DQ_WORKER"]
    signal.signal(signal.SIGTERM, leave)
    try:
        while True:
            tasks = sorted(file.name for file in (folder / "todo").iterdir())
            for task in tasks[:1]:
                try:
                    (folder / "todo" / task).rename(mine)
                except FileNotFoundError:  # another one was faster
                    continue
                time.sleep(0.2)
                mine.write_text(str(int(task) ** 2))
                mine.rename(folder / "done" / task)
            if not tasks:
                if (folder / "over").exists():
                    return
                time.sleep(0.05)
    except Leave:
        if mine.exists():
            mine.rename(folder / "todo" / task)
        sys.exit(0)


main(Path(sys.argv[1]))
