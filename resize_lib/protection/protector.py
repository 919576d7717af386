"""The copies of one session: when one is due, how all ranks make it, how it is restored.

A copy is made between two iterations, in the same collective order on every rank: make room, write
the parts, agree that all could be written, send parts to partners, and only then declare the copy
complete. A failure (a full disk, a folder that is gone) leaves the last copy as it was, and the job
goes on and reports it.

How often: as the user said; else so that copies take at most a given share of the time. A copy is
also made before every resize, because a fault in its middle takes the whole job down, and with
partners after it, because parts on nodes that the job has left are out of its reach.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from mpi4py import MPI

from dq_client.base import messages as m
from dq_client.base import private
from dq_client.base.home import machine
from resize_lib.declared.packed import Packed
from resize_lib.descriptors import DescriptorError, ProcessGrid
from resize_lib.loops import Position
from resize_lib.protection import generations, partfile
from resize_lib.protection.chosen import (
    Chosen,
    CopyDisk,
    CopyMemory,
    Parts,
    Stored,
    newest,
    settle,
)
from resize_lib.protection.generations import Copy
from resize_lib.protection.partners import fetch_for_partners, leaders
from resize_lib.protection.recovery import (
    Open,
    choose,
    needed,
    pack_for_itself,
    restore_all,
    together,
)
from resize_lib.protection.state import CopyState, ProtectionError
from resize_lib.redistribution.agreement import gather_texts
from resize_lib.server_link import say
from resize_lib.state.copies import VARIABLES

if TYPE_CHECKING:
    from resize_lib.runtime import Runtime

SHARE_OF_TIME = 1 / 20  # of the run time for copies, unless the user says how often
EXCHANGED = "\0exchanged"  # beside them: the arrays whose ghosts were filled
VALUES = "values of rs.value"  # in rank 0's part; no name of an application has a space before it


class Protector:
    """Makes the copies of one session, and finds them after a restart."""

    def __init__(self, session: Runtime) -> None:
        e = os.environ
        self.session = session
        self.job, self.instance = int(e["DQ_JOB_ID"]), int(e["DQ_JOB_INSTANCE"])
        own = Path(e.get("DQ_HOME", "."), "jobs", str(self.job), "copies")
        self.disk = Path(e.get("DQ_PROTECT_DIR") or own)
        self.memory = e.get("DQ_PROTECT_MEMORY", "")
        self.protects = bool(e.get("DQ_PROTECT"))  # else there are copies for restarts only
        points, seconds = e.get("DQ_PROTECT_POINTS"), e.get("DQ_PROTECT_SECONDS")
        self.every_points = int(points) if points else None
        self.every_s = float(seconds) if seconds else None
        self.share = float(e.get("DQ_PROTECT_BUDGET") or SHARE_OF_TIME)
        made = e.get("DQ_COPIES_MADE")  # only after a restart
        self.made = None if made is None else int(made)
        if session.job.resize_id:  # this start of the job is to go on from a copy
            self.made = max(1, self.made or 0)
        self._last_s = time.monotonic()

    @property
    def state(self) -> CopyState:
        """Shared by all ranks."""
        return self.session.job.copies

    # --- making copies ----------------------------------------------------------------------

    def due(self, *, resizing: bool, iterations: int) -> bool:
        """On rank 0, `iterations` after the last remap point: whether a copy is to be made now,
        before the next iteration or the resize."""
        s, job = self.state, self.session.job
        if s.loops == job.loops or not self.protects:
            return False
        if resizing or (self.memory and s.loops and s.resize_id != job.resize_id):
            return True
        since_s = time.monotonic() - self._last_s
        if self.every_points is not None:
            return s.points + iterations >= self.every_points
        if self.every_s is not None:
            return since_s >= self.every_s
        return since_s >= s.took_s * (1 / self.share - 1)

    def iterations_left(self, *, copy: bool, iterations: int) -> int | None:
        """On rank 0, where a copy is made now or not: until the next has to be; None: any."""
        if self.every_points is None:
            return None
        return max(1, self.every_points - (0 if copy else self.state.points + iterations))

    def remap_point(self, *, make: bool, iterations: int) -> None:
        """At every remap point, collective: make a copy if rank 0 said so."""
        self.state.points += iterations
        if make:
            self.make()

    def make_for_restart(self, next_size: int) -> str:
        """Copy all data where the `next_size` ranks of the next start find them; collective.

        Returns what went wrong, the same on every rank; empty if nothing did.
        """
        # Flushed only where a copy has to outlive its machine: this one is read at once.
        return self._try(self.disk, in_memory=False, sync=self.protects, next_size=next_size)[0]

    def _try(
        self, parent: Path, *, in_memory: bool, sync: bool, next_size: int | None = None
    ) -> tuple[str, int]:
        """The next copy: what went wrong, and its size; collective."""
        self.state.number += 1
        folder = parent / generations.name_of(self.instance, self.state.number)
        try:
            variables = self._variables(next_size)
            return "", self._make(folder, variables, in_memory=in_memory, sync=sync)
        except ProtectionError as e:  # on every rank
            shutil.rmtree(folder, ignore_errors=True)
            return str(e), 0

    def _variables(self, next_size: int | None) -> list[bytes]:
        """The program's own variables, as pieces of this rank's part; collective.

        Raises:
            ProtectionError: on every rank; a copy would not have all that the job needs.
        """
        copies, comm = self.session.copies, MPI.Intracomm(self.session.grid.own_comm)
        why = copies.differing_value(comm)
        if not why:
            pieces, why = copies.take(comm, next_size)
        if why:
            raise ProtectionError(why)
        return pieces

    def make(self) -> None:
        """Copy all data of the job; collective. Never raises for what a disk may do."""
        session, s = self.session, self.state
        begin = time.monotonic()
        in_memory = bool(self.memory)
        error, nbytes = self._try(self._folder(), in_memory=in_memory, sync=not in_memory)
        self._last_s = time.monotonic()
        s.took_s, s.points = self._last_s - begin, 0
        if not error:
            s.loops, s.resize_id = session.job.loops, session.job.resize_id
        if session.rank == 0:
            report = m.CopyMade(
                step=session.step, took_s=s.took_s, nbytes=nbytes, error=error[:4000]
            )
            session.server().report(report)
            if error and error != s.error:
                say(f"no copy of the job's data can be made, the last one stays: {error}")
        s.error = error

    def _folder(self) -> Path:
        if not self.memory:
            return self.disk
        return Path(self.memory, self.session.places[self.session.rank].host, str(self.job))

    def _make_private(self, folder: Path, *, in_memory: bool) -> None:
        if in_memory:
            private.make_private(folder, below=Path(self.memory).parent)
            return
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        generations.check_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        generations.check_private(folder)

    def _make(self, folder: Path, variables: list[bytes], *, in_memory: bool, sync: bool) -> int:
        session = self.session
        comm, rank, grid = session.grid.own_comm, session.rank, session.job.grid
        hosts = [place.host if in_memory else "" for place in session.places]
        leads = rank in leaders(hosts)
        found, error = (0, 0), ""
        try:
            # Every rank: who comes first makes it, and each has to know that it is private.
            self._make_private(folder, in_memory=in_memory)
            if leads:
                generations.make_room(folder.parent, coming=folder.name)
            blocks = self._blocks()
            if variables:
                blocks[VARIABLES] = partfile.BytesBlock(variables)
            path = generations.part_path(folder, rank)
            found = partfile.write_part(path, grid, rank, blocks, sync=sync)
        except Exception as e:  # an application's pack may raise anything
            error = _reason(e)
        parts = _agree(comm, error, f"{found[0]} {found[1]}")
        of_ranks = tuple(_two(text) for text in parts)
        copy = Copy(folder, session.job.loops, grid, of_ranks, session.job.lengths)
        _agree(comm, fetch_for_partners(comm, hosts, copy) if in_memory else _apart(copy, rank))
        error = ""
        try:
            if leads:
                generations.write_manifest(copy, sync=sync)
        except OSError as e:
            error = _reason(e)
        _agree(comm, error)
        if leads and in_memory:
            generations.make_room(self.disk, kept=0)  # what an earlier start left there
        return copy.nbytes

    def _blocks(self) -> dict[str, partfile.Block]:
        session = self.session
        grid, rank = session.job.grid, session.rank
        blocks: dict[str, partfile.Block] = {}
        for name, item in session.declared.items():
            if isinstance(item, Packed):
                pieces = pack_for_itself(item.desc, item.held, grid, rank)
                blocks[name] = partfile.BytesBlock(pieces)
            else:
                blocks[name] = partfile.ArrayBlock(item.desc, item.owned, item.order)
        if rank == 0:
            values = {name: held.value for name, held in session.values.items()}
            values[EXCHANGED] = sorted(session.job.exchanged)
            blocks[VALUES] = partfile.BytesBlock([MPI.pickle.dumps(values)])
        return blocks

    # --- restoring ------------------------------------------------------------------

    def begin(self, comm: MPI.Intracomm) -> Chosen | None:
        """At the start of the program, collective: the copy to go on from; None: the beginning.

        Raises:
            ProtectionError: copies were made and none can be used.
        """
        if self.made is None:
            return None
        return choose(comm, self._on_disk(), self.made)

    def _on_disk(self) -> CopyDisk:
        return CopyDisk(self.disk, machine())

    def restore(self, chosen: Chosen) -> None:
        """Give everything declared its share of the copy, and variables its values; collective."""
        self._take_from(self._on_disk(), chosen, in_place=False)

    def restore_in_place(self) -> Position:
        """Go back to the newest copy in memory, on the session's new grid; collective.

        Returns where the job was then.

        Raises:
            ProtectionError: on every rank; there is none, or it does not fit.
        """
        session = self.session
        comm, host = MPI.Intracomm(session.comm), session.places[session.rank].host
        self._lay_out(comm)
        stored: Stored = CopyMemory(Path(self.memory), self.job, host, self.instance)
        found, _ = newest(comm, stored)
        if found is not None:
            hosts = [place.host for place in session.places]
            settle(stored, found, leads=session.rank in leaders(hosts))
        else:  # what this start of the job began from, if it has not made a copy since
            stored, found = self._on_disk(), self.begin(comm)
        if found is None:
            raise ProtectionError("no copy of its data has been made yet")
        self._take_from(stored, found, in_place=True)
        return found.copy.loops

    def _take_from(self, stored: Stored, found: Chosen, *, in_place: bool) -> None:
        comm, copy = MPI.Intracomm(self.session.comm), found.copy
        with Parts(comm, stored, found) as parts:
            if not parts.are_here():
                parts.fetch([0])
                wanted = self._needed(comm, parts)
                if not in_place:  # ranks are new: variables of these old ranks are looked at
                    wanted |= {*range(comm.rank, copy.grid.size, comm.size)}
                parts.fetch(wanted)
            self._fill(copy.loops, copy.grid, parts, in_place=in_place)

    def _needed(self, comm: MPI.Intracomm, parts: Open) -> set[int]:
        """The parts that this rank's share comes from; collective."""
        found, why = set[int](), ""
        try:
            found = needed(self.session, parts)
        except (ProtectionError, DescriptorError, OSError) as e:
            why = str(e)
        together(comm, why)
        return found

    def _lay_out(self, comm: MPI.Intracomm) -> None:
        """Give every array its layout on the session's present places; collective."""
        why = ""
        try:
            for item in self.session.declared.values():
                item.lay_out(self.session.places)
        except Exception as e:  # an application's weights may raise anything
            why = _reason(e)
        together(comm, why)

    def _fill(self, loops: Position, grid: ProcessGrid, parts: Open, *, in_place: bool) -> None:
        comm, copies = MPI.Intracomm(self.session.comm), self.session.copies
        # Before the data: variables may refer to the parts that these replace.
        together(comm, copies.prepare(parts, in_place=in_place))
        values = restore_all(self.session, grid, parts, VALUES)
        self.session.job.exchanged |= set(values.pop(EXCHANGED, ()))
        for name, value in values.items():
            if name in self.session.values:
                self.session.values[name].restore(value)
        together(comm, copies.apply())
        self.state.loops = loops
        self._last_s = time.monotonic()


def _agree(comm: MPI.Intracomm, error: str, text: str = "") -> list[str]:
    """Every rank's text, if no rank has an error; else the same ProtectionError on all."""
    texts: list[str] = gather_texts(comm, f"!{error}" if error else text)
    for rank, said in enumerate(texts):
        if said.startswith("!"):
            raise ProtectionError(f"{said[1:]} (rank {rank})")
    return texts


def _apart(copy: Copy, rank: int) -> str:
    """What is wrong with a copy on disk for a rank that does not see the part of rank 0."""
    if not rank or copy.part(0).exists():
        return ""
    return f"{copy.folder} is not one folder on all nodes; --protect partner needs no such folder"


def _reason(e: Exception) -> str:
    if isinstance(e, private.NotPrivate):
        return str(e)
    if isinstance(e, OSError):
        return f"{e.filename or 'a file'}: {e.strerror}"
    return str(e) if isinstance(e, ProtectionError) else f"{type(e).__name__}: {e}"


def _two(text: str) -> tuple[int, int]:
    size, total = text.split()
    return int(size), int(total)
