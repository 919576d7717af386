"""Each rank's own watch: where is this rank, and since when?

MPI says nothing when a rank that others wait for does not come. So a thread of each rank of a
managed job looks now and then at how long the rank has been where it is; when that is much longer
than its iterations have taken, it tells the server (RankReport), which hears of all ranks and
decides (dq_server/core/features/watch.py). The thread sleeps nearly always, and makes no MPI call.

A rank that leaves its session gives the others a moment to come to their end, too, and reports
before it goes if they do not.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import CodeType, FrameType

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from dq_client.base import messages as m
from dq_client.base.errors import DQError
from resize_lib.mistakes import caller, is_program
from resize_lib.server_link import ServerLink
from resize_lib.waiting import wait_until

LIMIT_VARIABLE, ACTION_VARIABLE = "DQ_WATCH_S", "DQ_WATCH"
LIMIT_S = 60.0
LOOK_EVERY_S = 1.0
FIRST_WORD_S = 5.0  # before that nothing is told
FIRST_ITERATION_S = 15.0  # the same in the first iteration, which compiles, plans and reads
SLOWER = 3.0  # than the slowest iteration so far, before anything is told
AGAIN = 1.5  # times as long as at the last word, before it is said again
AGAIN_S_MAX = 60.0
SECOND_S = 3.0
TELL_WITHIN_S = 5.0
OTHERS_WITHIN_S = 3.0  # how long a rank that leaves waits for the others to come to their end
MPI_WAITS = frozenset(
    (
        *("barrier", "bcast", "gather", "gatherv", "scatter", "scatterv", "allgather"),
        *("allgatherv", "alltoall", "alltoallv", "alltoallw", "reduce", "allreduce"),
        *("reduce_scatter", "reduce_scatter_block", "scan", "exscan", "recv", "sendrecv"),
        *("sendrecv_replace", "probe", "mprobe", "wait", "waitall", "waitany", "waitsome"),
        *("exchange", "ssend", "dup", "dup_with_info", "split", "split_type", "create_group"),
        *("create_cart", "create_graph", "create_dist_graph", "create_dist_graph_adjacent"),
        *("create_intercomm", "neighbor_allgather", "neighbor_allgatherv", "neighbor_alltoall"),
        *("neighbor_alltoallv", "neighbor_alltoallw", "fence", "read_all", "write_all"),
        *("read_at_all", "write_at_all", "read_ordered", "write_ordered"),
    )
)


def limit_s() -> float:
    """How much longer than usual a rank may be missing, as [watch] says."""
    with suppress(ValueError):
        return float(os.environ.get(LIMIT_VARIABLE, "") or LIMIT_S)
    return LIMIT_S


class Watch:
    """Of one rank. The main thread says where it is; `start` begins to look.

    rank: returns this rank's number now.
    """

    def __init__(self, rank: Callable[[], int]) -> None:
        self._rank = rank
        self.limit_s = limit_s()
        self._iterations = 0  # whose remap points this rank has passed
        self._state = (
            ""  # "iteration"; "remap": at its end; "out": behind that; empty: no iteration yet
        )
        self._since_s = time.monotonic()
        self._usual_s = 0.0  # the longest iteration so far
        self._main = threading.get_ident()
        self._stop: threading.Event | None = None
        self._told_s = 0.0
        self._told_over = self._told = False
        self._unfinished: MPI.Request | None = None

    # --- said by the main thread: cheap, each iteration does it
    # ----------------------------------------

    def iteration_begins(self) -> None:
        """An iteration begins."""
        self._since_s = time.monotonic()
        self._state = "iteration"

    def remap_begins(self) -> None:
        """It is done; its remap point follows."""
        now = time.monotonic()
        if self._state == "iteration":
            self._usual_s = max(self._usual_s, now - self._since_s)
        self._since_s = now
        self._state = "remap"

    def remap_ends(self) -> None:
        """Its remap point is passed, with whatever resize it led to."""
        self._iterations += 1
        self._since_s = time.monotonic()
        self._state = "out"

    def rebase(self, iterations: int) -> None:
        """So many remap points count as passed: ranks that join have to agree with the others."""
        self._iterations = iterations

    def prepare(self, comm: MPI.Intracomm) -> None:
        """Before a program uses this communicator; collective.

        The first reduction of Python objects on one duplicates it inside mpi4py, which keeps the
        GIL meanwhile: a rank that waits there for ranks that never come could tell nobody.
        """
        if comm.size > 1:
            MPI.Intracomm(comm).allreduce(0)

    # --- the thread -----------------------------------------------------------------------------

    def start(self) -> None:
        """Look from now on."""
        self._stop = threading.Event()
        threading.Thread(target=self._run, args=(self._stop,), name="dq-watch", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        if self._stop is not None:
            self._stop.set()
            self._stop = None

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(min(LOOK_EVERY_S, self.limit_s / 4)):
            with suppress(DQError, OSError):
                self._look()

    def _look(self) -> None:
        state, since_s, iterations = self._state, self._since_s, self._iterations
        for_s = time.monotonic() - since_s
        first = FIRST_WORD_S if self._usual_s or state == "remap" else FIRST_ITERATION_S
        quiet_s = max(first, SLOWER * self._usual_s)
        limit_s = self._usual_s + self.limit_s
        if not state or for_s < min(quiet_s, limit_s):
            self._goes_on()
            return
        waits, where = self._place(state)
        if state == "out" and not waits:  # what a program does between its loops takes its time
            return
        # Who waits comes second: who is waited for can say better where it is.
        over = state != "out" and for_s >= limit_s + (SECOND_S if waits else 0.0)
        again = for_s >= min(AGAIN * self._told_s, self._told_s + AGAIN_S_MAX)
        if not again and (not over or self._told_over):
            return
        if (since_s, iterations) != (self._since_s, self._iterations):
            return
        self._told, self._told_s, self._told_over = True, for_s, over
        report = m.RankReport(
            rank=self._rank(),
            what="stays",
            turns=iterations,
            where=where,
            waits=waits,
            for_s=for_s,
            usual_s=self._usual_s,
            over=over,
        )
        self._tell(report)

    def _goes_on(self) -> None:
        self._told_s = 0.0
        if self._told:
            self._told = self._told_over = False
            self._tell(m.RankReport(rank=self._rank(), what="goes on"))

    def _place(self, state: str) -> tuple[bool, str]:
        """Whether this rank waits for others, and where it is, for people."""
        frame = sys._current_frames().get(self._main)
        where = caller(frame) if frame is not None else "?"
        if state == "remap":
            return True, f"at its remap point ({where})"
        while frame is not None and not is_program(frame.f_code.co_filename):
            frame = frame.f_back
        called = _called(frame) if frame is not None else ""
        waits = called.rpartition(".")[2].lower() in MPI_WAITS
        return waits, f"{where}, in {called}" if called else where

    def _tell(self, report: m.RankReport) -> None:
        if not ServerLink.configured():  # the session was given another way to hear of resizes
            return
        # A connection of its own: the main thread's is not for several threads. Rarely needed.
        link = ServerLink.from_environment()
        try:
            link.say_where(report, TELL_WITHIN_S)
        finally:
            link.close()

    # --- the end --------------------------------------------------------------------------------

    def leave(self, comm: MPI.Intracomm, where: str, numbers: NDArray[np.float64]) -> bool:
        """This rank leaves its session: give the others time to do so, too, or tell the server.

        numbers: become the largest of all ranks'. True if all have come to their end.
        """
        self.stop()
        if MPI.Is_finalized():  # a program may do so by itself
            return False
        if comm == MPI.COMM_NULL or comm.size == 1:  # null: a resize was given up, the job ends
            return False
        everyone = comm.Iallreduce(MPI.IN_PLACE, numbers, MPI.MAX)
        end_s = time.monotonic() + OTHERS_WITHIN_S
        wait_until(lambda: everyone.Test() or time.monotonic() > end_s)
        if everyone == MPI.REQUEST_NULL:
            return True
        self._unfinished = everyone  # with its buffer: the others may come yet
        report = m.RankReport(rank=self._rank(), what="left", turns=self._iterations, where=where)
        with suppress(DQError, OSError):
            self._tell(report)
        return False


def _called(frame: FrameType) -> str:
    """The name of what a frame is calling, as it stands in the source; empty if not known."""
    code, at = frame.f_code, frame.f_lasti // 2
    position = _position(code, at)
    if position is None:
        return ""
    line, end_line, column, end_column = position
    if None in position or line != end_line:
        return ""
    import linecache  # only in a rank that is stuck

    text = linecache.getline(code.co_filename, line or 0).encode()[column:end_column]
    name = text.decode(errors="replace").partition("(")[0].strip()
    return name if name.replace(".", "").replace("_", "").isalnum() else ""


def _position(
    code: CodeType, at: int
) -> tuple[int | None, int | None, int | None, int | None] | None:
    for number, position in enumerate(code.co_positions()):
        if number == at:
            return position
    return None
