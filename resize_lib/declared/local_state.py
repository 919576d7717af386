"""Values that belong to a process, and what becomes of them when processes leave and join."""

# ruff: noqa: ARG002 - signatures are those of descriptors.Custom, and of all declared objects
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from mpi4py import MPI

from resize_lib.declared.base import Move
from resize_lib.declared.packed import Packed
from resize_lib.descriptors import Custom, DescriptorError, ProcessGrid
from resize_lib.redistribution import MovingArray

if TYPE_CHECKING:
    from resize_lib.runtime import Runtime

Merge: TypeAlias = Callable[[Any, list[Any]], Any]
Leave: TypeAlias = Literal["drop", "gather"] | Merge
Join: TypeAlias = Callable[[int, int], Any]


class State(NamedTuple):
    """What one process has, and the rank that it has or had."""

    rank: int
    value: Any
    gathered: list[Any]


class LocalState(Packed):
    """A value of this process alone: a random generator, a counter, a cache (`rs.local_state`).

    Global   none; every process has its own
    Local    `value`; on rank 0 also `gathered`
    dtype    any Python value; with "gather" or a function it must be such as pickle takes
    Errors   DescriptorError for an unknown rule; an exception in `leave` or `join`, or a value
             that cannot be pickled, aborts the resize

    The value stays with its process as long as that is in the job, under any rank. `leave` decides
    about the values of retiring ranks: "drop"; "gather", which appends them to `gathered` of rank
    0, in rank order; or a function of rank 0's value and the list of theirs, which returns rank 0's
    new value. The function must not change the old value, because the resize may still be aborted.
    Values are sent as pickles.

    A rank that joins has the value that its own declaration gives it, or `join(rank, size)`.
    """

    def __init__(
        self, session: Runtime, name: str, value: Any, leave: Leave, join: Join | None
    ) -> None:
        if not (leave in ("drop", "gather") or callable(leave)):
            raise DescriptorError(
                f"{name!r}: leave is {leave!r}; known: 'drop', 'gather', or a function of rank 0's"
                " value and the list of the leavers'"
            )
        super().__init__(session, name, State(session.rank, value, []))
        self._leave, self._join = leave, join

    @property
    def value(self) -> Any:
        """This process's value."""
        return self.held.value

    @value.setter
    def value(self, value: Any) -> None:
        self.held = self.held._replace(value=value)

    @property
    def gathered(self) -> list[Any]:
        """The values of ranks that have left (`leave="gather"`), oldest first; on rank 0 only."""
        found: list[Any] = self.held.gathered
        return found

    def moving(self, move: Move) -> MovingArray:
        """For the redistribution."""
        if not move.joining:
            self.held = self.held._replace(rank=self._session.comm.rank)
        return super().moving(move)

    def cutting(self, move: Move) -> Custom:
        """Cut values of retiring ranks for the new rank 0; all others stay in place."""
        stays = frozenset(old for old, r in enumerate(move.old_ranks) if r in move.new_ranks)
        joins = frozenset(new for new, r in enumerate(move.new_ranks) if r not in move.old_ranks)
        return Custom(
            partial(self._pack, stays), partial(self._unpack, joins), f"state {self.name}"
        )

    @property
    def desc(self) -> Custom:
        """For copies: a value comes back on the rank that had it."""
        return Custom(self._pack_copy, self._unpack_copy, f"state {self.name}")

    def _pack(
        self, stays: frozenset[int], held: State, old_grid: ProcessGrid, old_rank: int,
        new_grid: ProcessGrid,
    ) -> list[bytes]:  # fmt: skip
        pieces = [b""] * new_grid.size
        if old_rank not in stays and self._leave != "drop":
            pieces[0] = bytes(MPI.pickle.dumps(held._replace(rank=old_rank)))
        return pieces

    def _unpack(
        self, joins: frozenset[int], pieces: Sequence[bytes], old_grid: ProcessGrid,
        new_rank: int, new_grid: ProcessGrid,
    ) -> State:  # fmt: skip
        if new_rank in joins:
            return self._joined(new_rank, new_grid.size)
        return self._merged(self.held, [MPI.pickle.loads(piece) for piece in pieces if piece])

    def _pack_copy(
        self,
        held: State,
        old_grid: ProcessGrid,
        old_rank: int,
        new_grid: ProcessGrid,
    ) -> list[bytes]:
        pieces = [b""] * new_grid.size
        if old_rank < new_grid.size or self._leave != "drop":
            to = old_rank if old_rank < new_grid.size else 0
            pieces[to] = bytes(MPI.pickle.dumps(held._replace(rank=old_rank)))
        return pieces

    def _unpack_copy(
        self,
        pieces: Sequence[bytes],
        old_grid: ProcessGrid,
        new_rank: int,
        new_grid: ProcessGrid,
    ) -> State:
        found: list[State] = [MPI.pickle.loads(piece) for piece in pieces if piece]
        mine = [held for held in found if held.rank == new_rank]
        kept = mine[0] if mine else self._joined(new_rank, new_grid.size)
        return self._merged(kept, [held for held in found if held.rank != new_rank])

    def _joined(self, rank: int, size: int) -> State:
        value = self.held.value if self._join is None else self._join(rank, size)
        return State(rank, value, [])

    def _merged(self, mine: State, left: list[State]) -> State:
        """`mine`, of rank 0, with what ranks that left had."""
        if not left:
            return mine
        values = [held.value for held in sorted(left, key=lambda held: held.rank)]
        if callable(self._leave):
            return mine._replace(value=self._leave(mine.value, values))
        earlier = [value for held in (mine, *left) for value in held.gathered]
        return mine._replace(gathered=[*earlier, *values])

    def __repr__(self) -> str:
        rule = self._leave if isinstance(self._leave, str) else "merge"
        return f"<LocalState {self.name!r} (leave: {rule}): {self.value!r}>"
