"""Runs the tables of a resize (harness/resize_protocol.py) on ranks that are not there.

A collective call ends when every member of its communicator makes it; ranks that wait for
different calls are a deadlock. One rank may meet an error at any stage.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from harness.resize_calls import Call, calls_of, failed, of_role
from harness.resize_protocol import TRANSITIONS, Failure, Role, Stage, State, Table

Ranks: TypeAlias = Sequence[Role]
Times: TypeAlias = Callable[[str], int]  # how often a call with ?, * or + is made, by all ranks


class Deadlock(AssertionError):
    """Ranks wait for calls that never come."""


@dataclass(eq=False)
class Comm:
    """A communicator; each rank has a name of its own for it."""

    members: frozenset[int]
    freed: set[int] = field(default_factory=set)


@dataclass
class Rank:
    """What one rank has. `old`: it still has its old parts; `new`: its new ones are complete."""

    number: int
    role: Role
    names: dict[str, Comm]
    program: Generator[Call, Comm | None, None] | None = None
    waits: Call | None = None
    state: State = State.ORDERED
    old: bool = True
    new: bool = False
    gone: bool = False


@dataclass
class Simulation:
    """One resize. `error`: the name of a stage, and the number of the rank that fails there."""

    table: Table
    roles: Ranks
    times: Times
    error: tuple[str, int] | None = None
    told: list[State] = field(default_factory=list)  # what rank 0 has sent
    ranks: list[Rank] = field(default_factory=list)
    ended: bool = False

    def run(self) -> None:
        """To the end. Raises Deadlock, or AssertionError where an invariant does not hold."""
        self._begin()
        while not self.ended:
            moved = False
            for rank in self.ranks:
                if rank.waits is not None and self._completes(rank, rank.waits):
                    moved = True
            if not moved:
                break
        if self.ended:
            return
        self._keeper_ends_who_was_not_merged()
        waiting = {rank.number: rank.waits for rank in self.ranks if rank.waits is not None}
        if waiting:
            raise Deadlock(waiting)

    def _begin(self) -> None:
        before = frozenset(k for k, r in enumerate(self.roles) if r is not Role.JOINING)
        joins = frozenset(range(len(self.roles))) - before
        shared = {"job": Comm(before), "own": Comm(before)}
        world = Comm(joins)
        counts: dict[tuple[str, int], int] = {}

        def times(at: str, k: int, call: Call) -> int:
            """The same on every rank; for a node's communicator all calls or none."""
            key = ("node", 0) if "node" in (call.comm, call.makes) else (at, k)
            if key not in counts:
                counts[key] = self.times(call.times)
            return counts[key]

        for number, role in enumerate(self.roles):
            alone = {name: Comm(frozenset({number})) for name in ("row", "col")}
            names = {"world": world} if role is Role.JOINING else {**shared, **alone}
            rank = Rank(number, role, names, old=role is not Role.JOINING)
            self.ranks.append(rank)
            rank.program = self._program(rank, times)
            self._advance(rank, None)

    def _program(
        self, rank: Rank, times: Callable[[str, int, Call], int]
    ) -> Generator[Call, Comm | None, None]:
        table, agreed_at = self.table, self._fails_at()
        for at, stage in enumerate(table):
            if rank.role.value not in stage.roles:
                continue
            self._enters(rank, stage.state)
            if stage.name in ("move", "restore"):
                rank.new = rank.role is not Role.RETIRING  # its parts are filled: that is agreed on
            if self.error == (stage.name, rank.number) and not stage.agrees:
                self._ends(rank)
                return
            for k, call in enumerate(calls_of(stage.calls)):
                last = stage.agrees and k == len(calls_of(stage.calls)) - 1
                count = times(f"{stage.name} {stage.calls}", k, call)
                # Nothing can fail behind an agreement that is not made.
                for _ in range(max(count, 1) if last and at == agreed_at else count):
                    yield call
            if at == agreed_at:
                yield from self._undo(rank, stage, times)
                return
        self._enters(rank, State.COMMITTED)
        self._drops_old(rank)

    def _undo(
        self, rank: Rank, stage: Stage, times: Callable[[str, int, Call], int]
    ) -> Generator[Call, Comm | None, None]:
        for at, each in enumerate(of_role(failed(self.table, stage.name), rank.role)):
            if at < len(of_role(self.table[: self.table.index(stage) + 1], rank.role)):
                continue
            self._enters(rank, each.state)
            for k, call in enumerate(calls_of(each.calls)):
                for _ in range(times(f"{each.name} {each.calls}", k, call)):
                    yield call
        rank.new = False
        postponed = stage.failure is Failure.POSTPONE
        self._enters(rank, State.POSTPONED if postponed else State.ABORTED)

    def _fails_at(self) -> int | None:
        """The stage at whose end all ranks know of an error."""
        if self.error is None:
            return None
        name, number = self.error
        role = self.roles[number].value
        return next(
            (
                k for k, stage in enumerate(self.table)
                if stage.name == name and stage.agrees and role in stage.roles
            ),
            None,
        )  # fmt: skip

    # --- what ranks do ------------------------------------------------------------------------

    def _enters(self, rank: Rank, state: State) -> None:
        if state is rank.state:
            return
        assert state in TRANSITIONS[rank.state], (rank.state, state)
        rank.state = state
        over = state in (State.COMMITTED, State.ABORTED)
        if over and rank.number == self._first():
            self.told.append(state)

    def _first(self) -> int:
        """Who is rank 0 when the resize is over."""
        aborted = any(rank.state is State.ABORTED for rank in self.ranks)
        stay = [r.number for r in self.ranks if aborted or r.role is not Role.RETIRING]
        return min(stay, default=0)

    def _drops_old(self, rank: Rank) -> None:
        rank.old = False
        if not any(stage.state is State.MOVING for stage in self.table):
            return  # the data come from a copy
        for other in self.ranks:
            assert other.new or other.role is Role.RETIRING, "somebody still reads its old parts"

    def _ends(self, rank: Rank) -> None:
        """MPI_Abort: nothing is left of the job but its copy."""
        self._enters(rank, State.ENDED)
        self.ended = True

    def _keeper_ends_who_was_not_merged(self) -> None:
        """New ranks that wait for a job that does without them."""
        over = {State.ABORTED, State.POSTPONED}
        if not any(rank.state in over for rank in self.ranks):
            return
        for rank in self.ranks:
            if rank.role is Role.JOINING and rank.state is State.STARTING:
                assert rank.waits is not None
                assert rank.waits.comm == "world"
                rank.waits, rank.gone = None, True

    def _advance(self, rank: Rank, made: Comm | None) -> None:
        assert rank.program is not None
        try:
            rank.waits = rank.program.send(made)
        except StopIteration:
            rank.waits = None

    def _completes(self, rank: Rank, call: Call) -> bool:
        """Whether the call that this rank waits in has come to its end, on all members."""
        comm = rank.names[call.comm] if call.comm != "any" else Comm(frozenset({rank.number}))
        members = comm.members
        if call.name == "Create_group":
            members = frozenset(other.number for other in self.ranks)
        makes = frozenset(members)
        if call.name in ("Connect", "Accept"):
            makes = members = frozenset(range(len(self.roles)))
        there = [self.ranks[number] for number in sorted(members)]
        for other in there:
            if other.waits is None or other.waits.name not in _meets(call.name):
                return False
            if call.name not in ("Connect", "Accept") and call.comm != "any":
                assert other.names[other.waits.comm] is comm, (other.waits, call)
        made: dict[str, Comm] = {}
        for other in there:
            assert other.waits is not None
            name, of = other.waits.makes, makes
            if name and call.name == "Split":
                same = frozenset(r.number for r in there if r.waits and r.waits.makes == name)
                of = frozenset({other.number}) if name[-3:] in ("row", "col") else same
            if name:
                whose = f"{name} {other.number}" if len(of) == 1 else name
                other.names[name] = made.setdefault(whose, Comm(of))
            if call.name in ("Free", "Disconnect") and other.waits.comm != "any":
                del other.names[other.waits.comm]
        for other in there:
            self._advance(other, None)
        return True


def _meets(name: str) -> tuple[str, ...]:
    return ("Connect", "Accept") if name in ("Connect", "Accept") else (name,)
