"""What a session offers to declare: the data that every resize redistributes.

Each object is declared once, before the loop, by every rank with the same arguments; ranks that
join later run the same declarations and receive their share instead of initialising it. After a
resize `local` is a new array: fetch it again, do not keep it. docs/arrays.md shows each kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike

from resize_lib.declared.base import Weights
from resize_lib.declared.cartesian import Cartesian, InitND, blocks
from resize_lib.declared.csr import CSR, row_layout
from resize_lib.declared.dense import Array, Init1D, Init2D, Layout, Matrix, weighted
from resize_lib.declared.device import DeviceName
from resize_lib.declared.items import Items, Owner
from resize_lib.declared.kept import Kept
from resize_lib.declared.local_state import Join, Leave, LocalState
from resize_lib.declared.packed import Packed, Parcel, Value
from resize_lib.descriptors import (
    Block1D,
    BlockCyclic,
    Custom,
    Cyclic1D,
    DescriptorError,
    Pack,
    Unpack,
)
from resize_lib.descriptors.axes import whole_number
from resize_lib.legal import check_size, legal_sizes
from resize_lib.mistakes import caller
from resize_lib.redistribution.types import Order

if TYPE_CHECKING:
    from resize_lib.runtime import Runtime

T = TypeVar("T")
Declaration = TypeVar("Declaration", bound="Dense | Packed")
Dense: TypeAlias = Matrix | Array | Cartesian


class Declaring:
    """The part of a session that declares. All names of one session differ."""

    _session: Runtime

    def matrix(
        self,
        name: str,
        m: int,
        n: int,
        *,
        block: int | tuple[int, int] = 64,
        init: Init2D | float = 0.0,
        dtype: DTypeLike = np.float64,
    ) -> Matrix:
        """Declare an `m` x `n` matrix, block-cyclic in `block` (square, or rows by columns).

        `init`: a number, or a function of global row indices (k x 1) and column indices (1 x l)
        that returns the k x l values.
        """
        mb, nb = (block, block) if isinstance(block, int) else block
        matrix = Matrix(self._session, self._fresh(name), BlockCyclic(m, n, mb, nb), dtype)
        return self._declared(matrix, init)

    def array(
        self,
        name: str,
        shape: int | tuple[int, ...],
        trailing: tuple[int, ...] = (),
        *,
        layout: Literal["block", "cyclic", "weighted"] = "block",
        block: int = 1,
        weights: Weights = (),
        init: Init1D | float = 0.0,
        dtype: DTypeLike = np.float64,
        device: DeviceName = "cpu",
    ) -> Array:
        """Declare an array, its first axis distributed.

        `shape`: of the whole array; a number is that of its items, each of shape `trailing`.
        `init`: a number, or a function of the global indices that returns their items.
        `weights` of a weighted layout: one number for each rank 0, 1, ... of the largest size the
        job may have, or a function of the ranks' places (with their `processor`, `node`, `speed`)
        that returns one number each, the same on every rank; without, the speeds of the nodes.
        `device`: "cupy" keeps the part in a GPU's memory; it moves through the host.
        """
        n, trailing = _split_shape(shape, trailing)
        desc: Block1D | Cyclic1D
        if layout == "weighted":
            lay_out: Layout = weighted(n, trailing, weights)
        elif layout in ("block", "cyclic"):
            desc = Block1D(n, trailing) if layout == "block" else Cyclic1D(n, block, trailing)
            lay_out = lambda _: desc  # noqa: E731
        else:
            raise DescriptorError(f"unknown layout {layout!r}; known: block, cyclic, weighted")
        array = Array(self._session, self._fresh(name), lay_out, dtype, device)
        return self._declared(array, init)

    def value(self, name: str, value: T) -> Value[T]:
        """Declare a Python value that is the same on all ranks; joining ranks get rank 0's."""
        held = Value(self._fresh(name), value)
        held.where = caller()
        self._session.values[name] = held
        return held

    def keep(self, **objects: Any) -> None:
        """Declare objects of the program that are the same on all ranks and stay as they are.

        `rs.keep(losses=losses, rng=rng)`: a rank that joins has made them in its set-up, too; they
        get the contents of rank 0's in place (kept.py), so the loop goes on using its own names.
        Change them, in place and on all ranks alike; a name that is bound to another object is no
        longer kept.

        Raises:
            DescriptorError: an object that cannot be filled in place: a number, a tuple, a string.
        """
        kept = [Kept(self._fresh(name), held) for name, held in objects.items()]
        for each in kept:
            each.where = caller()
        self._session.values.update({held.name: held for held in kept})

    def parcel(self, name: str, value: Any, pack: Pack, unpack: Unpack) -> Parcel:
        """Declare data that `pack` cuts and `unpack` joins (see descriptors.Custom)."""
        parcel = Parcel(self._session, self._fresh(name), Custom(pack, unpack, name), value)
        return self._declared(parcel)

    def cartesian(
        self,
        name: str,
        shape: int | Sequence[int],
        *,
        axes: int | Sequence[int] | None = None,
        halo: int | Sequence[int] = 1,
        periodic: bool | Sequence[bool] = False,
        dims: Sequence[int] | None = None,
        init: InitND | Any = 0.0,
        dtype: DTypeLike = np.float64,
        order: Order = "C",
        device: DeviceName = "cpu",
    ) -> Cartesian:
        """Declare a block array of any dimension, with ghosts, on a Cartesian grid of all ranks.

        `axes`: the dimensions that are distributed, ascending (default: all); the others stay
        whole and have no ghosts. `halo`, `periodic`: for all of them, or one value each. `dims`, as
        for MPI.Compute_dims: 0 where the library chooses, 1 for an axis that has ghosts but is not
        cut. `init`: a number, or a function of the global indices, one array per dimension, which
        broadcast as numpy's open meshes do; it fills the interior. `order`: of memory. `device`:
        "cupy" keeps the part in a GPU's memory; it moves, and its ghosts do, through the host.

        The grid is the most balanced one (`resize_lib.balanced_dims`): 12 ranks on two axes are
        4 x 3. Blocks of an axis differ by at most one in size, the first ones are larger. Small
        axes may leave ranks without any items: that is legal.

        Raises:
            DescriptorError: a value that cannot be.
        """
        desc = blocks(shape, axes, halo, periodic, dims)
        array = Cartesian(self._session, self._fresh(name), desc, dtype, order, device)
        return self._declared(array, init)

    def csr(
        self,
        name: str,
        shape: tuple[int, int],
        *,
        layout: Literal["block", "weighted"] = "block",
        weights: Weights = (),
        init: Any = None,
        dtype: DTypeLike = np.float64,
    ) -> CSR:
        """Declare a sparse matrix in compressed rows, distributed by rows.

        `init`: the whole matrix (scipy.sparse, or (data, indices, indptr), or a dense array), of
        which each rank keeps its rows; or a function of the global row indices, which returns
        those rows, all columns wide, in any of these forms; None: no entries. `layout` and
        `weights`: see `array`.

        Raises:
            DescriptorError: a value that cannot be, or rows that do not fit.
        """
        if len(shape) != 2:
            raise DescriptorError(f"{name!r}: a sparse matrix has two dimensions, not {shape}")
        rows, columns = (whole_number(f"{name!r}: an extent", extent, 0) for extent in shape)
        if layout not in ("block", "weighted"):
            raise DescriptorError(f"unknown layout {layout!r}; known: block, weighted")
        by_weight = weighted(rows, (), weights) if layout == "weighted" else None
        found = row_layout(rows, by_weight)
        matrix = CSR(self._session, self._fresh(name), (rows, columns), found, dtype)
        return self._declared(matrix, init)

    def items(
        self,
        name: str,
        dtype: DTypeLike,
        *,
        owner: Owner,
        init: Any = None,
        key: str | None = None,
    ) -> Items:
        """Declare items that move between ranks, such as particles: any number on each rank.

        `owner(items, size)`: the rank of each item in a job of `size` ranks, as an array of whole
        numbers; called by `migrate` and by every resize. `init`: all items, the same array on every
        rank, or a function of rank and size that returns a share. `key`: a field that they are
        sorted by wherever they arrive.

        Raises:
            DescriptorError: a value that cannot be.
        """
        items = Items(self._session, self._fresh(name), dtype, owner, key)
        return self._declared(items, init)

    def local_state(
        self, name: str, value: Any, *, leave: Leave = "drop", join: Join | None = None
    ) -> LocalState:
        """Declare a value that belongs to this process, and what becomes of it.

        `leave`, when its rank leaves: "drop"; "gather": it comes to `gathered` of rank 0; or
        a function of rank 0's value and the list of the leavers', which returns rank 0's new value.
        `join(rank, size)`: the value of a rank that joins; default: what it declares itself.

        Raises:
            DescriptorError: a rule that is none.
        """
        state = LocalState(self._session, self._fresh(name), value, leave, join)
        return self._declared(state)

    def legal(self, *rule: Any) -> None:
        """Declare the sizes that the program can run on, before the loop: no other is ordered.

        As `legal=` of the session, in one word or several: `rs.legal("divides", n)`,
        `rs.legal("powers")`, `rs.legal([1, 2, 6])`, `rs.legal(lambda size: ...)`.

        Raises:
            LegalSizesError: it is no rule, or does not allow the present size.
        """
        session = self._session
        session.legal_sizes = legal_sizes(rule[0] if len(rule) == 1 else rule)
        check_size(session)
        if session.link is not None and self._session.loops.arrived:  # rank 0, where the job starts
            session.link.hello(session.size, session.legal_sizes)

    @property
    def cart(self) -> MPI.Cartcomm:
        """The Cartesian communicator now: `Cartesian.cart` of the array declared first.

        Raises:
            DescriptorError: no Cartesian array is declared.
        """
        arrays = (item for item in self._session.declared.values() if isinstance(item, Cartesian))
        first = next(arrays, None)
        if first is None:
            raise DescriptorError("rs.cart: declare an array with rs.cartesian first")
        return first.cart

    def _declared(self, item: Declaration, *init: Any) -> Declaration:
        """Keep what was declared; filled, unless its contents come from the job."""
        if init and self._session.loops.arrived:
            cast(Any, item).initialise(*init)
        elif isinstance(item, Array | Matrix):
            item.await_data()
        self._session.declared[item.name] = item
        return item

    def _fresh(self, name: str) -> str:
        if name in self._session.declared or name in self._session.values:
            raise DescriptorError(f"{name!r} is declared twice: names must differ")
        return name


def _split_shape(
    shape: int | tuple[int, ...], trailing: tuple[int, ...]
) -> tuple[Any, tuple[int, ...]]:
    """The number of items, and the shape of one."""
    extents: tuple[Any, ...] = (shape,)
    if isinstance(shape, tuple | list) and shape:
        extents = tuple(shape)
    return extents[0], (*extents[1:], *trailing)
