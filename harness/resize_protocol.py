"""The resize as tables: which rank makes which collective call, in which order, and what follows
an error.

docs/spec/resize.md explains them and shows them. tests/plan/resize_simulator.py runs them, with an
error at every place; tests/mpi/test_resize_trace.py and tests/live/test_traced_resizes.py compare
them with what real ranks call.

A call is written ``communicator.call``, with ``-> name`` where it makes a communicator, and ``?``,
``*`` or ``+`` behind the call where it is made at most once, any number of times, at least once.
Communicators:

    job own row col              of the grid that the resize leaves: the program's, the library's
    newjob newown newrow newcol  of the grid that it leads to
    world                        the new ranks alone
    between leaving node any     made for a moment; any: whatever else the grid has made
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class Role(Enum):
    """What a resize is for one rank. Rank 0 is one of those that are there before."""

    CONTINUING = "C"
    JOINING = "J"
    RETIRING = "R"


class State(Enum):
    """What a resize has come to, for the job as a whole."""

    ORDERED = "ordered"  # every rank knows the server's answer
    STARTING = "starting"  # new ranks start, the job computes
    MERGED = "merged"  # one communicator, the new ranks are not in the loop yet
    MOVING = "moving"  # new parts are made and filled, old ones only read
    MOVED = "moved"  # every rank has its new parts: no way back
    RETREATING = "retreating"  # the new ranks leave again
    COMMITTED = "committed"  # the server is told, once
    ABORTED = "aborted"  # the server is told, once; the job is as before
    POSTPONED = "postponed"  # nothing was begun; tried again at the next remap point
    ENDED = "ended"  # the job ends, and is restarted from its copy if it is protected


class Failure(Enum):
    """What an error in a stage leads to, and who undoes what."""

    POSTPONE = "the job tries again at later remap points; after 8 of them rank 0 sends Aborted"
    STAY = "no state has changed; rank 0 sends Aborted, and the keepers end the new ranks"
    KEEP = "every rank drops its new parts and keeps the old ones; rank 0 sends Aborted"
    RETREAT = "every rank drops its new parts and makes the calls of the table Retreat"
    END = "the rank ends the job, and the server restarts a protected job from its copy"


@dataclass(frozen=True, slots=True)
class Stage:
    """One line of a table: ranks of these ``roles`` make ``calls``, in ``state``.

    ``agrees``: the last call is an agreement. An error of any rank before it is the same error
    on all of them behind it; they make the calls ``told`` to learn the reason, and do what
    ``failure`` says. Without: ``failure`` is END.
    """

    name: str
    roles: str  # of Role's values
    state: State
    calls: str
    failure: Failure = Failure.END
    told: str = ""

    @property
    def agrees(self) -> bool:
        """Whether an error on one rank is one on all."""
        return self.failure is not Failure.END


Table: TypeAlias = tuple[Stage, ...]


def _settled(roles: str) -> Stage:
    """Values are equal, and no message is under way (postponement.py)."""
    calls = "own.Iallreduce+ own.Ibcast* own.Iallreduce*"
    told = "own.Ibcast*"
    return Stage("settle", roles, State.ORDERED, calls, Failure.POSTPONE, told)


def _variables(roles: str) -> Stage:
    """The program's own variables, where no rank joins (state/carry.py)."""
    compare = "own.Iallreduce? own.Iallgather* own.Ibcast* own.Iallgather*"
    calls = f"own.Ibcast* {compare} own.Ibcast* own.Iallreduce?"
    return Stage("variables", roles, State.ORDERED, calls, Failure.STAY, "own.Ibcast+")


def _data(roles: str, comm: str, failure: Failure) -> Table:
    """The redistribution (redistribution/collective.py). Old parts are only read."""
    told = f"{comm}.Iallgather+"
    return (
        Stage("declare", roles, State.MOVING, f"{comm}.Iallgather", failure, told),
        Stage(
            "make room", roles, State.MOVING,
            f"{comm}.Iallgather? {comm}.Ialltoall? {comm}.Iallreduce*", failure, told,
        ),
        Stage("move", roles, State.MOVING, f"{comm}.Iallreduce", failure, told),
        # Only where a rank could not reach another one's memory: the same by messages.
        Stage(
            "move again", roles, State.MOVING, f"{comm}.Iallreduce*", failure, told
        ),
    )  # fmt: skip


def _left(roles: str, state: State) -> Stage:
    """The communicators of the grid that the job leaves (Grid.free)."""
    return Stage("leave the grid", roles, state, "row.Free col.Free own.Free any.Free*")


def _grid(roles: str, state: State, comm: str) -> Stage:
    """The next grid (runtime.make_grid)."""
    calls = (
        f"{comm}.allreduce? {comm}.Dup -> newown {comm}.Split -> newrow {comm}.Split -> newcol"
        f" {comm}.Split_type? -> node node.allgather? node.Free?"
    )
    return Stage("make the grid", roles, state, calls)


def _split(stay: str, go: str, state: State, job: str, rest: str) -> Table:
    """Ranks that go part from those that stay (processes/departure.py, split_off)."""
    return (
        Stage("split", stay, state, f"{job}.Split -> {rest} {job}.Dup -> leaving leaving.Ibarrier"),
        Stage("split", go, state, f"{job}.Split {job}.Dup -> leaving leaving.Ibarrier"),
        Stage("part", stay, state, f"{rest}.Ibarrier leaving.Free {job}.Free"),
        Stage("part", go, state, f"leaving.Free {job}.Free"),
    )


