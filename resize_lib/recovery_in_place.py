"""A rank was lost, and the others go on in the same processes (docs/ranks.md).

Only at a remap point, where a rank waits in this library and nowhere else: there its waits are
watched, and end when the keeper says that a rank was lost. When all that live have come that far
they regroup, ask the server on what to go on, and restore the newest copy from memory. Whatever is
not as it should be ends the job, which is then restarted: that needs none of the ranks.

The old communicator is left as it is, messages under way on it included: one that a survivor has
sent may still arrive. What it would be written to is kept for ever, so that it is not used again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from mpi4py import MPI

from dq_client.base import messages as m
from resize_lib.data_move import all_pids
from resize_lib.job import reshape
from resize_lib.job_comm import retire
from resize_lib.processes.interface import Survivor
from resize_lib.processes.link import LinkClosed, RankLink, own_link
from resize_lib.protection.state import ProtectionError
from resize_lib.redistribution import Arena
from resize_lib.server_link import say
from resize_lib.session_end import LOST_THE_OTHERS
from resize_lib.state.iterators import CannotCopyError, go_back
from resize_lib.waiting import RankLost, idle_barrier, idle_bcast, wait_all, watched

if TYPE_CHECKING:
    from resize_lib.runtime import Runtime


class InPlace:
    """One per session of a job that can go on without ranks that it has lost."""

    def __init__(self, session: Runtime, link: RankLink, backend: Survivor) -> None:
        self._session, self._link, self._backend = session, link, backend
        self._pids: dict[int, int] = {}  # of all ranks, by processor
        self._known: MPI.Intracomm | None = None  # the communicator they are of
        self._left_behind: list[object] = []

    def remap_point(self, act: Callable[[], bool]) -> bool:
        """Do what `act` does at a remap point; collective. False: this rank leaves the job.

        Afterwards the job may be smaller, and its data and its step those of the last copy.
        """
        try:
            with watched(self._look):
                self._learn_pids()
                return act()
        except RankLost as lost:
            # With its traceback, and that with every local variable of what has been left: buffers
            # that messages may still arrive in, and new parts that another rank may still write to
            # (redistribution/slabs.py). The arena holds those that are used again.
            arena = self._session.arena
            self._left_behind.append((lost, arena))
            number = lost.number
        begin_s = time.perf_counter()
        try:
            dead, number = self._regroup(number)
        except LinkClosed as e:
            say(f"rank {self._session.rank}: {e}")
            self._session.backend.abort(LOST_THE_OTHERS)
        stays = self._go_on(dead, number, begin_s)
        arena.trim(0)  # the parts that the copy has replaced
        return stays

    def _look(self) -> None:
        while (message := self._link.poll_losses()) is not None:
            if "lost" in message:
                raise RankLost(int(message["lost"]))

    def _learn_pids(self) -> None:
        comm = self._session.grid.comm
        if comm is not self._known:
            pids = all_pids(comm)
            self._pids = dict(zip(self._session.job.processors, pids, strict=True))
            self._known = comm

    def _regroup(self, number: int) -> tuple[set[int], int]:
        """Wait until all ranks that live are free; the dead processors, and the loss's number."""
        size = len(self._session.job.places)
        while True:
            self._link.say(free=number, size=size)
            message = self._link.wait_losses()
            while "lost" not in message:
                if message["regroup"] == number:
                    return set(message["dead"]), number
                message = self._link.wait_losses()
            number = int(message["lost"])  # another one: begin anew

    def _go_on(self, dead: set[int], number: int, begin_s: float) -> bool:
        session, job = self._session, self._session.job
        was_first = session.rank == 0
        alive = [rank for rank, on in enumerate(job.processors) if on not in dead]
        comm = self._backend.survive(MPI.Intracomm(session.comm), alive, number)
        unfinished = self._align(comm)
        answer: m.RemapAnswer | None = None
        if comm.rank == 0:
            answer = self._ask(sorted(dead), unfinished, was_first=was_first)
        answer = idle_bcast(comm, answer)
        assert answer is not None, "rank 0 has it"
        left = len(job.places) - len(answer.places)
        if answer.what != "shrink" or left != answer.rows * answer.cols:
            self._give_up(comm, answer.reason or "the server does not say on what to go on")
        if not self._take_shape(comm, alive, answer):
            return False
        self._restore()
        self._link.say(session=True)
        job.redistribution_s = time.perf_counter() - begin_s
        if session.rank == 0:
            pids = [self._pids.get(place.processor, 0) for place in answer.places]
            session.server().tell(
                m.Committed(
                    resize_id=answer.resize_id,
                    redistribution_time_s=job.redistribution_s,
                    pids=pids,
                )
            )
            say(
                f"{len(dead)} ranks were lost: on {session.size} from iteration {session.step}, "
                f"{job.redistribution_s:.3g} s later"
            )
        return True

    def _align(self, comm: MPI.Intracomm) -> int:
        """What the ranks count has come to differ where the loss caught them; make it equal.

        Returns the id of the last resize that the server has granted as far as any rank knows, 0 if
        it is settled.
        """
        job = self._session.job
        counts = np.array([job.seq, job.copies.number, job.request, self._session.points.granted])
        wait_all([comm.Iallreduce(MPI.IN_PLACE, counts, MPI.MAX)])
        granted = int(counts[3])
        # The dead may have been one further than all others.
        job.seq, number, job.request = (int(count) + 1 for count in counts[:3])
        copies, asked = idle_bcast(comm, (job.copies, job.asked))
        job.copies = replace(copies, number=number)
        # What was asked for is settled by the resize that follows.
        job.asked = asked if asked is not None and asked.what == "rejected" else None
        job.expanding = None
        self._session.points.postponement.forget()
        return granted if granted != job.resize_id else 0

    def _ask(self, dead: list[int], unfinished: int, *, was_first: bool) -> m.RemapAnswer:
        """Rank 0: on what do we go on? The server must know first how the last resize ended."""
        server, job = self._session.server(), self._session.job
        if unfinished:
            server.tell(m.Aborted(unfinished, "a rank was lost"))
        elif job.resize_id and not was_first:
            server.tell(
                m.Committed(resize_id=job.resize_id)
            )  # the last rank 0 may have had no time to
        return server.lost(dead)

    def _take_shape(self, comm: MPI.Intracomm, alive: list[int], answer: m.RemapAnswer) -> bool:
        """Make the job smaller, without its data; collective. False in ranks that must leave."""
        session, job = self._session, self._session.job
        gone = {place.processor for place in answer.places}
        places = [job.places[rank] for rank in alive]
        leaving = [rank for rank, place in enumerate(places) if place.processor in gone]
        if leaving:
            smaller = session.backend.shrink(comm, leaving)
            if smaller is None:
                return False
            comm = smaller
            places = [place for place in places if place.processor not in gone]
        reshape(job, answer.rows, answer.cols, places, answer.resize_id)
        session.grid = session.make_grid(comm)
        session.arena = Arena()
        return True

    def _restore(self) -> None:
        session = self._session
        assert session.protector is not None, "copies are for protected jobs"
        before = [(item, getattr(item, "local", None)) for item in session.declared.values()]
        try:
            loops = session.protector.restore_in_place()
        except ProtectionError as e:
            self._give_up(session.comm, str(e))
        replaced = [(item.name, old, getattr(item, "local", None)) for item, old in before]
        before.clear()  # whether anybody else holds a part is counted
        session.stale.retire_all(replaced)
        session.stale.sent = False  # what replaces them is not under way
        retire()
        if not session.loops.can_go_back(loops):
            self._give_up(session.comm, "the copy was made in another loop")
        try:
            go_back(*session.loops.go_back(loops))
        except CannotCopyError as e:
            self._give_up(session.comm, str(e))
        session.note_position()

    def _give_up(self, comm: MPI.Intracomm, why: str) -> NoReturn:
        """End the job so that it is restarted; called on all ranks of `comm`."""
        if comm.rank == 0:
            say(f"not in place: {why}")
            self._session.backend.abort(LOST_THE_OTHERS)
        idle_barrier(comm)
        raise AssertionError("rank 0 ends the job")


def in_place(session: Runtime) -> InPlace | None:
    """What a session of a job that is protected by partners needs; None where it cannot be done."""
    if session.protector is None or os.environ.get("DQ_PROTECT") != "partner":
        return None
    link, backend = own_link(), session.backend
    if link is None or not isinstance(backend, Survivor):
        return None
    return InPlace(session, link, backend)
