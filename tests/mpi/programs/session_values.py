"""A session whose value cannot be pickled at first, and cannot be unpickled by joining ranks next.

    mpiexec -n 2 python session_values.py

Expands twice in vain and once with success, then shrinks with a value that nothing can pickle.
What the session reports is printed line by line, at the end an object with the sizes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Never

import resize_lib
from resize_lib import resize
from tests.mpi.programs.session_script import Script, ScriptedLink, scripted

if TYPE_CHECKING:
    from resize_lib.declared.packed import Value


class Closed:
    """Can be pickled, and not be unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (opened, ())


def opened() -> Never:
    raise RuntimeError("no key in this process")


def script() -> Script:
    found = Script(2, ["localhost"])
    found.expand(found.free[:2], 2, 2, works=False)
    found.expand(found.free[:2], 2, 2, works=False)
    found.expand(found.free[:2], 2, 2)
    found.shrink([0], 1, 3)
    return found


def main() -> None:
    resize.PATIENT_FROM_S = 0.0
    with resize_lib.session(connect=lambda: ScriptedLink(script()), report_interval_s=0) as rs:
        A = rs.matrix("values of rs.value", 40, 40, block=4, init=lambda i, j: i * 40.0 + j)
        state: Value[Any] = rs.value("state", lambda: "a function of no module")
        sizes: Value[list[int]] = rs.value("sizes", [])
        for _ in rs.iterations():
            assert (A.local == A.rows[:, None] * 40.0 + A.cols[None]).all()
            if sizes.value[-1:] != [rs.size]:
                sizes.value.append(rs.size)
            settled = rs.comm.bcast(scripted(rs).settled if rs.rank == 0 else None)
            if settled == 1 and rs.size == 2:
                state.value = Closed()
            if settled == 2:
                state.value = {"turns": rs.step}
            if settled == 3 and rs.size == 4:
                assert state.value["turns"] <= rs.step, "joining ranks have rank 0's value"
                state.value = lambda: "again"  # nobody joins any more: not a reason to fail
            if rs.comm.bcast(rs.rank == 0 and scripted(rs).finished(rs._session.job.resize_id)):
                break
        if rs.rank == 0:
            print(json.dumps({"sizes": sizes.value}), flush=True)


if __name__ == "__main__":
    main()
