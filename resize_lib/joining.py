"""A rank that joins a running job, from its start to its first iteration.

It runs the program up to the job's loop by itself, while the job computes: what is slow, fails,
hangs or communicates there costs the job nothing but this resize. At the first loop it merges with
the job, learns where that is, and goes on to there. What it has to know before (its grid and its
place in it) the server tells. Without one, or where MPI itself spawns ranks, it merges at once.
"""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from mpi4py import MPI

from dq_client.base import messages as m
from dq_client.base.codec import welcome_of
from dq_client.base.errors import DQError, NoServer
from resize_lib.before_arrival import ComingGrid, agree_to_join
from resize_lib.emulation.link import Link
from resize_lib.grid import Grid
from resize_lib.loops import AWAITED, LoopError, Position
from resize_lib.mistakes import Mistake
from resize_lib.processes import idle_bcast
from resize_lib.processes.failure import flush
from resize_lib.processes.link import LinkClosed, own_link
from resize_lib.resize import JobPosition, join, retreat
from resize_lib.server_link import ServerLink, say
from resize_lib.setup_calls import CALLS
from resize_lib.world import bare

if TYPE_CHECKING:
    from resize_lib.runtime import Runtime

WORLD_VARIABLE = "DQ_WORLD"
INHERITS_VARIABLE = "DQ_RESTART"  # the resize whose copy this start of the job begins from
WELCOME_VARIABLE = "DQ_WELCOME"


def first_state(session: Runtime, comm: MPI.Intracomm) -> JobPosition:
    """The job's state at its start: grid and places from the server, or a grid from MPI."""
    rows, cols = sorted(MPI.Compute_dims(comm.size, 2))
    state = JobPosition(rows, cols)
    if comm.rank == 0 and session.connects:
        # On another size the program ends at once (check_size).
        legal = session.legal_sizes if comm.size in session.legal_sizes else ()
        welcome = session.server().hello(comm.size, legal)
        if welcome is not None and welcome.rows * welcome.cols == comm.size:
            state = _as_told(welcome)
            state.resize_id = int(os.environ.get(INHERITS_VARIABLE) or 0)
            if session.backend.name == "restart" and not state.resize_id:
                session.server().resizes_by_restart()  # else it knows: it has restarted the job
    found: JobPosition = idle_bcast(comm, state)
    return found


def _as_told(welcome: m.JobWelcome) -> JobPosition:
    state = JobPosition(welcome.rows, welcome.cols, welcome.places, managed=True)
    state.reports = welcome.reports
    if welcome.link_mbit is not None:
        latency_us = welcome.link_latency_us or 0.0
        state.link = Link(welcome.link_mbit, latency_us, welcome.link_duplex)
    return state


class Joining:
    """Of one rank. Methods in the order in which they are called."""

    def __init__(self, session: Runtime) -> None:
        self._session = session
        self._comm: MPI.Intracomm | None = None  # once merged
        self._grid: Grid | None = None  # on it

    def begin(self) -> tuple[int, JobPosition]:
        """This rank's number in the job to come, and what is known of that."""
        welcome = self._ask()
        if welcome is not None:
            state = _as_told(welcome)
            world = bare()
            return state.rows * state.cols - world.size + world.rank, state
        self._comm = self._session.backend.start(self._session.arena.reserve)
        state, calls = idle_bcast(self._comm)
        CALLS.learn(calls)
        return self._comm.rank, state

    def grid(self, rank: int) -> Grid:
        """The grid until this rank is where the job is."""
        session = self._session
        if self._comm is not None:
            self._grid = session.make_grid(self._comm)
        return ComingGrid(session.job.rows, session.job.cols, rank)

    def target(self) -> Position:
        """The job's place, as far as it is known before the first loop."""
        return AWAITED if self._comm is None else self._session.job.loops

    def meet(self) -> Position:
        """At the first loop, or call that needs the job: merge with it; where is it? Collective."""
        session = self._session
        self._comm = session.backend.start(session.arena.reserve)
        session.job, calls = idle_bcast(self._comm)
        CALLS.learn(calls)
        self._grid = session.make_grid(self._comm)
        return session.job.loops

    def arrive(self) -> None:
        """Take this rank's share of the data; collective with the job."""
        session, grid, coming = self._session, self._grid, self._session.grid
        assert grid is not None, "it has merged at its first loop"
        CALLS.arrive()
        session.grid = grid
        if isinstance(coming, ComingGrid):
            coming.replaced()
        join(session)
        CALLS.has_arrived()

    def check(self, why: str, error: BaseException | None) -> None:
        """The program ends, or fails; does not return if this rank has not arrived."""
        if not self._session.loops.arrived:
            self.fail(why, error)

    def fail(self, why: str, error: BaseException | None) -> NoReturn:
        """This rank does not come to where the job is: the resize is given up, the job goes on."""
        session, grid = self._session, self._grid
        if error is not None and not isinstance(error, SystemExit):
            traceback.print_exception(error)
        mistake = isinstance(error, Mistake | LoopError) or error is None
        say(f"a rank that was to join does not: {why}")
        flush()
        if grid is not None:
            agree_to_join(grid.own_comm, why, mistake=mistake)
            session.grid = grid
            retreat(session)
        link = own_link()
        if link is not None:
            with suppress(LinkClosed):
                link.say(why=why, mistake=mistake)
        # Not MPI_Abort, which would end the job; nobody in it waits for this rank yet.
        os._exit(1)

    def _ask(self) -> m.JobWelcome | None:
        """What the server says, as told with the order to start or asked; None: merge at once."""
        session = self._session
        text, number = os.environ.pop(WELCOME_VARIABLE, ""), os.environ.get(WORLD_VARIABLE, "")
        if session.backend.name != "own" or not number or not ServerLink.configured():
            return None
        if text:
            return welcome_of(text)
        world = bare()
        told: m.JobWelcome | str | None = None
        if world.rank == 0:
            link = ServerLink.from_environment()
            try:
                told = link.joining(int(number))
            except NoServer:
                told = None
            except DQError as e:
                told = str(e)
            finally:
                link.close()
        told = idle_bcast(world, told)
        if isinstance(told, str):  # the resize was given up meanwhile
            flush()
            sys.exit(0)
        return told
