"""Memory that is kept."""

from __future__ import annotations

import resource

import numpy as np

from resize_lib.redistribution import Arena


def test_memory_comes_back_with_the_last_view() -> None:
    arena = Arena()
    array = arena.empty((100, 50), np.float64)
    view = array[3:, ::2]
    held = arena.used_bytes
    del array
    assert (arena.used_bytes, arena.free_bytes) == (held, 0)
    view[...] = 1
    del view
    assert (arena.used_bytes, arena.free_bytes) == (0, held)
    again = arena.empty((50, 100), np.float64, "F")
    assert again.flags.f_contiguous
    assert (arena.used_bytes, arena.free_bytes) == (held, 0)


def test_kept_memory_is_given_back_to_the_system_on_request() -> None:
    arena = Arena()
    arrays = [arena.empty((nbytes,), np.uint8) for nbytes in (100 << 10, 1 << 20, 5 << 20)]
    assert arena.free_bytes == 0
    del arrays
    # Small pages, and huge ones as soon as one is touched sooner than the small ones.
    assert arena.free_bytes == (100 << 10) + (2 << 20) + (6 << 20)
    arena.trim(3 << 20)
    assert arena.free_bytes <= 3 << 20
    arena.trim(0)
    assert arena.free_bytes == 0


def test_a_free_segment_is_made_larger_where_none_fits() -> None:
    arena = Arena()
    array = arena.empty((4 << 20,), np.uint8)
    array[...] = 7
    del array
    larger = arena.empty((9 << 20,), np.uint8)
    larger[...] = 8
    assert (arena.used_bytes, arena.free_bytes) == (10 << 20, 0)
    small = arena.empty((10,), np.uint8)
    del small
    assert arena.empty((3 << 20,), np.uint8).size == 3 << 20
    del larger
    again = arena.empty((10 << 20,), np.uint8)
    assert again[0] == 8  # the same memory


def test_reserved_memory_is_touched_piece_by_piece() -> None:
    arena, sizes = Arena(), (20 << 20, 1 << 20)
    left_s = list(arena.reserve(sizes))
    assert len(left_s) > len(sizes), "a large one in pieces"
    assert min(left_s[:-1]) > 0 == left_s[-1]
    assert arena.free_bytes == (20 << 20) + (2 << 20)
    array = arena.empty((20 << 20,), np.uint8)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    array[:: 4 << 10] = 1
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert faults < 10, "its pages are there"


def test_touched_arrays_have_their_pages() -> None:
    arena = Arena()
    array = arena.empty((1 << 10, 1 << 10), np.uint16, "F")
    arena.touch(array)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    array[:] = 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 10
    arena.touch(arena.empty((0, 5), "f8"))


def test_memory_that_the_system_does_not_have_is_not_reserved() -> None:
    arena = Arena()
    assert list(arena.reserve([1 << 60])) == []
    assert arena.free_bytes == 0
