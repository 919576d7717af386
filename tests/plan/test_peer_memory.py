"""Reading another process's memory gives what a copy within one process gives, or an error."""

from __future__ import annotations

import os
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.examples import examples
from resize_lib.descriptors import BlockCyclic, Distributed, ProcessGrid
from resize_lib.redistribution import peer_memory
from resize_lib.redistribution.blocks import NOTHING, Part, address_of, copy_box
from resize_lib.redistribution.runs import Box, axis_runs, items_in
from tests.plan.layouts import block_cyclic, cartesian, grids, one_dimensional
from tests.plan.oracle import global_shape, local_part


def strided(values: Any, data: st.DataObject) -> Any:
    """The same values in memory with other strides: gaps, backwards."""
    wide = np.zeros([2 * extent for extent in values.shape], values.dtype)
    view = wide[tuple(slice(None, None, 2) for _ in values.shape)]
    view = view[:: data.draw(st.sampled_from([1, -1]))]
    view[...] = values
    return view


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_what_is_read_is_what_a_copy_gives(data: st.DataObject) -> None:
    """Also where one side writes what is long, and the other reads the rest."""
    draw = data.draw
    old_grid, new_grid = draw(grids(3)), draw(grids(3))
    m, n = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    dtype = np.dtype(draw(st.sampled_from(["f8", "i2", "S5"])))
    kind = draw(st.sampled_from(["matrix", "one axis", "boxes"]))
    layouts: list[Distributed] = [draw(block_cyclic(m, n)), draw(block_cyclic(m, n))]
    if kind == "one axis":
        layouts = [draw(one_dimensional(m, (), grid)) for grid in (old_grid, new_grid)]
    elif kind == "boxes":
        layouts = [*2 * [draw(cartesian())]]
    shape = global_shape(layouts[0], old_grid)
    size = prod(shape)
    whole = np.frombuffer(np.random.default_rng(0).bytes(size * dtype.itemsize), dtype, size)
    old_rank = draw(st.integers(0, old_grid.size - 1))
    new_rank = draw(st.integers(0, new_grid.size - 1))
    source = local_part(whole.reshape(shape), layouts[0], old_grid, old_rank)
    source = strided(source, data) if draw(st.booleans()) else source.copy("C")
    shape = local_part(whole.reshape(shape), layouts[1], new_grid, new_rank).shape
    copied, read = (np.zeros(shape, dtype, draw(st.sampled_from("CF"))) for _ in range(2))
    box = _box(layouts, (old_grid, new_grid), (old_rank, new_rank))
    transposed = draw(st.booleans()) and layouts[0].dimensions == len(shape)
    box = box[::-1] if transposed else box
    dimensions = layouts[0].dimensions
    if dimensions < len(shape):  # what stays whole must be contiguous
        source, copied, read = (np.ascontiguousarray(a) for a in (source, copied, read))
    here, there, seen = (
        Part.of(array, dimensions=dimensions, transposed=transposed)
        for array in (copied, read, source)
    )
    copy_box(box, seen, here)
    window = draw(st.sampled_from([64, 4096, peer_memory.WINDOW_BYTES]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peer_memory, "WINDOW_ITEMS_BYTES", draw(st.sampled_from([1, 100, 1 << 20])))
        patch.setattr(peer_memory, "GAP_MAX", draw(st.sampled_from([0, 8, 4096])))
        patch.setattr(peer_memory, "DIRECT_MIN", draw(st.sampled_from([1, 32, 4096])))
        patch.setattr(peer_memory, "STRETCHES_MAX", draw(st.sampled_from([1, 7, 1024])))
        patch.setattr(peer_memory, "BATCH", draw(st.sampled_from([1, 5, 4096])))
        patch.setattr(peer_memory, "CALL_BYTES_MAX", draw(st.sampled_from([3, 50, 1 << 30])))
        scratch = np.empty(max(window, seen.item), np.uint8)
        far = Part(seen.address, seen.item, seen.strides, NOTHING)
        me, written, writes = os.getpid(), 0, draw(st.booleans())
        if writes:
            written = peer_memory.write_box(me, box, seen, there)
        nbytes = peer_memory.read_box(me, scratch, box, far, there, long_too=not writes)
        assert written + nbytes == items_in(box) * seen.item
    assert read.tobytes("C") == copied.tobytes("C")  # bit by bit: there are NaNs


def _box(
    layouts: list[Distributed], grids: tuple[ProcessGrid, ProcessGrid], ranks: tuple[int, int]
) -> Box:
    """What the old and the new rank share."""
    axes = [layout.axes(grid) for layout, grid in zip(layouts, grids, strict=True)]
    places = [
        layout.place(grid, rank) for layout, grid, rank in zip(layouts, grids, ranks, strict=True)
    ]
    cut = zip(*axes, *places, strict=True)
    return tuple(axis_runs(old, new).get((i, j), ()) for old, new, i, j in cut)


def test_only_the_process_that_told_is_read() -> None:
    at, token = peer_memory.token_at(), peer_memory.token()
    peer_memory.check(os.getpid(), at, token)
    with pytest.raises(OSError, match="is not the rank that sent the address"):
        peer_memory.check(os.getpid(), at, token[::-1])
    child = os.fork()
    if child == 0:  # its token is its own: it could be anybody who has this pid now
        os._exit(int(token == peer_memory.token()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with pytest.raises(OSError, match="cannot be read: No such process"):
        peer_memory.check(child, at, token)


def test_memory_that_is_not_there_is_an_error() -> None:
    target = np.zeros(8, np.uint8)
    stretches = (np.array([address], np.int64) for address in (4096, address_of(target), 8))
    with pytest.raises(OSError, match="cannot be read"):
        peer_memory.read(os.getpid(), *stretches)


def test_where_the_system_forbids_it_nobody_tries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = tmp_path / "ptrace_scope"
    monkeypatch.setattr(peer_memory, "YAMA", scope)
    for said, expected in (("0\n", True), ("2\n", False), ("3\n", False)):
        scope.write_text(said)
        peer_memory._permitted.cache_clear()
        assert peer_memory.permitted() is expected
    peer_memory._permitted.cache_clear()


def test_a_matrix_larger_than_every_window_is_read_right() -> None:
    layout = BlockCyclic(700, 900, 5, 7)
    old, new = ProcessGrid(1, 2), ProcessGrid(2, 3)
    whole = np.random.default_rng(1).random(layout.shape)
    source = np.asfortranarray(local_part(whole, layout, old, 1))
    target = np.zeros(layout.local_shape(new, 4), order="F")
    box = _box([layout, layout], (old, new), (1, 4))[::-1]
    seen, here = (Part.of(a, dimensions=2, transposed=True) for a in (source, target))
    window = np.empty(peer_memory.window_bytes(1), np.uint8)
    peer_memory.read_box(os.getpid(), window, box, seen, here)
    expected = np.zeros_like(target)
    copy_box(box, seen, Part.of(expected, dimensions=2, transposed=True))
    assert np.array_equal(target, expected)
    assert target.any()
