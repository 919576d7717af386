"""A resize: processes, data, and the report to the server, as one transaction.

    expand   start new ranks → merge → send them the job's state → redistribute → commit
    shrink   redistribute → split; leavers end by themselves while rank 0 commits
    regrid   redistribute → commit: the same ranks, another process grid

New ranks take up to a good part of a second to start. An application with short iterations goes on
computing meanwhile and merges with them at the first remap point that finds them ready; one with
long iterations waits for them, because idle processors for a whole iteration would cost more.

If spawning or redistribution fails, the error is the same on every rank, new ranks leave again, and
the job goes on at its old size with its old data, which are not changed before the new parts are
complete. That takes memory for both: where it is short, the redistribution fails on every rank and
the resize is aborted.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum, auto
from typing import TYPE_CHECKING, NoReturn, assert_never

from mpi4py import MPI

from dq_client.base import messages as m
from resize_lib import processes
from resize_lib.before_arrival import agree_to_join
from resize_lib.data_move import all_pids, everyone
from resize_lib.data_move import move as move
from resize_lib.descriptors import DescriptorError, ProcessGrid
from resize_lib.job import JobPosition as JobPosition
from resize_lib.job import reshape
from resize_lib.job_comm import retire, take_handle
from resize_lib.legal import shown
from resize_lib.pace import waits_for_ranks
from resize_lib.processes import ProcessError, SetupError, idle_bcast
from resize_lib.redistribution import (
    Placement,
    RedistributionError,
)
from resize_lib.setup_calls import CALLS
from resize_lib.state import verdict
from resize_lib.waiting import watched

if TYPE_CHECKING:
    from resize_lib.grid import Grid
    from resize_lib.runtime import Runtime


class Step(Enum):
    """What all ranks do at a remap point; decided on rank 0 (`advise`)."""

    CONTINUE = auto()
    BEGIN = auto()  # new ranks are starting: go on computing
    COMPLETE = auto()  # the ranks that were begun are ready: merge with them
    EXPAND = auto()  # start new ranks, wait for them, merge
    SHRINK = auto()
    REGRID = auto()
    RESTART = auto()  # all ranks end, others start on the new size
    GIVE_UP = auto()  # the resize is aborted: go on as before


# Parts that joining ranks make room for while they wait: smaller ones take no time.
TOUCHED_BYTES_MIN = 1 << 20
TOUCHED_PARTS_MAX = 100

# With iterations from this long on a job waits for its new ranks instead of computing meanwhile.
PATIENT_FROM_S = 1.0
# Where new ranks need all cores of rank 0's node the job waits for them, too, at most this long.
# Iterations that went on would get little of the cores and hold up the start: a rank that waits in
# MPI spins.
CROWDED_WAIT_S = 0.2


def advise(
    session: Runtime,
    answer: m.RemapAnswer,
    iteration_s: float,
    *,
    last: bool,
    alone: bool = False,
) -> tuple[m.RemapAnswer, Step]:
    """On rank 0: what all ranks shall do about the server's answer (see `carry_out`).

    alone: the others do not wait for this, they compute.
    """
    begun = session.job.expanding
    backend = session.backend
    if begun is not None:
        stands = answer.what == "continue" and answer.resize_id == begun.resize_id
        try:
            if stands:  # after the last iteration, too: another loop may follow
                ready = not last and backend.expand_ready()
                return answer, Step.COMPLETE if ready else Step.CONTINUE
            backend.cancel_expand()
        except ProcessError as e:
            aborted(session, begun, str(e), mistake=isinstance(e, SetupError))
            return answer, Step.GIVE_UP
        if last or answer.what == "continue":
            aborted(session, begun, "the server has withdrawn it")
            return answer, Step.GIVE_UP
    if answer.what == "continue":
        return answer, Step.CONTINUE
    restarts = session.succession is not None and answer.what != "regrid"
    can = backend.can_resize or restarts or answer.what == "regrid"
    if session.legal_sizes and answer.rows * answer.cols not in session.legal_sizes:
        aborted(session, answer, f"the program can run on {shown(session.legal_sizes)} ranks only")
        return answer, Step.GIVE_UP
    if last or not can:
        aborted(session, answer, _LAST if last else backend.why_not)
        return answer, Step.GIVE_UP
    if answer.what == "regrid":
        return answer, Step.REGRID
    if restarts:
        return answer, Step.RESTART
    if answer.what == "shrink":
        return answer, Step.SHRINK
    if iteration_s >= PATIENT_FROM_S or waits_for_ranks():
        return answer, Step.EXPAND
    try:
        backend.begin_expand(
            [place.host for place in answer.places],
            world=answer.resize_id,
            touch=_coming_bytes(session, answer),
        )
        waits = not alone and _take_all_cores(session, answer)
        come = waits and backend.expand_ready(CROWDED_WAIT_S)  # they sleep till told
    except ProcessError as e:
        aborted(session, answer, str(e), mistake=isinstance(e, SetupError))
        return answer, Step.GIVE_UP
    return answer, Step.COMPLETE if come else Step.BEGIN


def _take_all_cores(session: Runtime, answer: m.RemapAnswer) -> bool:
    """Whether as many ranks start on this node as it has cores."""
    here = session.places[0].host
    return sum(place.host == here for place in answer.places) >= (os.cpu_count() or 1)


_LAST = "the last iteration is done"


def give_up_at_end(session: Runtime) -> None:
    """On rank 0, after the last iteration of all: end the ranks that are still starting."""
    begun, session.job.expanding = session.job.expanding, None
    if begun is not None:
        with suppress(ProcessError):
            session.backend.cancel_expand()
        aborted(session, begun, _LAST)


def carry_out(session: Runtime, answer: m.RemapAnswer, step: Step) -> bool:
    """Do what rank 0 advises; collective. False in ranks that must leave now."""
    job = session.job
    begun, job.expanding = job.expanding, None
    match step:
        case Step.CONTINUE:
            job.expanding = begun
        case Step.BEGIN:
            job.expanding = answer
        case Step.COMPLETE:
            expand(session, answer if begun is None else begun, begun=True)
        case Step.EXPAND:
            expand(session, answer, begun=False)
        case Step.SHRINK:
            return shrink(session, answer)
        case Step.REGRID:
            regrid(session, answer)
        case Step.RESTART:
            assert session.succession is not None, "only then it is advised"
            return session.succession.leave(answer)
        case Step.GIVE_UP:
            pass
        case _:
            assert_never(step)
    return True


def expand(session: Runtime, answer: m.RemapAnswer, *, begun: bool) -> None:
    """Merge with ranks on the granted processors; collective over the old ranks."""
    old = session.grid
    try:
        if begun:
            comm = session.backend.complete_expand(old.comm)
        else:
            comm = processes.expand(
                session.backend,
                old.comm,
                [place.host for place in answer.places],
                world=answer.resize_id,
                touch=_coming_bytes(session, answer) if session.rank == 0 else (),
            )
    except ProcessError as e:
        aborted(session, answer, str(e), mistake=isinstance(e, SetupError))
        return
    # The new ranks know nothing of losses yet: if one happens here, the job is restarted.
    with watched(None):
        _take_in(session, answer, comm)


def _take_in(session: Runtime, answer: m.RemapAnswer, comm: MPI.Intracomm) -> None:
    """Give the new ranks of `comm`, the last ones, the job's state and their share."""
    old, job = session.grid, session.job
    job.old_rows, job.old_cols, previous_id = job.rows, job.cols, job.resize_id
    reshape(job, answer.rows, answer.cols, [*job.places, *answer.places], answer.resize_id)
    idle_bcast(comm, (job, CALLS.before(len(job.loops))))  # new ranks wait for it (joining.py)
    old.free()
    session.grid = session.make_grid(comm)
    session.watch.rebase(job.seq)
    why_not, mistake = agree_to_join(session.grid.own_comm)
    if not why_not:
        plain = MPI.Intracomm(session.grid.own_comm)
        why_not, mistake = session.carry.exchange(plain, job.old_rows * job.old_cols)
    if why_not:
        _undo_expansion(session, answer, previous_id, old, why_not, mistake=mistake)
        if verdict.RESET in why_not:  # the functions run again now, for another communicator
            session.give_up(why_not)
        return
    try:
        move(session, everyone(job.old_rows, job.old_cols), everyone(job.rows, job.cols), comm)
    except RedistributionError as e:
        _undo_expansion(session, answer, previous_id, old, str(e))
        return
    _moved(session, answer)


