"""An evolving application that asks for what the command line says, and checks its data.

Each word is STEP:+N[:TIMEOUT], a request, or STEP:-N, a release of N; STEP:-first gives back the
processor of rank 0. After the last word is carried out or rejected it goes on for a few turns.
"""

import json
import sys
import time

import numpy as np

import resize_lib

ITEMS = 1000


def ask(rs, what):
    """Returns the answer to one word."""
    if what == "-first":
        return rs.release(rs.processors[:1])
    if what.startswith("-"):
        return rs.release(int(what[1:]))
    more, _, timeout = what[1:].partition(":")
    return rs.request(int(more), timeout_s=float(timeout or 0))


def main() -> int:
    script = dict(word.split(":", 1) for word in sys.argv[1:])
    last = max(map(int, script))
    with resize_lib.session(checksums=True) as rs:
        data = rs.array("data", ITEMS, init=lambda i: 3.0 * i)
        turns = rs.value("turns", 0)
        done = rs.value("done", -1)  # turn of the last resize or rejection
        for step in rs.iterations(2000):
            turns.value += 1
            data.local[...] += 1.0
            if str(step) in script:
                before = rs.size
                answer = ask(rs, script[str(step)])
                if rs.rank == 0:
                    note = {"step": step, "size": before, "what": answer.what,
                            "in_s": answer.available_in_s, "reason": answer.reason}  # fmt: skip
                    print(json.dumps(note), flush=True)
            pending = rs.asked is not None and rs.asked.what != "rejected"
            if step >= last and not pending and done.value < 0:
                done.value = step
            if done.value >= 0 and step >= done.value + 3:
                break
            time.sleep(0.02)
        expected = 3.0 * data.indices + turns.value
        good = rs.comm.allreduce(int(np.array_equal(data.local, expected)))
        if rs.rank == 0:
            end = {"end": good == rs.size, "size": rs.size, "processors": list(rs.processors)}
            print(json.dumps(end), flush=True)
        return 0 if good == rs.size else 1


if __name__ == "__main__":
    sys.exit(main())
