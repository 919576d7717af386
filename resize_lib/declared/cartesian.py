"""Block arrays of any dimension on a Cartesian grid, with ghosts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from dq_client.base.messages import RankPlace
from resize_lib.declared.base import Move, plain_dtype
from resize_lib.declared.device import Device, DeviceName
from resize_lib.declared.ghosts import GhostExchange, GhostPlan
from resize_lib.descriptors import CartesianBlocks, DescriptorError, ProcessGrid
from resize_lib.redistribution import Arena, MovingArray
from resize_lib.redistribution.types import Order

if TYPE_CHECKING:
    from resize_lib.runtime import Runtime

InitND: TypeAlias = Callable[..., Any]
T = TypeVar("T")


def blocks(
    shape: int | Sequence[int],
    axes: int | Sequence[int] | None,
    halo: int | Sequence[int],
    periodic: bool | Sequence[bool],
    dims: Sequence[int] | None,
) -> CartesianBlocks:
    """The descriptor of what a program says (`Session.cartesian`), single values for all axes."""
    extents = _each(shape)
    count = len(extents)
    if axes is None:
        cut = tuple(range(count))
    else:
        cut = tuple(a + count if -count <= a < 0 else a for a in _each(axes))
    each = len(cut)
    return CartesianBlocks(
        extents,
        cut,
        _each(halo, each),
        _each(periodic, each),
        (0,) * each if dims is None else tuple(dims),
    )


def _each(value: T | Sequence[T], count: int = 1) -> tuple[T, ...]:
    """A list as it is, a single value so many times."""
    return tuple(value) if isinstance(value, Iterable) else (value,) * count


class Cartesian:
    """A block array of any dimension, over some of its axes, with ghosts (`rs.cartesian`).

    Global   `shape`, without ghosts; `dims` ranks along the distributed axes
    Local    `local`: this rank's block with its ghosts around; `interior`: a view of the block
             alone, its global indices are `ranges`. After a resize they are other arrays: fetch
             them again
    dtype    any without Python objects; order: of memory, "C" or "F"
    Errors   DescriptorError at the declaration, and for indices outside; a resize that fails leaves
             all parts as they were

    `exchange` fills the ghosts. A resize moves the interior, and the ghosts beyond borders that are
    not periodic (they are the program's boundary values). The library fills the other ghosts anew
    after a resize if the program has ever called `exchange`, so that may stand at the begin or at
    the end of an iteration; without any call they are 0.
    """

    def __init__(
        self,
        session: Runtime,
        name: str,
        desc: CartesianBlocks,
        dtype: DTypeLike,
        order: Order = "C",
        device: DeviceName = "cpu",
    ) -> None:
        if order not in ("C", "F"):
            raise DescriptorError(f"{name!r}: order is {order!r}, not C or F")
        self._session, self.name, self.desc = session, name, desc
        self.dtype: np.dtype[Any] = plain_dtype(name, dtype)
        self.order: Order = order
        self._device = Device(name, device)
        self._local: Any = None  # until it is initialised, or the data arrive
        self._moved: NDArray[Any] | None = None  # what the last resize took from here
        self._exchange: tuple[object, GhostExchange] | None = None

    # --- where this rank is ---------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Global shape, without ghosts."""
        return self.desc.shape

    @property
    def dims(self) -> tuple[int, ...]:
        """The Cartesian grid now: ranks along each of the distributed axes."""
        return self.desc.cart_dims(self._session.size)

    @property
    def coords(self) -> tuple[int, ...]:
        """This rank's coordinates on that grid."""
        return self.desc.cart_coords(self._session.size, self._session.rank)

    @property
    def cart(self) -> MPI.Cartcomm:
        """The Cartesian communicator now: `Shift`, `Sub`, `coords`. Collective the first time.

        Ranks are those of `rs.comm`. Unlike that it is another object after a resize.
        """
        return self._session.grid.cart(self.dims, self.desc.periodic)

    @property
    def ranges(self) -> tuple[range, ...]:
        """Global indices of the interior, one range per dimension."""
        grid = self._session.grid
        return self.desc.ranges(grid.shape, grid.rank)

    @property
    def indices(self) -> tuple[NDArray[np.int64], ...]:
        """The same as an open mesh: arrays that broadcast to the shape of the interior."""
        return np.ix_(*(np.arange(r.start, r.stop, dtype=np.int64) for r in self.ranges))

    def owners(self, indices: Sequence[Any], size: int | None = None) -> NDArray[np.int64]:
        """The ranks whose interior holds global `indices` (one array or number per dimension).

        On `size` ranks; default: now. Raises DescriptorError for an index outside.
        """
        count = self._session.size if size is None else size
        return self.desc.owners(indices, count)

    # --- data -----------------------------------------------------------------------------

    @property
    def local(self) -> Any:
        """This rank's block with its ghosts. May be set to an array of the same shape and dtype."""
        if self._local is None:
            # A rank that joins runs the program's set-up before its data arrive: it may write here.
            grid = self._session.grid
            self._local = self._device.from_host(self._empty(np.empty, grid.shape, grid.rank))
        return self._local

    @local.setter
    def local(self, array: Any) -> None:
        held, kind = self.local.shape, self._device.array_type
        if not isinstance(array, kind) or array.shape != held or array.dtype != self.dtype:
            raise DescriptorError(
                f"{self.name!r}: local is {held} of {self.dtype} here, ghosts"
                f" included; it cannot become {type(array).__name__} {np.shape(array)} of"
                f" {getattr(array, 'dtype', 'no dtype')}"
            )
        self._local = array

    @property
    def interior(self) -> Any:
        """This rank's block: a view of `local` without ghosts."""
        grid = self._session.grid
        return self.local[self.desc.interior(grid.shape, grid.rank)]

    @interior.setter
    def interior(self, values: Any) -> None:  # so that `u.interior += 1` works
        self.interior[...] = values

    def margin(self, axis: int, side: int) -> Any:
        """View of the ghosts beyond the border of dimension `axis` (`side` -1: low, 1: high).

        For the program's boundary values. Has no items on ranks that are not at
        this border, and for axes that are periodic or not distributed.
        """
        if side not in (-1, 1):
            raise DescriptorError(f"{self.name!r}: a side is -1 (low) or 1 (high), not {side!r}")
        axis = range(self.desc.dimensions)[axis]
        grid = self._session.grid
        owned = self.desc.owned(grid.shape, grid.rank)[axis]
        inner = self.desc.interior(grid.shape, grid.rank)[axis]
        found = slice(owned.start, inner.start) if side < 0 else slice(inner.stop, owned.stop)
        if found.stop < found.start:  # an empty part
            found = slice(0, 0)
        return self.local[(slice(None),) * axis + (found,)]

    def exchange(self) -> Any:
        """Fill the ghosts from the ranks that own them, faces, edges and corners. Collective.

        Returns `local`, with the ghosts filled: `u = U.exchange()` at the begin or the end of an
        iteration. Before the loop it does nothing in ranks that join: their ghosts are filled when
        they have their data.

        Ghosts beyond a border that is not periodic keep the values that the rank at the border
        gave them (`margin`).
        """
        session = self._session
        session.job.exchanged.add(self.name)
        if not session.arriving:
            self._fill_ghosts()
        return self.local

    def renew_ghosts(self) -> None:
        """Fill the ghosts where the data have come from other ranks. Collective."""
        known = self._exchange is not None and self._exchange[0] is self._session.grid
        if self.name in self._session.job.exchanged and not known:
            self._fill_ghosts()

    def _fill_ghosts(self) -> None:
        grid = self._session.grid
        if self._exchange is None or self._exchange[0] is not grid:
            plan = GhostPlan(self.desc, grid.shape, grid.rank)
            self._exchange = grid, GhostExchange(plan, self.dtype, self._device)
        self._exchange[1].run(self.local, grid)

    def gather(self, root: int = 0) -> NDArray[Any] | None:
        """The whole array, without ghosts, on rank `root`; None on the others. Collective.

        For output and checks. That rank needs memory for twice the array.
        """
        session = self._session
        if session.arriving and root != session.rank:
            return None
        parts = session.comm.gather((self.ranges, self._device.to_host(self.interior)), root)
        if parts is None:
            return None
        whole: NDArray[Any] = np.empty(self.shape, self.dtype, self.order)
        for where, part in parts:
            whole[tuple(slice(r.start, r.stop) for r in where)] = part
        return whole

    def initialise(self, init: InitND | Any) -> None:
        """Fill the interior: a number, or a function of the global indices (an open mesh)."""
        grid = self._session.grid
        local = self._empty(self._session.arena.empty, grid.shape, grid.rank)
        where = self.desc.interior(grid.shape, grid.rank)
        local[where] = init(*self.indices) if callable(init) else init
        self._local = self._device.from_host(local)

    def _empty(
        self, empty: Callable[..., NDArray[Any]], grid: ProcessGrid, rank: int
    ) -> NDArray[Any]:
        """A local array for a rank of a grid, its ghosts 0, its interior undefined."""
        local = empty(self.desc.stored_shape(grid, rank), self.dtype, self.order)
        for axis, inner in enumerate(self.desc.interior(grid, rank)):
            for ghosts in (slice(0, inner.start), slice(inner.stop, None)):
                local[(slice(None),) * axis + (ghosts,)] = np.zeros((), self.dtype)
        return local

    # --- resizes --------------------------------------------------------------------------

    def part_bytes(self, grid: ProcessGrid, rank: int, places: Sequence[RankPlace]) -> int:  # noqa: ARG002
        """Size of the part that a rank of this grid holds."""
        return prod(self.desc.stored_shape(grid, rank)) * self.dtype.itemsize

    @property
    def owned(self) -> NDArray[Any]:
        """Items that a resize moves and a copy holds: the interior, and margins at borders."""
        grid = self._session.job.grid
        return self._device.to_host(self.local[self.desc.owned(grid, self._session.rank)])

    def restore(self, part: NDArray[Any]) -> None:
        """Go on with a part from a copy, on the session's grid."""
        grid = self._session.grid
        local = self._empty(self._session.arena.empty, grid.shape, grid.rank)
        local[self.desc.owned(grid.shape, grid.rank)] = part
        self._local = self._device.from_host(local)
        self._exchange = None  # the ghosts are empty: `renew_ghosts` fills them

    def moving(self, move: Move) -> MovingArray:
        """For the redistribution."""
        grid = ProcessGrid(1, len(move.before))
        self._moved = None
        if not move.joining:
            rank = move.old_ranks.index(self._session.comm.rank)
            self._moved = self._device.to_host(self.local[self.desc.owned(grid, rank)])
        return MovingArray(
            self.name,
            self.desc,
            self.dtype,
            self._moved,
            order=self.order,
            allocate=self._allocate,
        )

    def _allocate(self, arena: Arena, grid: ProcessGrid, rank: int) -> NDArray[Any]:
        return self._empty(arena.empty, grid, rank)[self.desc.owned(grid, rank)]

    def take(self, value: Any) -> None:
        """The new local part."""
        if value is self._moved:
            # Nothing has changed; another object all the same, as after every resize.
            self._local = self._local.view()
        else:
            assert isinstance(value.base, np.ndarray), "it was cut out of a larger one"
            self._local = self._device.from_host(value.base)
        self._moved = None

    def lay_out(self, places: Sequence[RankPlace]) -> None:
        """Nothing to do: the layout follows from the size."""

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.shape))
        here = ", ".join(f"{r.start}:{r.stop}" for r in self.ranges)
        return (
            f"<Cartesian {self.name!r}: {shape} {self.dtype} over axes {self.desc.cut} on a"
            f" {' x '.join(map(str, self.dims))} grid, halo {self.desc.halo}, here [{here}]>"
        )