def _coming_bytes(session: Runtime, answer: m.RemapAnswer) -> list[int]:
    """Sizes of the parts that a joining rank will get, those worth touching beforehand."""
    grid = ProcessGrid(answer.rows, answer.cols)
    places = [*session.places, *answer.places]
    try:
        sizes = [
            max(item.part_bytes(grid, rank, places) for rank in range(session.size, len(places)))
            for item in session.declared.values()
        ]
    except DescriptorError:  # the move will say so
        return []
    return sorted((n for n in sizes if n >= TOUCHED_BYTES_MIN), reverse=True)[:TOUCHED_PARTS_MAX]


def join(session: Runtime) -> None:
    """A new rank's half of `expand`: receive its share. It has the grid and the job's state."""
    job = session.job
    comm = session.grid.comm
    plain = MPI.Intracomm(session.grid.own_comm)
    why_not, _ = agree_to_join(plain)
    if not why_not:
        why_not, _ = session.carry.exchange(plain, job.old_rows * job.old_cols)
    if why_not:
        retreat(session)
    try:
        move(session, everyone(job.old_rows, job.old_cols), everyone(job.rows, job.cols), comm)
    except RedistributionError:
        retreat(session)
    try:
        session.carry.apply()
    except Exception as e:  # any class may raise anything; the job has gone on already
        session.end.give_up(
            f"a variable could not be given the job's value: {type(e).__name__}: {e}"
        )
    session.watch.rebase(job.seq)


