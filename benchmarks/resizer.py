"""A job for benchmarks.loss: one process that plays an application of several sizes.

It comes to a remap point every few milliseconds and carries out every resize it is told to, in name
only. What it takes for its size must always be what the server takes for it: if the server refuses
a remap point for another reason than its own absence, the job fails.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from dq_client import messages as m
from dq_client.errors import DQError, NoServer
from resize_lib.server_link import ServerLink

TURN_S = 0.02
WITHIN_S = 0.3


def main() -> int:
    """Resize until killed."""
    with Path(os.environ["LEDGER"]).open("a") as ledger:
        ledger.write(f"{os.environ['DQ_JOB_ID']} {os.getpid()}\n")
    line = ServerLink.from_environment()._connection  # its own patience is longer than a benchmark
    size, seq, done = 1, 0, 0
    while True:
        time.sleep(TURN_S)
        seq += 1
        try:
            answer = line.call(m.RemapPoint(seq, size, done, TURN_S / size), WITHIN_S)
        except NoServer:
            continue
        except DQError as e:
            print(f"refused at size {size}, resize {done}: {e}", file=sys.stderr)
            return 1
        assert isinstance(answer, m.RemapAnswer)
        if answer.what == "continue":
            continue
        size, done = answer.rows * answer.cols, answer.resize_id
        try:
            line.call(m.Committed(done), WITHIN_S)
        except DQError:
            continue  # the next remap point makes up for it


if __name__ == "__main__":
    sys.exit(main())
