"""Asks for 1, 2, ... more processors in turn: the program of experiments.dynamic_overhead.

python _asking_app.py MOST ROUNDS: prints a line for each request that was granted
"""

from __future__ import annotations

import json
import sys
import time

import resize_lib

TURN_S = 0.01


def main(most: int, rounds: int) -> None:
    """One more, and back; two more, and back; ..."""
    plan = [more for _ in range(rounds) for more in range(1, most + 1)]
    with resize_lib.session() as rs:
        done = rs.value("done", 0)
        asked = rs.value("asked", (0.0, 0.0))  # when, and how long the answer took
        for _ in rs.iterations():
            free = rs.asked is None or rs.asked.what == "rejected"
            if free and rs.size == 1:
                if done.value == len(plan):
                    break
                begin = time.perf_counter()
                answer = rs.request(plan[done.value])
                # What was given back just now is nobody's only once it is known to be empty.
                if answer.what == "granted":
                    asked.value = begin, time.perf_counter() - begin
            elif free:
                begin, answered_s = asked.value
                if rs.rank == 0:
                    joined_s = time.perf_counter() - begin
                    found = {"more": rs.size - 1, "answered_s": answered_s, "joined_s": joined_s}
                    print(json.dumps(found), flush=True)
                done.value += 1
                rs.release(rs.size - 1)
            time.sleep(TURN_S)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
