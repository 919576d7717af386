"""Task farms without resizes: balance, errors, results.

    mpiexec -n SIZE python session_farm.py

Rank 0 prints an object.
"""

from __future__ import annotations

import json
import os
import time

import resize_lib

DONE: list[int] = []  # by this rank


def nap(task: tuple[int, float]) -> tuple[int, int]:
    time.sleep(task[1])
    DONE.append(task[0])
    return task[0], os.getpid()


def picky(number: int) -> object:
    if number == 13:
        raise ArithmeticError("thirteen")
    return (lambda: number) if number == 50 else number


def main() -> None:
    with resize_lib.session() as rs:
        # Rank 0 is given the long one.
        results = rs.map(nap, [(k, 0.6 if k == 0 else 0.02) for k in range(40)])
        counts = rs.comm.gather(sorted(DONE))
        errors = list[object]()
        for tasks in ([1, 13, 2], [50, 3], range(-1, -300, -1)):
            try:
                errors.append(len(rs.map(picky, tasks)))
            except resize_lib.TaskError as e:
                errors.append([e.index, str(e), type(e.__cause__).__name__])
        try:
            rs.map(picky, range(3 + rs.rank))
        except ValueError as e:
            errors.append(str(e))
        same = rs.comm.gather(results)
        told = rs.comm.gather(errors)
        empty = rs.map(picky, iter(()))
        nested = [sum(rs.map(abs, (turn, -turn))) for turn in rs.iterations(3)]
        if rs.rank == 0:
            found = {
                "tasks": [k for k, _ in results],
                "ranks": len({pid for _, pid in results}),
                "same": same is not None and all(other == results for other in same),
                "counts": counts,
                "errors": told,
                "empty": list(empty),
                "nested": nested,
            }
            print(json.dumps(found))


if __name__ == "__main__":
    main()
