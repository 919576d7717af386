"""The copy that all ranks go on from, after a restart or in place, and how each gets its files.

A node may see all parts of a copy (in a folder that nodes share) or some only: in memory each part
lies on its own node and on the next one, and agents save what their nodes had to a folder that may
be each machine's own. So all ranks say what they see, and choose the newest copy of which a sound
file is left for every part. A rank that needs a part which its machine does not have gets the file
from one that sees it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from mpi4py import MPI

from dq_client.base import private
from resize_lib import tags
from resize_lib.descriptors import ProcessGrid
from resize_lib.protection import generations
from resize_lib.protection.generations import Copy
from resize_lib.protection.partfile import PartHeader, open_part
from resize_lib.protection.state import ProtectionError
from resize_lib.redistribution.agreement import gather_texts
from resize_lib.redistribution.messages import pieces_of
from resize_lib.waiting import wait_all


class Stored(Protocol):
    """Folders of a job's copies as one rank sees them."""

    @property
    def host(self) -> str:
        """The rank's own node."""

    def folder(self, host: str) -> Path:
        """Of a node."""

    def copies(self) -> dict[str, list[Path]]:
        """Folders of single copies that this rank sees, by node."""

    def check(self, folder: Path) -> None:
        """OSError or ProtectionError if others may have written this copy."""


@dataclass(frozen=True, slots=True)
class CopyMemory:
    """In memory, under ROOT/NODE/JOB: those of this start of the job, also of nodes it has left."""

    root: Path
    job: int
    host: str
    instance: int

    def folder(self, host: str) -> Path:
        return self.root / host / str(self.job)

    def hosts(self) -> list[str]:
        """Nodes whose memory this rank sees."""
        return sorted(path.parent.name for path in self.root.glob(f"*/{self.job}"))

    def copies(self) -> dict[str, list[Path]]:
        return {host: list(self.folder(host).glob(f"{self.instance}.*")) for host in self.hosts()}

    def check(self, folder: Path) -> None:
        private.check_private(folder, below=self.root.parent)


