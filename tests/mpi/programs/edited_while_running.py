"""A job that grows, whose program is edited meanwhile: `edited.py` beside this file's copy.

    edited_while_running.py HOST...

Run a copy of it, in a folder of its own. Rank 0 prints what each attempt to grow came to, on each
rank that was there.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import edited  # type: ignore[import-not-found]  # the test writes it

from resize_lib.processes import SpawnError, choose_backend, expand

FILE = Path(edited.__file__)
AS_LOADED = FILE.read_bytes()
OTHER = AS_LOADED.replace(b"1", b"2")  # of the same length


def main() -> None:
    hosts = sys.argv[1:]
    backend = choose_backend()
    comm = backend.start()
    told: list[list[str]] = []

    def said(message: str) -> None:
        told.append(comm.allgather(message))

    def attempt() -> str:
        nonlocal comm
        try:
            comm = expand(backend, comm, hosts[:1])
        except SpawnError as error:
            return str(error)
        return "grown"

    if not backend.spawned:
        # Edited before, gone, and edited while the new ranks start, after they have loaded it.
        if comm.rank == 0:
            FILE.write_bytes(OTHER)
        said(attempt())
        if comm.rank == 0:
            FILE.unlink()
        said(attempt())
        if comm.rank == 0:
            FILE.write_bytes(OTHER)
            FILE.write_bytes(AS_LOADED)
            backend.begin_expand(hosts[:1])
            while not backend.expand_ready():
                time.sleep(0.01)
            FILE.write_bytes(OTHER)
        try:
            comm = backend.complete_expand(comm)
            said("grown")
        except SpawnError as error:
            said(str(error))
        if comm.rank == 0:
            FILE.write_bytes(AS_LOADED)
        comm.Barrier()
        attempt()  # the new rank comes to the line below
    versions = comm.allgather(edited.VERSION)
    if comm.rank == 0:
        print(json.dumps({"told": told, "versions": versions}), flush=True)


if __name__ == "__main__":
    main()