EXPAND: Table = (
    _settled("C"),
    Stage("start", "C", State.STARTING, "job.Ibcast+", Failure.STAY),
    Stage("wait", "J", State.STARTING, "world.Ibarrier"),
    Stage("merge", "C", State.STARTING, "job.Connect -> between"),
    Stage("merge", "J", State.STARTING, "world.Accept -> between"),
    Stage("merge", "CJ", State.MERGED, "between.Merge -> newjob between.Disconnect"),
    Stage("let go", "C", State.MERGED, "job.Free"),
    Stage("position", "CJ", State.MERGED, "newjob.Ibcast+"),
    _left("C", State.MERGED),
    _grid("CJ", State.MERGED, "newjob"),
    Stage("arrive", "CJ", State.MERGED, "newown.Iallreduce", Failure.RETREAT, "newown.Ibcast+"),
    Stage(
        "variables", "CJ", State.MERGED,
        "newown.Ibcast* newown.Iallreduce? newown.Iallgather* newown.Ibcast* newown.Iallreduce*"
        " newown.Ibcast* newown.Iallreduce?", Failure.RETREAT, "newown.Ibcast+",
    ),
    *_data("CJ", "newjob", Failure.RETREAT),
)  # fmt: skip

SHRINK: Table = (
    _settled("CR"),
    _variables("CR"),
    Stage("pids", "CR", State.ORDERED, "job.Iallgather"),
    *_data("CR", "own", Failure.KEEP),
    _left("CR", State.MOVED),
    *_split("C", "R", State.MOVED, "job", "newjob"),
    _grid("C", State.MOVED, "newjob"),
)  # fmt: skip

REGRID: Table = (
    _settled("C"),
    _variables("C"),
    *_data("C", "own", Failure.KEEP),
    _left("C", State.MOVED),
    _grid("C", State.MOVED, "job"),
)

# All ranks leave; others begin from the copy (succession.py). They are no part of it.
RESTART: Table = (
    _settled("R"),
    Stage("program", "R", State.ORDERED, "job.Ibcast+", Failure.STAY),
    Stage(
        "copy", "R", State.MOVING, "own.Ibcast* own.Iallreduce* own.Iallgather* own.Ibcast*"
        " own.Iallreduce* own.Iallgather* own.Ibcast* own.Iallreduce* own.Iallgather*",
        Failure.KEEP,
    ),
    Stage("report", "R", State.MOVING, "job.Ibcast+", Failure.KEEP),
)  # fmt: skip

# The new ranks go again, by the communicator that all have (resize._undo_expansion, retreat).
RETREAT: Table = (
    Stage("leave the grid", "CJ", State.RETREATING, "newrow.Free newcol.Free newown.Free"),
    *_split("C", "J", State.RETREATING, "newjob", "job"),
    Stage(
        "make the grid", "C", State.RETREATING,
        "job.allreduce? job.Dup -> own job.Split -> row job.Split -> col"
        " job.Split_type? -> node node.allgather? node.Free?",
    ),
)  # fmt: skip

# Ranks were lost: the others take the newest copy (recovery_in_place.py). What goes wrong here
# ends the job.
LOSS: Table = (
    Stage("regroup", "CR", State.ORDERED, "job.Create_group -> rest"),
    Stage("align", "CR", State.ORDERED, "rest.Iallreduce rest.Ibcast+"),
    Stage("ask", "CR", State.ORDERED, "rest.Ibcast+"),
    Stage("split", "C", State.MOVED, "rest.Split? -> newjob rest.Dup? -> leaving"),
    Stage("split", "R", State.MOVED, "rest.Split rest.Dup -> leaving"),
    Stage("part", "CR", State.MOVED, "leaving.Ibarrier?"),
    Stage("part", "C", State.MOVED, "newjob.Ibarrier? leaving.Free? rest.Free?"),
    Stage("part", "R", State.MOVED, "leaving.Free rest.Free"),
    _grid("C", State.MOVED, "newjob"),
    Stage("restore", "C", State.MOVED, "newjob.Iallgather* newjob.Ibcast* newjob.Iallgather+"),
)

TABLES = {
    "expand": EXPAND, "shrink": SHRINK, "regrid": REGRID, "restart": RESTART, "retreat": RETREAT,
    "loss": LOSS,
}  # fmt: skip

# What may follow what. A resize is over in the last four, which nothing follows.
TRANSITIONS: dict[State, frozenset[State]] = {
    State.ORDERED: frozenset(
        {State.STARTING, State.MOVING, State.MOVED, State.POSTPONED, State.ABORTED, State.ENDED}
    ),
    State.STARTING: frozenset({State.MERGED, State.ABORTED, State.ENDED}),
    State.MERGED: frozenset({State.MOVING, State.RETREATING, State.ENDED}),
    State.MOVING: frozenset(
        {State.MOVED, State.COMMITTED, State.RETREATING, State.ABORTED, State.ENDED}
    ),
    State.MOVED: frozenset({State.COMMITTED, State.ENDED}),
    State.RETREATING: frozenset({State.ABORTED, State.ENDED}),
    State.COMMITTED: frozenset(),
    State.ABORTED: frozenset(),
    State.POSTPONED: frozenset(),
    State.ENDED: frozenset(),
}
