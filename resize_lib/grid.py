"""A process grid with its communicators, and how its ranks wait for messages.

``ProcessGrid`` (descriptors) is the shape alone; ``Grid`` is that shape on a communicator: ranks in
row-major order, one communicator per grid row and one per grid column. Kernels talk over those two.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from resize_lib.descriptors import ProcessGrid
from resize_lib.emulation import pacing
from resize_lib.job_comm import GridCart, as_grid_comm
from resize_lib.waiting import wait_all

WaitMode: TypeAlias = Literal["auto", "block", "nap"]


class GridError(ValueError):
    """Raised for a grid that does not fit its communicator; the text names both sizes."""


class Grid:
    """``rows`` x ``cols`` processes on ``comm``; collective over ``comm``.

    ``comm`` stays the caller's; the row and column communicators, and those of ``cart`` and
    ``ghost_comm``, are this object's own and go with ``free()``. ``row_comm`` holds the ranks of my
    grid row (ranked by column), ``col_comm`` those of my grid column (ranked by row).
    ``own_comm`` is the library's, for messages that must not meet the application's.

    ``wait`` selects how ranks wait: "block" inside MPI (fastest, but polls), "nap" between tests
    (for more ranks than cores), "auto" naps exactly when this node has more ranks than
    processors they may run on. The environment variable DQ_WAIT overrides "auto": emulated
    nodes that share a host cannot see each other's ranks.

    Raises:
        GridError: ``comm`` does not have rows x cols ranks, or DQ_WAIT is none of the three.
        DescriptorError: a side below 1.
    """

    # Made when they are first asked for, which most programs never do.
    _carts: Mapping[tuple[tuple[int, ...], tuple[bool, ...]], MPI.Cartcomm] = MappingProxyType({})
    _ghost_comm: MPI.Intracomm | None = None

    def __init__(
        self, comm: MPI.Intracomm, rows: int, cols: int, *, wait: WaitMode = "auto"
    ) -> None:
        self.shape = ProcessGrid(rows, cols)
        if comm.size != self.shape.size:
            raise GridError(
                f"a {self.shape} grid needs {self.shape.size} ranks, "
                f"the communicator has {comm.size}"
            )
        self.comm = as_grid_comm(comm)
        self.own_comm = MPI.Intracomm(comm).Dup()
        self.rank: int = comm.rank
        self.row, self.col = self.shape.coords(self.rank)
        self.row_comm = as_grid_comm(cast(MPI.Intracomm, comm.Split(self.row, self.col)))
        self.col_comm = as_grid_comm(cast(MPI.Intracomm, comm.Split(self.col, self.row)))
        self.naps = _naps(comm, wait)
        self._scratch: dict[str, NDArray[np.uint8]] = {}

    @property
    def rows(self) -> int:
        """Number of grid rows."""
        return self.shape.rows

    @property
    def cols(self) -> int:
        """Number of grid columns."""
        return self.shape.cols

    @property
    def size(self) -> int:
        """Number of processes."""
        return self.shape.size

    def wait(self, requests: Sequence[MPI.Request]) -> None:
        """Complete all ``requests`` in this grid's way of waiting."""
        if not requests:
            return
        if not self.naps:
            MPI.Request.Waitall(requests)
            return
        wait_all(requests)
        left_s = pacing.arrival_s(requests) - time.monotonic()
        if left_s > 0:
            time.sleep(left_s)

    def test(self, requests: Sequence[MPI.Request]) -> bool:
        """Whether all ``requests`` are complete, also on links that are emulated."""
        if not MPI.Request.Testall(requests):
            return False
        due_s = pacing.arrival_s(requests)
        return due_s == 0.0 or due_s <= time.monotonic()

    def cart(self, dims: tuple[int, ...], periods: tuple[bool, ...]) -> MPI.Cartcomm:
        """The same ranks as a Cartesian grid, ranks as here; the first time collective."""
        key = dims, periods
        if key not in self._carts:
            cart = GridCart(self.comm.Create_cart(list(dims), list(periods)))
            self._carts = {**self._carts, key: cart}
        return self._carts[key]

    @property
    def comms(self) -> Sequence[MPI.Intracomm]:
        """Communicators that a program can use; the first lives longer than this object."""
        return [self.comm, self.row_comm, self.col_comm, *self._carts.values()]

    @property
    def ghost_comm(self) -> MPI.Intracomm:
        """For ghosts alone, so that no receive of the program takes them; first time collective."""
        if self._ghost_comm is None:
            self._ghost_comm = cast(MPI.Intracomm, self.comm.Split(0, self.rank))
        return self._ghost_comm

    def scratch(self, name: str, shape: tuple[int, int], dtype: DTypeLike) -> NDArray[Any]:
        """A column-major work array, its contents undefined, kept under ``name`` for the next call.

        Fresh memory costs more to touch than to fill, and kernels run every iteration. The array
        is valid until the same name is asked for again or the grid is freed.
        """
        kind = np.dtype(dtype)
        count = shape[0] * shape[1]
        held = self._scratch.get(name)
        if held is None or held.nbytes < count * kind.itemsize:
            held = np.empty(count * kind.itemsize, dtype=np.uint8)
            self._scratch[name] = held
        return np.ndarray(shape, dtype=kind, buffer=held, order="F")

    def __repr__(self) -> str:
        return f"<Grid {self.shape}: rank {self.rank} at ({self.row}, {self.col})>"

    def free(self) -> None:
        """Give this object's communicators and the work arrays back (collective).

        MPI gives their context ids to communicators that are made later, so no message may be under
        way on them: a resize makes sure of that before (under_way.py).
        """
        self._scratch.clear()
        ghosts = [] if self._ghost_comm is None else [self._ghost_comm]
        for comm in (self.row_comm, self.col_comm, self.own_comm, *self._carts.values(), *ghosts):
            if comm != MPI.COMM_NULL:
                comm.Free()
        self._carts, self._ghost_comm = {}, None


def _naps(comm: MPI.Intracomm, wait: WaitMode) -> bool:
    """Whether ranks nap while they wait; the same answer on all ranks of a node (collective)."""
    mode = os.environ.get("DQ_WAIT", "auto") if wait == "auto" else wait
    if mode not in ("auto", "block", "nap"):
        raise GridError(f"DQ_WAIT is {mode!r}; it must be auto, block or nap")
    if mode != "auto":
        return mode == "nap"
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    try:
        allowed = node.allgather(sorted(os.sched_getaffinity(0)))
        return node.size > len(set().union(*allowed))
    finally:
        node.Free()
