"""A session under a DQ server that checks all its data at every turn until a file appears.

    dq submit ... -- python -m tests.mpi.programs.session_served STOP_FILE

It prints one JSON object: the sizes it had, and per turn the largest count of open files and the
largest memory (KiB) over the ranks.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import resize_lib
from tests.mpi.programs.session_data import Everything

if TYPE_CHECKING:
    from resize_lib.declared.packed import Value


def main() -> None:
    stop = Path(sys.argv[1])
    with resize_lib.session() as rs:
        data = Everything(rs)
        sizes: Value[list[int]] = rs.value("sizes", [])
        for _ in rs.iterations():
            data.check()
            data.check_survivors()
            if sizes.value[-1:] != [rs.size]:
                sizes.value.append(rs.size)
            data.mark()
            if rs.comm.bcast(stop.exists() if rs.rank == 0 else None):
                break
            data.advance()
            time.sleep(0.05)
        if rs.rank == 0:
            told = {"sizes": sizes.value, "marks": data.known.value["marks"]}
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