@dataclass(frozen=True, slots=True)
class CopyDisk:
    """On disk, of all starts of the job. `host`: a name of the machine."""

    path: Path
    host: str

    def folder(self, host: str) -> Path:  # noqa: ARG002 - the same path on each machine
        return self.path

    def copies(self) -> dict[str, list[Path]]:
        return {self.host: generations.copies(self.path)}

    def check(self, folder: Path) -> None:
        generations.check_private(folder)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A sound copy. For each part: the node whose file it is, and a rank that sees it."""

    copy: Copy
    files: tuple[tuple[str, int], ...]


NOTHING: dict[str, Any] = {"about": {}, "damaged": {}, "parts": {}}


def newest(
    comm: MPI.Intracomm, stored: Stored, *, waits: bool = False
) -> tuple[Chosen | None, list[str]]:
    """The newest sound copy, and what is wrong with newer ones; collective.

    waits: a copy that lacks a part is not passed over; its error is the last then (`is_absence`)
    """
    hosts = gather_texts(comm, stored.host)
    mine = _seen(stored) if hosts.index(stored.host) == comm.rank else NOTHING  # all there see it
    seen = [json.loads(text) for text in gather_texts(comm, json.dumps(mine))]
    about = {name: text for rank in seen for name, text in rank["about"].items()}
    damaged = {name: text for rank in seen for name, text in rank["damaged"].items()}
    wrong = list[str]()
    for name in sorted(about.keys() | damaged.keys(), key=generations.order, reverse=True):
        if name not in about:
            wrong.append(damaged[name])
            continue
        copy = _read(about[name], stored.folder(stored.host) / name)
        places: list[dict[str, list[int]]] = [{} for _ in copy.parts]
        for rank, found in enumerate(seen):
            for host, parts in found["parts"].get(name, {}).items():
                for part in parts:
                    if part < len(places):
                        places[part].setdefault(host, []).append(rank)
        files, why = _sound(comm, stored, copy, places, hosts)
        if files is not None:
            return Chosen(copy, files), wrong
        wrong.append(why)
        if waits and is_absence(why):
            break
    return None, wrong


def is_absence(why: str) -> bool:
    """Whether a copy was not taken because a part of it is nowhere."""
    return why.endswith(os.strerror(2))


def _seen(stored: Stored) -> dict[str, Any]:
    """Of all copies that this rank sees: what their manifests say, and which parts there are."""
    about, damaged = dict[str, Any](), dict[str, str]()
    parts: dict[str, dict[str, list[int]]] = {}
    for host, folders in stored.copies().items():
        for folder in folders:
            try:
                stored.check(folder)
                there = sorted(int(p.name.split("-")[1]) for p in folder.glob("part-*"))
                parts.setdefault(folder.name, {})[host] = there
                if folder.name not in about and (folder / generations.MANIFEST).exists():
                    copy = generations.read_copy(folder)
                    grid = [copy.grid.rows, copy.grid.cols]
                    about[folder.name] = [copy.loops, copy.lengths, grid, copy.parts]
            except (OSError, ProtectionError, ValueError) as e:
                damaged[folder.name] = str(e)
    return {"about": about, "damaged": damaged, "parts": parts}


def _read(about: Any, folder: Path) -> Copy:
    loops, lengths, grid, parts = about
    position = generations.position_of(loops)
    of_ranks = tuple((size, total) for size, total in parts)
    return Copy(folder, position, ProcessGrid(*grid), of_ranks, tuple(lengths))


def _sound(
    comm: MPI.Intracomm,
    stored: Stored,
    copy: Copy,
    places: list[dict[str, list[int]]],
    hosts: Sequence[str],
) -> tuple[tuple[tuple[str, int], ...] | None, str]:
    """A file for each part whose checksum is right; or None, and what is wrong with a part.

    Each rank checks some of the files that its node sees.

    places  for each part, by node: the first rank on each node that sees its file there
    hosts   the node of each rank
    """
    together = dict[str, list[int]]()
    for rank, host in enumerate(hosts):
        together.setdefault(host, []).append(rank)
    left = [_turned(sorted(by_host.items()), part) for part, by_host in enumerate(places)]
    files: dict[int, tuple[str, int]] = {}
    wrong = {part: f"{copy.part(part)}: {os.strerror(2)}" for part in range(len(places))}
    while wrong:
        lost = next((part for part in sorted(wrong) if not left[part]), None)
        if lost is not None:
            return None, wrong[lost]
        mine = dict[int, str]()
        for part in sorted(wrong):
            host, ranks = left[part].pop(0)
            there = together[hosts[ranks[part % len(ranks)]]]
            files[part] = host, there[part % len(there)]
            if files[part][1] == comm.rank:
                here = replace(copy, folder=stored.folder(host) / copy.folder.name)
                why = here.check_part(part)
                if why:
                    mine[part] = why
        found = [json.loads(text) for text in gather_texts(comm, json.dumps(mine))]
        wrong = {int(part): why for each in found for part, why in each.items()}
    return tuple(files[part] for part in range(len(places))), ""


def _turned(hosts: list[tuple[str, list[int]]], part: int) -> list[tuple[str, list[int]]]:
    """Another host first for each part, so that every node checks some."""
    first = part % len(hosts) if hosts else 0
    return hosts[first:] + hosts[:first]


class Parts:
    """The files of a chosen copy as one rank reads them; a context that ends when they are read."""

    def __init__(self, comm: MPI.Intracomm, stored: Stored, chosen: Chosen) -> None:
        self._comm, self._chosen = comm, chosen
        name = chosen.copy.folder.name
        self._paths = [
            generations.part_path(stored.folder(host) / name, part)
            for part, (host, _) in enumerate(chosen.files)
        ]
        self._open: dict[int, PartHeader] = {}
        self._descriptors = ExitStack()

    def __enter__(self) -> Parts:
        return self

    def __exit__(self, *_: object) -> None:
        self._descriptors.close()

    def __call__(self, part: int) -> PartHeader:
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


def settle(stored: Stored, chosen: Chosen, *, leads: bool) -> None:
    """Leave the chosen copy, complete, as the newest on this rank's node, if that has it.

    A loss may come while manifests are written, and then some nodes have one and some do not: they
    must not differ on which copies to keep when the next one is made.
    """
    copy, here = chosen.copy, stored.folder(stored.host)
    if not leads or not here.is_dir():
        return
    for folder in generations.complete_copies(here):
        if generations.order(folder.name) > generations.order(copy.folder.name):
            (folder / generations.MANIFEST).unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
    mine = here / copy.folder.name
    if mine.is_dir() and not (mine / generations.MANIFEST).exists():
        with suppress(OSError):  # then the copy is complete on other nodes
            generations.write_manifest(replace(copy, folder=mine), sync=False)
