"""Survivors on machines that do not see each other's memory choose a copy and read it.

`python copies_apart.py FOLDER DEAD DAMAGE...`: four ranks on nodes n0 to n3, two a machine, as many
as DEAD names are dead. DAMAGE: NUMBER:NODE:WHAT, WHAT being a part or `manifest`, on every node if
NODE is `*`. Rank 0 of the survivors prints what they found, as JSON, and what they left.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

from dq_client.base.private import make_private
from resize_lib.descriptors import Block1D, ProcessGrid
from resize_lib.protection import generations
from resize_lib.protection.chosen import CopyMemory, Parts, newest, settle
from resize_lib.protection.generations import Copy
from resize_lib.protection.partfile import ArrayBlock, write_part

JOB, INSTANCE, ITEMS = 7, 2, 1000
GRID = ProcessGrid(1, 4)
DESC = Block1D(ITEMS)


def machine(node: int) -> str:
    return f"m{node // 2}"


def folder_on(root: Path, node: int, number: int) -> Path:
    return root / machine(node) / f"n{node}" / str(JOB) / f"{INSTANCE}.{number}"


def write(root: Path, number: int) -> None:
    """A copy, each part on its node and on the next; its items tell its number."""
    found = []
    for rank in range(4):
        block = ArrayBlock(DESC, DESC.global_indices(GRID, rank) + number * 0.5)
        for node in (rank, (rank + 1) % 4):
            path = generations.part_path(folder_on(root, node, number), rank)
            make_private(path.parent, below=root)
            about = write_part(path, GRID, rank, {"A": block}, sync=False)
        found.append(about)
    for node in range(4):
        copy = Copy(folder_on(root, node, number), ((0, 10 * number),), GRID, tuple(found))
        generations.write_manifest(copy, sync=False)


def damage(root: Path, text: str) -> None:
    number, wanted, what = text.split(":")
    for node in range(4):
        folder = folder_on(root, node, int(number))
        path = folder / "manifest" if what == "manifest" else folder / f"part-{int(what):05}"
        if wanted not in ("*", f"n{node}") or not path.exists():
            continue
        if what == "manifest":
            path.unlink()
        else:
            data = bytearray(path.read_bytes())
            data[-1] ^= 1
            path.write_bytes(data)


def main() -> None:
    root, dead = Path(sys.argv[1]), [int(word) for word in sys.argv[2].split(",") if word]
    world = MPI.COMM_WORLD
    if world.rank == 0:
        for number in (4, 5):
            write(root, number)
        for text in sys.argv[3:]:
            damage(root, text)
    world.Barrier()
    if world.rank in dead:
        return
    alive = [rank for rank in range(world.size) if rank not in dead]
    comm = world.Create_group(world.Get_group().Incl(alive))
    memory = CopyMemory(root / machine(world.rank), JOB, f"n{world.rank}", INSTANCE)
    chosen, _ = newest(comm, memory)
    found = None
    if chosen is not None:
        settle(memory, chosen, leads=True)
        seen = sum(memory.folder(host).exists() for host in ("n0", "n1", "n2", "n3"))
        with Parts(comm, memory, chosen) as parts:
            parts.fetch([0])
            parts.fetch(range(comm.rank, 4))
            items = [parts(part).array("A").copy() for part in range(comm.rank, 4)]
        here = [path.name for path in generations.complete_copies(memory.folder(memory.host))]
        found = np.concatenate(items).tolist(), here, seen
    everything = comm.gather(found)
    if everything is None:
        return
    step = chosen.copy.loops[0][1] if chosen is not None else None
    right = step is not None and all(
        items == [k + step / 20 for k in range(rank * 250, ITEMS)]
        for rank, (items, _, _) in enumerate(everything)
    )
    left = [rest[1] for rest in everything if rest]
    hosts = [rest[2] for rest in everything if rest]
    print(json.dumps({"step": step, "right": right, "left": left, "seen": hosts}))


if __name__ == "__main__":
    main()
