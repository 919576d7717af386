"""Copies in memory, as the survivors of a loss see them without having been restarted.

Every part lies on its own node and on the next one, under MEMORY/NODE/JOB. A rank sees the folders
of its machine, also those of nodes that the job has left; all of them together choose the newest
copy of which a sound file is left for every part. A rank that needs a part which its machine does
not have gets the file from one that sees it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

from dq_client.base import private
from resize_lib import tags
from resize_lib.descriptors import ProcessGrid
from resize_lib.protection import generations
from resize_lib.protection.generations import Copy
from resize_lib.protection.partfile import Part, checksum_of, open_part
from resize_lib.protection.state import ProtectionError
from resize_lib.redistribution.agreement import gather_texts
from resize_lib.redistribution.messages import pieces_of
from resize_lib.waiting import wait_all


@dataclass(frozen=True, slots=True)
class CopyMemory:
    """What ranks may see of a job's copies. `host`: this rank's node."""

    root: Path
    job: int
    host: str

    def folder(self, host: str) -> Path:
        """Of a node."""
        return self.root / host / str(self.job)

    def hosts(self) -> list[str]:
        """Nodes whose memory this rank sees."""
        return sorted(path.parent.name for path in self.root.glob(f"*/{self.job}"))


@dataclass(frozen=True, slots=True)
class Chosen:
    """A sound copy. For each part: the node whose file it is, and a rank that sees it."""

    copy: Copy
    files: tuple[tuple[str, int], ...]


def choose_in_memory(comm: MPI.Intracomm, memory: CopyMemory, instance: int) -> Chosen | None:
    """The newest sound copy that this start of the job made; collective. None: there is none."""
    seen = [json.loads(text) for text in gather_texts(comm, json.dumps(_seen(memory, instance)))]
    manifests = {name: text for rank in seen for name, text in rank["manifests"].items()}
    for name in sorted(manifests, key=_number, reverse=True):
        copy = _read(json.loads(manifests[name]), memory.folder(memory.host) / name)
        places: list[dict[str, list[int]]] = [{} for _ in copy.parts]
        for rank, by_name in enumerate(seen):
            for host, parts in by_name["parts"].get(name, {}).items():
                for part in parts:
                    if part < len(places):
                        places[part].setdefault(host, []).append(rank)
        files = _sound(comm, memory, copy, places)
        if files is not None:
            return Chosen(copy, files)
    return None


def _number(name: str) -> tuple[int, ...]:
    return tuple(map(int, name.split(".")))


def _seen(memory: CopyMemory, instance: int) -> dict[str, Any]:
    """Manifests and parts of all copies that this rank sees."""
    manifests: dict[str, str] = {}
    parts: dict[str, dict[str, list[int]]] = {}
    for host in memory.hosts():
        for folder in memory.folder(host).glob(f"{instance}.*"):
            with suppress(OSError, ProtectionError, ValueError):
                private.check_private(folder, below=memory.root.parent)
                there = sorted(int(p.name.split("-")[1]) for p in folder.glob("part-*"))
                parts.setdefault(folder.name, {})[host] = there
                if folder.name not in manifests:
                    copy = generations.read_copy(folder)
                    about = [copy.loops, copy.grid.rows, copy.grid.cols, copy.parts]
                    manifests[folder.name] = json.dumps(about)
    return {"manifests": manifests, "parts": parts}


def _read(about: Any, folder: Path) -> Copy:
    loops, rows, cols, parts = about
    grid = ProcessGrid(rows, cols)
    return Copy(
        folder, generations.position_of(loops), grid, tuple((size, total) for size, total in parts)
    )


def _sound(
    comm: MPI.Intracomm, memory: CopyMemory, copy: Copy, places: list[dict[str, list[int]]]
) -> tuple[tuple[str, int], ...] | None:
    """A file for each part whose checksum is right; None if one has none. Each rank checks some."""
    left = [sorted(by_host.items()) for by_host in places]
    files: dict[int, tuple[str, int]] = {}
    unknown = set(range(len(places)))
    while unknown:
        if not all(left[part] for part in unknown):
            return None
        wrong = []
        for part in sorted(unknown):
            host, ranks = left[part].pop(0)
            files[part] = host, ranks[part % len(ranks)]
            if files[part][1] == comm.rank:
                path = generations.part_path(memory.folder(host) / copy.folder.name, part)
                with suppress(OSError):
                    if checksum_of(path) == copy.parts[part]:
                        continue
                wrong.append(part)
        unknown = {p for text in gather_texts(comm, json.dumps(wrong)) for p in json.loads(text)}
    return tuple(files[part] for part in range(len(places)))


class Parts:
    """The files of a chosen copy as one rank reads them; a context that ends when they are read."""

    def __init__(self, comm: MPI.Intracomm, memory: CopyMemory, chosen: Chosen) -> None:
        self._comm, self._chosen = comm, chosen
        name = chosen.copy.folder.name
        self._paths = [
            generations.part_path(memory.folder(host) / name, part)
            for part, (host, _) in enumerate(chosen.files)
        ]
        self._open: dict[int, Part] = {}
        self._descriptors = ExitStack()

    def __enter__(self) -> Parts:
        return self

    def __exit__(self, *_: object) -> None:
        self._descriptors.close()

    def __call__(self, part: int) -> Part:
        """One part, which this machine has or which was fetched."""
        if part not in self._open:
            self._open[part] = open_part(self._paths[part])
        return self._open[part]

    def are_here(self) -> bool:
        """Whether every rank sees all parts; collective."""
        seen = all(path.exists() for path in self._paths)
        return all(text == "1" for text in gather_texts(self._comm, "1" if seen else "0"))

    def fetch(self, parts: Iterable[int]) -> None:
        """Get those of the parts that this rank does not see; collective."""
        missing = sorted(part for part in set(parts) if not self._paths[part].exists())
        wishes = [json.loads(text) for text in gather_texts(self._comm, json.dumps(missing))]
        arriving: dict[int, np.memmap[Any, Any]] = {}
        requests: list[MPI.Request] = []
        for part in missing:
            size, owner = self._chosen.copy.parts[part][0], self._chosen.files[part][1]
            fd = os.memfd_create("dq-part", os.MFD_CLOEXEC)
            self._descriptors.callback(os.close, fd)
            os.ftruncate(fd, size)
            self._paths[part] = Path(f"/proc/self/fd/{fd}")
            arriving[part] = np.memmap(self._paths[part], np.uint8, "r+")
            pieces = pieces_of(arriving[part])
            requests += [
                self._comm.Irecv([piece, MPI.BYTE], owner, tags.FETCHED_COPY) for piece in pieces
            ]
        for rank, wanted in enumerate(wishes):
            for part in wanted:
                if self._chosen.files[part][1] == self._comm.rank:
                    pieces = pieces_of(np.memmap(self._paths[part], np.uint8, "r"))
                    requests += [
                        self._comm.Isend([piece, MPI.BYTE], rank, tags.FETCHED_COPY)
                        for piece in pieces
                    ]
        wait_all(requests)


def settle(memory: CopyMemory, chosen: Chosen, *, leads: bool) -> None:
    """Leave the chosen copy, complete, as the newest on this rank's node, if that has it.

    A loss may come while manifests are written, and then some nodes have one and some do not: they
    must not differ on which copies to keep when the next one is made.
    """
    copy, here = chosen.copy, memory.folder(memory.host)
    if not leads or not here.is_dir():
        return
    for folder in generations.complete_copies(here):
        if _number(folder.name) > _number(copy.folder.name):
            (folder / generations.MANIFEST).unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
    mine = here / copy.folder.name
    if mine.is_dir() and not (mine / generations.MANIFEST).exists():
        with suppress(OSError):  # then the copy is complete on other nodes
            generations.write_manifest(replace(copy, folder=mine), sync=False)
