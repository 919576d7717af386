"""One or more of each kind of array and state, with every element known at any time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

if TYPE_CHECKING:
    from resize_lib.declared.cartesian import Cartesian
    from resize_lib.jobsession import Session

# name: shape, options
CARTESIAN: dict[str, tuple[int | tuple[int, ...], dict[str, Any]]] = {
    "line": (57, {"halo": 2}),
    "ring": (19, {"halo": 3, "periodic": True, "dtype": np.complex64}),
    "plane": ((17, 23), {"periodic": (True, False)}),
    "slabs": ((13, 4, 5), {"axes": 0, "halo": 1, "dtype": np.float32}),
    "columns": ((6, 31), {"axes": (-1,), "halo": 2, "order": "F"}),
    "cube": ((9, 8, 7), {"halo": (1, 0, 2), "periodic": (False, True, True), "order": "F"}),
    "cube over two": ((5, 6, 11), {"axes": (0, 2), "halo": (2, 1), "dtype": np.int16}),
    "four": ((4, 5, 6, 3), {"axes": (1, 2, 3), "halo": 1, "periodic": True, "dims": (0, 1, 0)}),
    "narrow": ((2, 3), {"halo": (3, 2), "periodic": (True, False), "dtype": np.int64}),
    "nothing": ((0, 4), {"halo": 1}),
    "cells": ((6, 6), {"dtype": [("a", "i4"), ("b", "f8")]}),
}
ROWS, COLUMNS, PARTICLES = 37, 29, 83
PARTICLE = np.dtype([("id", "i8"), ("home", "i4"), ("x", "f4")])


def cell(indices: tuple[NDArray[Any], ...], turns: int, dtype: DTypeLike) -> NDArray[Any]:
    """What a Cartesian array holds at global indices after so many turns."""
    number = sum(((k * k + 3) * i for k, i in enumerate(indices)), start=np.int64(turns))
    if np.dtype(dtype).names:
        found = np.empty(number.shape, dtype)
        found["a"], found["b"] = number, number / 4
        return found
    return np.asarray(number).astype(dtype)


def row(i: int, turns: int) -> tuple[list[float], list[int]]:
    """Values and columns of a row of the sparse matrices; the number of entries changes, too."""
    entries = range((i * 7 + turns) % 5)
    return [i + k / 8 + turns for k in entries], [(i * 3 + k * 4) % COLUMNS for k in entries]


def rows(which: NDArray[np.int64], turns: int) -> tuple[NDArray[Any], ...]:
    """Rows of the sparse matrices, as the three arrays."""
    found = [row(int(i), turns) for i in which]
    lengths = [len(data) for data, _ in found]
    return (
        np.array([x for data, _ in found for x in data], np.float64),
        np.array([c for _, columns in found for c in columns], np.int64),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
    )


def owner(items: NDArray[Any], size: int) -> NDArray[Any]:
    """Where particles belong."""
    return items["home"] % size


class Kinds:
    """Declared on a session: all kinds but matrices, 1-D arrays and parcels."""

    def __init__(self, rs: Session) -> None:
        self.rs = rs
        self.grids = [
            rs.cartesian(name, shape, **options, init=lambda *i, o=options: cell(i, 0, kind(o)))
            for name, (shape, options) in CARTESIAN.items()
        ]
        self.sparse = [
            rs.csr("sparse", (ROWS, COLUMNS), init=lambda which: rows(which, 0)),
            rs.csr("whole", (ROWS, COLUMNS), init=rows(np.arange(ROWS), 0)),
            rs.csr(
                "weighted", (ROWS, COLUMNS), layout="weighted", init=lambda which: rows(which, 0)
            ),
        ]
        everything = np.zeros(PARTICLES, PARTICLE)
        everything["id"] = everything["home"] = np.arange(PARTICLES)
        self.particles = rs.items("particles", PARTICLE, owner=owner, init=everything, key="id")
        self.mine = rs.local_state("mine", os.getpid())
        self.left = rs.local_state("left", os.getpid(), leave="gather")
        self.work = rs.local_state(
            "work", 0, leave=lambda mine, theirs: mine + sum(theirs), join=lambda *_: 0
        )
        for u in self.grids:
            self.set_owned(u, 0)

    def set_owned(self, u: Cartesian, turns: int) -> None:
        """The interior and the boundary values."""
        grid = self.rs.grid
        where = u.desc.owned(grid.shape, grid.rank)
        u.local[where] = self.whole(u, turns)[where]

    def whole(self, u: Cartesian, turns: int) -> NDArray[Any]:
        """What `u.local` holds after an exchange."""
        stored = [
            np.arange(r.start - width, r.stop + width)
            for r, width in zip(u.ranges, u.desc.widths(), strict=True)
        ]
        wrapped = [
            g % n if ring and n else g
            for g, n, ring in zip(stored, u.shape, u.desc.is_periodic(), strict=True)
        ]
        return cell(np.ix_(*wrapped), turns, u.dtype)

    def advance(self, turns: int) -> None:
        """Change everything: it is now after so many turns."""
        for u in self.grids:
            self.set_owned(u, turns)
        for matrix in self.sparse:
            matrix.local = rows(np.asarray(matrix.rows), turns)
        moved = self.particles.local.copy()
        moved["home"] += 1
        moved["x"] += 0.5
        self.particles.local = moved[::-1]
        self.work.value += 1

    def check(self, turns: int, work: int, joined: int) -> None:
        """Raises if one element is not what it must be. `work` and `joined`: sums over all ranks
        and turns, and of all processes that ever were in the job."""
        rs = self.rs
        for u in self.grids:
            self.check_grid(u, turns)
        for matrix in self.sparse:
            expected = rows(np.asarray(matrix.rows), turns)
            found = matrix.local
            for mine, right in zip(
                (found.data, found.indices, found.indptr), expected, strict=True
            ):
                assert np.array_equal(mine, right), (matrix, mine, right)
            assert rs.comm.allreduce(len(matrix.rows)) == ROWS
        items = self.particles.local
        assert (owner(items, rs.size) == rs.rank).all() or turns, self.particles
        self.particles.migrate()
        items = self.particles.local
        assert (owner(items, rs.size) == rs.rank).all()
        assert np.array_equal(items["home"], items["id"] + turns)
        assert (items["x"] == turns / 2).all()
        assert (np.diff(items["id"]) > 0).all()
        assert rs.comm.allreduce(len(items)) == PARTICLES
        assert self.mine.value == self.left.value == os.getpid()
        total = rs.comm.allreduce(self.work.value)
        assert total == work, (total, work)
        gathered = self.left.gathered
        assert len(gathered) == (joined - rs.size if rs.rank == 0 else 0), (gathered, joined)

    def check_grid(self, u: Cartesian, turns: int) -> None:
        rs = self.rs
        expected = self.whole(u, turns)
        assert u.local.shape == expected.shape
        where = u.desc.owned(rs.grid.shape, rs.rank)
        assert np.array_equal(u.local[where], expected[where]), f"{u} on rank {rs.rank}"
        u.exchange()
        assert np.array_equal(u.local, expected), f"ghosts of {u} on rank {rs.rank}"
        assert np.array_equal(u.interior, cell(u.indices, turns, u.dtype))
        assert rs.comm.allreduce(u.interior.size) == np.prod(u.shape)
        assert (u.owners(u.indices) == rs.rank).all()
        if u.name in ("line", "plane", "four"):  # making one takes all ranks some time
            assert u.cart.rank == rs.rank
            assert tuple(u.cart.coords) == u.coords
            assert tuple(u.cart.dims) == u.dims


def kind(options: dict[str, Any]) -> DTypeLike:
    found: DTypeLike = options.get("dtype", np.float64)
    return found