def retreat(session: Runtime) -> NoReturn:
    """A new rank's half of `_undo_expansion`: leave the job again, before the first iteration."""
    job, comm = session.job, session.grid.comm
    session.grid.free()
    session.backend.shrink(comm, range(job.old_rows * job.old_cols, comm.size))
    session.loops.give_up()
    session.backend.leave()


def shrink(session: Runtime, answer: m.RemapAnswer) -> bool:
    """Release the processors named. Collective; False in the ranks that must leave now."""
    old = session.grid
    job = session.job
    released = {place.processor for place in answer.places}
    leaving = [r for r, p in enumerate(job.processors) if p in released]
    staying = [r for r in range(old.size) if r not in set(leaving)]
    after = Placement(ProcessGrid(answer.rows, answer.cols), tuple(staying))
    why_not = session.carry.refusal_to_move(MPI.Intracomm(old.own_comm), leaving)
    if why_not:
        aborted(session, answer, why_not)
        return True
    # The server frees a processor when its node's agent says that this very process has gone.
    pid_on = dict(zip(job.processors, all_pids(old.comm), strict=True))
    try:
        move(session, everyone(job.rows, job.cols), after, old.own_comm)
    except RedistributionError as e:
        aborted(session, answer, str(e))
        return True
    with watched(None):  # from here on ranks have another communicator, or none
        session.grid.free()  # its row and column communicators would still connect the leavers
        comm = session.backend.shrink(old.comm, leaving)
        if comm is None:
            return False
        places = [job.places[r] for r in staying]
        reshape(job, answer.rows, answer.cols, places, answer.resize_id)
        session.grid = session.make_grid(comm)
    _moved(session, answer, [pid_on[place.processor] for place in answer.places])
    return True


def regrid(session: Runtime, answer: m.RemapAnswer) -> None:
    """View the same ranks as another grid. Collective; places and communicator stay."""
    old, job = session.grid, session.job
    why_not = session.carry.refusal_to_move(MPI.Intracomm(old.own_comm), ())
    if why_not:
        aborted(session, answer, why_not)
        return
    after = everyone(answer.rows, answer.cols)
    try:
        move(session, everyone(job.rows, job.cols), after, old.own_comm)
    except RedistributionError as e:
        aborted(session, answer, str(e))
        return
    comm = MPI.Intracomm(old.comm)  # without what an emulated grid adds to it
    old.free()
    reshape(job, answer.rows, answer.cols, job.places, answer.resize_id)
    session.grid = session.make_grid(comm)
    _moved(session, answer, same_comm=True)


def _moved(
    session: Runtime, answer: m.RemapAnswer, pids: Sequence[int] = (), *, same_comm: bool = False
) -> None:
    """What follows a move, once the grid is made (docs/spec/resize.md, "After the move").

    pids: of the ranks that leave. same_comm: what programs have derived from the job's
    communicator is still good.
    """
    if not same_comm:
        retire()
    session.carry.apply()
    if session.rank == 0:
        done = m.Committed(
            resize_id=answer.resize_id,
            redistribution_time_s=session.job.redistribution_s,
            pids=list(pids),
            carried=session.carry.carried[:1000],
        )
        session.server().tell(done)


def aborted(session: Runtime, answer: m.RemapAnswer, why: str, *, mistake: bool = False) -> None:
    """Tell the server that a resize does not happen. mistake: of the program, at every try."""
    if session.rank == 0:
        session.server().tell(m.Aborted(answer.resize_id, why[:4000], mistake))


def _undo_expansion(
    session: Runtime,
    answer: m.RemapAnswer,
    previous_id: int,
    old: Grid,
    why: str,
    *,
    mistake: bool = False,
) -> None:
    """The data could not be moved: the new ranks leave again.

    old: the grid before, whose communicators a program may have kept
    """
    job = session.job
    old_size = job.old_rows * job.old_cols
    grid = session.grid
    grid.free()
    comm = session.backend.shrink(grid.comm, range(old_size, grid.size))
    assert comm is not None, "the old ranks stay"
    reshape(job, job.old_rows, job.old_cols, job.places[:old_size], previous_id)
    session.grid = session.make_grid(comm)
    for name in ("comm", "row_comm", "col_comm"):
        take_handle(getattr(old, name), getattr(session.grid, name))
    aborted(session, answer, why, mistake=mistake)
