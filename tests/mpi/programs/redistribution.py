"""Stories about redistribution with real ranks: python redistribution.py STORY SEED.

Each story returns the number of results checked on this rank; a wrong one raises. Rank 0 prints
one JSON object with the total.
"""

from __future__ import annotations

import gc
import json
import random
import resource
import sys
import time
import traceback
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Never
from unittest.mock import patch

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from harness.plans import bytes_that_change_process
from resize_lib import waiting
from resize_lib.descriptors import (
    ArrayDescriptor,
    Block1D,
    BlockCyclic,
    CartesianBlocks,
    Custom,
    Cut,
    Cyclic1D,
    Distributed,
    ProcessGrid,
    Segmented,
    Weighted1D,
)
from resize_lib.redistribution import (
    Arena,
    CustomDataError,
    DeclarationMismatchError,
    InvalidRedistributionError,
    MovingArray,
    OutOfMemoryError,
    Placement,
    Redistribution,
    RedistributionError,
    agreement,
    direct_copies,
    peer_memory,
    plan_redistribution,
    pushes,
    redistribute,
    slabs,
)
from resize_lib.redistribution.arrays import DistributedArrays
from resize_lib.redistribution.segments import Segments
from tests.plan.oracle import global_shape, local_part

WORLD = MPI.COMM_WORLD
Array = NDArray[Any]
Stretches = peer_memory.Numbers
Order = Literal["C", "F"]
Transport = Literal["auto", "messages", "direct"]
ORDERS: tuple[Order, ...] = ("C", "F")
DTYPES: list[Any] = ["f8", "c16", "i2", "?", "f4", "M8[s]", "S5", [("a", "i1"), ("b", "f8")]]


def content(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> Array:
    """The global array of any dtype, the same on every rank."""
    size = int(np.prod(shape)) * dtype.itemsize
    values = np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)
    if dtype.kind == "b":
        values &= 1
    return values.view(dtype).reshape(shape)


def part_of(whole: Array, layout: ArrayDescriptor, grid: ProcessGrid, rank: int) -> Array:
    assert isinstance(layout, Distributed)
    return local_part(whole, layout, grid, rank)


def placed(rng: random.Random, size: int) -> Placement:
    """A random grid on a random choice of ranks in random order."""
    count = rng.randint(1, size)
    rows = rng.choice([d for d in range(1, count + 1) if count % d == 0])
    return Placement(ProcessGrid(rows, count // rows), tuple(rng.sample(range(size), count)))


def random_cartesian(rng: random.Random) -> CartesianBlocks:
    """Any of 1 to 4 dimensions, over any of its axes, with halos."""
    count = rng.randint(1, 4)
    cut = tuple(sorted(rng.sample(range(count), rng.randint(1, count))))
    dims = [rng.randint(0, 1) for _ in cut]
    dims[rng.randrange(len(cut))] = 0
    return CartesianBlocks(
        tuple(rng.randint(0, 40 // count) for _ in range(count)),
        cut,
        tuple(rng.randint(0, 2) for _ in cut),
        tuple(rng.random() < 0.5 for _ in cut),
        tuple(dims),
    )


def random_layouts(
    rng: random.Random, old: Placement, new: Placement
) -> tuple[tuple[int, ...], ArrayDescriptor, ArrayDescriptor | None]:
    """Global shape, old and new layout (None: the same) of a random array."""
    kind = rng.choice(["2-D", "2-D", "2-D", "1-D", "1-D", "cartesian", "cartesian"])
    if kind == "cartesian":
        blocks = random_cartesian(rng)
        return global_shape(blocks, old.grid), blocks, None
    if kind == "2-D":
        m, n = rng.randint(0, 70), rng.randint(0, 70)

        def layout() -> BlockCyclic:
            blocks = rng.randint(1, 9), rng.randint(1, 9)
            return BlockCyclic(m, n, *blocks, rng.randint(0, 3), rng.randint(0, 3))

        return (m, n), layout(), rng.choice([None, layout()])
    n, trailing = rng.randint(0, 80), rng.choice([(), (3,), (2, 2)])

    def cut(place: Placement) -> ArrayDescriptor:
        weights = tuple(rng.random() + 0.01 for _ in place.ranks)
        choices: list[ArrayDescriptor] = [
            Block1D(n, trailing),
            Cyclic1D(n, rng.randint(1, 5), trailing),
            Weighted1D(n, weights, trailing),
        ]
        return rng.choice(choices)

    return (n, *trailing), cut(old), cut(new)


def laid_out(rng: random.Random, part: Array, order: Order, arena: Arena) -> Array:
    """The part as a local array: in the arena, or in ordinary memory with gaps."""
    local: Array
    if rng.random() < 0.7:
        local = arena.empty(part.shape, part.dtype, order)
    else:
        local = np.zeros(tuple(2 * extent for extent in part.shape), part.dtype)
        local = local[tuple(slice(0, 2 * extent, 2) for extent in part.shape)]
    local[...] = part
    return local


def moving(
    rng: random.Random,
    name: str,
    old: Placement,
    new: Placement,
    comm: MPI.Intracomm,
    arena: Arena,
) -> tuple[MovingArray, Array | None]:
    """A random array before the move, and what this rank must hold after it."""
    shape, layout, later = random_layouts(rng, old, new)
    dtype = np.dtype(rng.choice(DTYPES))
    one_axis = isinstance(layout, Block1D | Cyclic1D | Weighted1D)
    order: Order = "C" if one_axis else rng.choice(ORDERS)
    whole = content(shape, dtype, rng.randint(0, 1 << 30))
    p, q = old.grid_rank(comm.rank), new.grid_rank(comm.rank)
    private = random.Random(rng.random())  # each rank makes the same number of draws from rng
    local = None
    if p is not None:
        local = laid_out(private, part_of(whole, layout, old.grid, p), order, arena)
    inner = None
    if isinstance(layout, CartesianBlocks) and rng.random() < 0.5:
        inner = partial(inner_of_larger, layout, dtype, order)
    array = MovingArray(name, layout, dtype, local, later, order, inner)
    expected = None if q is None else part_of(whole, later or layout, new.grid, q)
    return array, expected


def inner_of_larger(
    layout: CartesianBlocks, dtype: DTypeLike, order: Order, arena: Arena, grid: ProcessGrid,
    rank: int,
) -> Array:  # fmt: skip
    """A new part with ghosts around it."""
    stored = arena.empty(layout.stored_shape(grid, rank), dtype, order)
    return stored[layout.owned(grid, rank)]


def check(result: Any, expected: Array | None, story: object) -> int:
    if expected is None:
        assert result is None, story
        return 0
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype), story
    assert result.tobytes() == expected.tobytes(), story
    return 1


def random_moves(seed: int, comm: MPI.Intracomm = WORLD) -> int:
    """Random arrays, grids, rank maps and options against the gather/scatter oracle."""
    rng, arena, checked = random.Random(seed), Arena(), 0
    for turn in range(25):
        old, new = placed(rng, comm.size), placed(rng, comm.size)
        arrays = [
            moving(rng, f"a{k}", old, new, comm, arena) for k in range(rng.choice([1, 2, 3, 6]))
        ]
        options: dict[str, Any] = {
            "transport": rng.choice(["auto", "messages"]),
            "max_extra_bytes": rng.choice([None, 1, 700, 5000]),
            "arena": rng.choice([arena, None]),
        }
        done = redistribute(comm, [array for array, _ in arrays], old, new, **options)
        for (array, expected), result in zip(arrays, done.arrays, strict=True):
            checked += check(result, expected, (turn, array, old, new, options))
    return checked


def direct_moves(seed: int) -> int:
    """The same, in windows so small that every way to cut them is gone; not in slabs."""
    slabs.SHORT_BYTES = 0
    peer_memory.WINDOW_BYTES, peer_memory.WINDOW_ITEMS_BYTES = 4096, 512
    peer_memory.GAP_MAX, peer_memory.DIRECT_MIN = seed % 3 * 16, 64
    peer_memory.STRETCHES_MAX, peer_memory.CALL_BYTES_MAX = 3, 100
    return moves_of(direct_copies.DirectCopies, seed)


def moves_of(copies: Any, seed: int) -> int:
    """Random moves, some of which this class has made."""
    run = copies.run
    copied: list[int] = []

    def counted(each: Any) -> int:
        copied.append(run(each))
        return copied[-1]

    copies.run = counted
    checked = sum(random_moves(100 * seed + turn) for turn in range(4))
    assert WORLD.allreduce(sum(map(bool, copied))) >= 5
    return checked


def pushed_moves(seed: int) -> int:
    """The same, and who leaves writes, whatever is long enough; with odd seeds every second one."""
    slabs.SHORT_BYTES = 0
    peer_memory.DIRECT_MIN = (1, 24, 64)[seed % 3]
    peer_memory.STRETCHES_MAX, peer_memory.CALL_BYTES_MAX = 3, 100
    pushes.one_for_each_core = lambda known, ranks: list(ranks)[:: 1 + seed % 2]
    return moves_of(pushes.Pushes, seed)


def slab_moves(seed: int) -> int:
    """The same in slabs wherever an array has lines; with odd seeds all ranks work."""
    slabs.SHORT_BYTES, slabs.LONG_BYTES = 1 << 20, 0
    slabs.SLAB_BYTES, slabs.SLAB_BYTES_MIN = 1 << 12, 200
    if seed % 2:
        slabs.one_for_each_core = lambda known, ranks: list(ranks)
    return moves_of(slabs.SlabCopies, seed)


def given_up_while_written_to(_seed: int) -> int:
    """Who gives a resize up, as a rank was lost, is written to where nothing else lies by then."""
    slabs.SHORT_BYTES, slabs.LONG_BYTES, slabs.SLAB_BYTES_MIN = 1 << 20, 0, 64
    slabs.one_for_each_core = lambda known, ranks: list(ranks[::-1])  # each writes the other's part
    arena, wait = Arena(), waiting.wait_all
    old, new = (Placement.leading(ProcessGrid(*grid)) for grid in ((1, 2), (2, 1)))
    layout = BlockCyclic(64, 64, 4, 4)
    local = arena.empty(layout.local_shape(old.grid, WORLD.rank), "f8")
    local[...] = 7
    assert peer_memory.permitted()  # before anything is replaced
    write = peer_memory.write
    written: list[int] = []

    def lose(*requests: Any, **options: Any) -> None:
        wait(*requests, **options)
        raise waiting.RankLost(1)

    def late(pid: int, remote: Stretches, local: Stretches, lengths: Stretches) -> None:
        if not written:
            WORLD.Barrier()  # rank 1 goes on with other things
        write(pid, remote, local, lengths)
        written.append(pid)

    def look() -> None:
        if written:
            raise waiting.RankLost(1)

    if WORLD.rank == 1:
        agreement.wait_all = lose  # type: ignore[attr-defined]
    peer_memory.write = late
    lost = []
    try:
        with waiting.watched(look):
            array = MovingArray("A", layout, "f8", local)
            redistribute(WORLD.Dup(), [array], old, new, arena=arena)
    except waiting.RankLost as error:
        lost.append(error)  # with its traceback, as recovery_in_place.py does
    if WORLD.rank == 1:
        other = arena.empty(layout.local_shape(new.grid, 1), "f8")
        other[...] = 1
        WORLD.Barrier()
    WORLD.Barrier()  # rank 0 has written
    assert [error.number for error in lost] == [1]
    assert written if WORLD.rank == 0 else (other == 1).all()
    return 1


def round_trip(seed: int) -> int:
    """P -> Q -> P brings back every bit, by either transport."""
    rng, arena, checked = random.Random(seed), Arena(), 0
    for transport in ("messages", "direct"):
        old, new = placed(rng, WORLD.size), placed(rng, WORLD.size)
        layout, dtype = BlockCyclic(83, 61, 7, 5, 1, 2), np.dtype("f8")
        p = old.grid_rank(WORLD.rank)
        local = before = None
        if p is not None:
            before = local_part(content(layout.shape, dtype, seed), layout, old.grid, p)
            local = arena.empty(before.shape, dtype)
            local[...] = before
        for source, target in ((old, new), (new, old)):
            array = MovingArray("A", layout, dtype, local)
            options: dict[str, Any] = {"transport": transport, "arena": arena}
            done = redistribute(WORLD, [array], source, target, **options)
            plan = plan_redistribution(layout, source.grid, layout, target.grid, dtype.itemsize)
            apart = bytes_that_change_process(plan, source.ranks, target.ranks)
            moved = done.bytes_copied if transport == "direct" else done.bytes_sent
            assert WORLD.allreduce(moved) == apart
            (local,) = done.arrays
        checked += check(local, before, transport)
    return checked


def segments_there_and_back(seed: int) -> int:
    """P -> Q -> P brings back every bit of what is cut into segments, beside a matrix."""
    rng, arena, checked = random.Random(seed), Arena(), 0
    kinds: tuple[Any, Any] = "f8", [("a", "i1"), ("b", "f8")]
    counts = rng.randint(0, 500), rng.choice([0, 7, 1 << 16])
    wholes = [
        content((count,), np.dtype(kind), seed + k)
        for k, (count, kind) in enumerate(zip(counts, kinds, strict=True))
    ]

    def bounds(n: int, grid: ProcessGrid) -> NDArray[np.int64]:
        return np.asarray(Block1D(n).axis(grid).bounds, np.int64)

    def cut(value: list[Array], old: ProcessGrid, rank: int, new: ProcessGrid) -> Cut:
        mine = [bounds(n, old)[[rank, rank + 1]] for n in counts]
        edges = [np.clip(bounds(n, new), *held) for n, held in zip(counts, mine, strict=True)]
        return Cut.behind(value, np.stack([np.diff(edge) for edge in edges]))

    def join(arrays: Sequence[Array], *_: object) -> list[Array]:
        return list(arrays)

    for transport in ("messages", "auto"):
        old, new = placed(rng, WORLD.size), placed(rng, WORLD.size)
        layout, descriptor = BlockCyclic(30, 20, 3, 4), Segmented(cut, join, kinds, "two")
        p = old.grid_rank(WORLD.rank)
        matrix = content(layout.shape, np.dtype("f8"), seed)
        local = None if p is None else local_part(matrix, layout, old.grid, p)
        held = None
        if p is not None:
            held = [w[slice(*bounds(len(w), old.grid)[[p, p + 1]].tolist())] for w in wholes]
        before = None if held is None else [part.tobytes() for part in held]
        for source, target in ((old, new), (new, old)):
            arrays = [
                MovingArray("two", descriptor, "u1", held),
                MovingArray("A", layout, "f8", local),
            ]
            options: dict[str, Any] = {"transport": transport, "arena": arena}
            held, local = redistribute(WORLD, arrays, source, target, **options).arrays
        found = None if held is None else [part.tobytes() for part in held]
        assert found == before, (transport, old, new)
        checked += 1
    return checked


def nothing_to_do(_seed: int) -> int:
    """The same grid, rank map and layout: the old array is the new one."""
    place = Placement.leading(ProcessGrid(1, WORLD.size))
    layout = BlockCyclic(40, 40, 3, 3)
    local = np.zeros(layout.local_shape(place.grid, WORLD.rank))
    done = redistribute(WORLD, [MovingArray("A", layout, "f8", local)], place, place)
    assert done.arrays[0] is local
    assert (done.bytes_sent, done.bytes_copied, done.extra_bytes) == (0, 0, 0)
    return 1


def extra_memory_is_bounded(_seed: int) -> int:
    """The exchange buffers stay within the limit, by default a quarter of the larger part."""
    old, new = (Placement.leading(grid) for grid in (ProcessGrid(1, 1), ProcessGrid(1, WORLD.size)))
    layout = BlockCyclic(1500, 1400, 16, 16)
    part = layout.m * layout.n * 8
    whole = np.arange(layout.m * layout.n, dtype="f8").reshape(layout.shape)
    checked = 0
    for limit in (None, part // 10, 1 << 16):
        array = MovingArray("A", layout, "f8", whole if WORLD.rank == 0 else None)
        arena = Arena()
        bound = max(part // 4, 1 << 20) if limit is None else limit
        for turn in range(4):
            if turn == 1:
                tracemalloc.start()  # plans, views and requests; buffers and parts are mappings
            done = redistribute(
                WORLD, [array], old, new, transport="messages", max_extra_bytes=limit, arena=arena
            )
            assert 0 < done.extra_bytes <= bound, (limit, done.extra_bytes)
            checked += check(done.arrays[0], local_part(whole, layout, new.grid, WORLD.rank), limit)
        assert tracemalloc.get_traced_memory()[0] < 1 << 19, (limit, done.panels)
        tracemalloc.stop()
    assert done.panels > 16
    return checked


def own_data(_seed: int) -> int:
    """What the application packs, beside a distributed and a replicated array, in one call."""
    size = WORLD.size
    old, new = Placement.leading(ProcessGrid(1, size // 2)), Placement.leading(ProcessGrid(size, 1))
    p, q = old.grid_rank(WORLD.rank), new.grid_rank(WORLD.rank)

    def pack(words: list[str], _old: ProcessGrid, rank: int, target: ProcessGrid) -> list[bytes]:
        return [f"{word}@{rank}".encode() if word else b"" for word in words[: target.size]]

    def unpack(
        pieces: Sequence[bytes], _old: ProcessGrid, rank: int, _new: ProcessGrid
    ) -> tuple[int, list[str]]:
        return rank, [piece.decode() for piece in pieces]

    words = None if p is None else [f"w{k}" if k % 2 else "" for k in range(size)]
    parts = Block1D(11)
    mine = None if p is None else parts.global_indices(old.grid, p)
    arrays = [
        MovingArray("words", Custom(pack, unpack), np.uint8, words),
        MovingArray("items", parts, "i8", mine),
    ]
    done = redistribute(WORLD, arrays, old, new)
    assert q is not None
    texts = [f"w{q}@{k}" if q % 2 else "" for k in range(size // 2)]
    assert done.arrays[0] == (q, texts), done.arrays[0]
    assert done.arrays[1].tolist() == parts.global_indices(new.grid, q).tolist()
    return 2


def same_everywhere(call: Callable[[], object], kind: type[Exception], says: str) -> int:
    """``call`` raises the same exception of type ``kind`` with the same text on every rank."""
    try:
        call()
    except kind as error:
        texts = WORLD.allgather(str(error))
        assert len(set(texts)) == 1, texts
        assert says in texts[0], texts[0]
        return 1
    raise AssertionError(f"rank {WORLD.rank}: no {kind.__name__} with {says!r}")


def bad_input(_seed: int) -> int:
    """Whatever one rank does wrong: one clear error on all, the old data as it was, then go on."""
    rank, size = WORLD.rank, WORLD.size
    old, new = Placement.leading(ProcessGrid(1, size)), Placement.leading(ProcessGrid(size, 1))
    layout = BlockCyclic(20, 20, 2, 2)
    local = np.full(layout.local_shape(old.grid, rank), float(rank))
    good = MovingArray("A", layout, "f8", local)
    last = rank == size - 1

    def moved(array: Any, to: Placement = new, **options: Any) -> Callable[[], object]:
        return lambda: redistribute(WORLD, [array], old, to, **options)

    def boom(*_: object) -> list[bytes]:
        if last:
            raise RuntimeError("no such file")
        return [b""] * size

    def unreadable() -> object:
        allowed, peer_memory.permitted = peer_memory.permitted, lambda: not last
        try:
            return moved(good, transport="direct")()
        finally:
            peer_memory.permitted = allowed

    bad, differ = InvalidRedistributionError, DeclarationMismatchError
    short = MovingArray("A", layout, "f8", local[:-1] if last else local)
    typed = MovingArray("A", layout, "f8", local.astype("f4") if last else local)
    objects = MovingArray("A", layout, object, local.astype(object))
    named = MovingArray("B" if last else "A", layout, "f8", local)
    shaped = MovingArray("A", BlockCyclic(20, 20 + 2 * size * last, 2, 2), "f8", local)
    nothing = MovingArray("A", layout, "f8", None if last else local)
    shapes = MovingArray("A", layout, "f8", local, BlockCyclic(20, 21, 2, 2))
    weights = MovingArray("w", Weighted1D(4, (1.0,) * (size + 1)), "f8", np.zeros(1))
    packer = MovingArray("words", Custom(boom, boom), np.uint8, "x")
    unpacker = MovingArray("words", Custom(lambda *_: [b""] * size, boom), np.uint8, "x")
    lists = MovingArray("A", layout, "f8", local.tolist() if last else local)
    larger = Placement.leading(ProcessGrid(size, 2))
    twice = Placement(new.grid, (0,) * size)
    few = Placement(new.grid, (0,))
    stories = [
        (moved(short), bad, f"rank {size - 1}: 'A': the local array has shape"),
        (moved(typed), bad, "has dtype float32, declared is float64"),
        (moved(objects), bad, "every rank: 'A': dtype object holds Python objects"),
        (moved(named), differ, f"rank 0 has 'A': {layout}"),
        (moved(nothing), bad, f"rank {size - 1}: 'A': old grid rank {size - 1} has no local array"),
        (moved(lists), bad, f"rank {size - 1}: 'A': old grid rank {size - 1} has no local array"),
        (moved("text" if last else good), RedistributionError, f"rank {size - 1}: AttributeError"),
        (moved(shapes), bad, "global shape (20, 20) cannot be redistributed to (20, 21)"),
        (moved(weights), bad, f"Weighted1D has {size + 1} weights"),
        (moved(packer), CustomDataError, f"rank {size - 1}: 'words': pack failed: RuntimeError"),
        (moved(unpacker), CustomDataError, "'words': unpack failed: RuntimeError: no such file"),
        (moved(good, larger), bad, f"needs rank {size}, the communicator has {size} ranks"),
        (moved(good, few), bad, f"has {size} ranks, its rank map 1"),
        (moved(good, transport="pigeon"), bad, "transport is 'pigeon'"),
        (moved(good, max_extra_bytes=0), bad, "max_extra_bytes must be at least 1"),
        (moved(good, max_extra_bytes=1000 + last), differ, "max_extra_bytes"),
    ]
    if size > 1:
        stories += [
            (moved(good, twice), bad, "names a rank twice"),
            (moved(shaped), bad, "'A': the local array has shape"),
            (unreadable, bad, "read each other's memory"),
        ]
    for call, kind, says in stories:
        same_everywhere(call, kind, says)
        assert (local == rank).all()
    redistribute(WORLD, [good], old, new)
    return len(stories)


def one_rank_declares_more(_seed: int) -> int:
    """Rank 0 moves two arrays, the others one."""
    place = Placement.leading(ProcessGrid(1, WORLD.size))
    layout = Block1D(10)
    local = np.zeros(layout.local_shape(place.grid, WORLD.rank))
    arrays = [MovingArray("a", layout, "f8", local), MovingArray("b", layout, "f8", local)]
    arrays = arrays if WORLD.rank == 0 else arrays[:1]
    says = "rank 0 declared 2 arrays, rank 1 1"
    call = lambda: redistribute(WORLD, arrays, place, place)  # noqa: E731
    return same_everywhere(call, DeclarationMismatchError, says)


def out_of_memory(_seed: int) -> int:
    """The last rank may not allocate its new part: all ranks say so and go on at the old size."""
    rank, size = WORLD.rank, WORLD.size
    old, new = Placement(ProcessGrid(1, 1), (0,)), Placement(ProcessGrid(1, 1), (size - 1,))
    layout = BlockCyclic(3000, 3000, 64, 64)
    local = np.ones(layout.shape) if rank == 0 else None
    array = MovingArray("A", layout, "f8", local)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    if rank == size - 1:
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + (16 << 20), limits[1]))
    says = f"rank {size - 1}: out of memory"
    same_everywhere(lambda: redistribute(WORLD, [array], old, new), OutOfMemoryError, says)
    assert local is None or (local == 1).all()
    resource.setrlimit(resource.RLIMIT_AS, limits)
    (part,) = redistribute(WORLD, [array], old, new).arrays
    assert part is None or (part == 1).all()
    return 1


def no_room_for_what_arrives(_seed: int) -> int:
    """One rank fails behind the first agreement, where the others wait for its messages."""
    rank, size = WORLD.rank, WORLD.size
    old, new = Placement.leading(ProcessGrid(1, size)), Placement.leading(ProcessGrid(size, 1))
    layout = BlockCyclic(30, 30, 2, 2)
    local = np.ones(layout.local_shape(old.grid, rank))
    pack = lambda value, _old, _rank, grid: [value] * grid.size  # noqa: E731
    unpack = lambda pieces, _old, _rank, _new: b"".join(pieces)  # noqa: E731
    arrays = [
        MovingArray("A", layout, "f8", local),
        MovingArray("own", Custom(pack, unpack, "own"), "u1", b"x" * 1000),
    ]
    says = f"rank {size - 1}: out of memory: injected"

    def fails(*_: object, **__: object) -> Never:
        raise MemoryError("injected")

    for kind, name in (
        (Segments, "make_room"),
        (DistributedArrays, "copy_staying"),
        (DistributedArrays, "exchange"),
    ):
        slabs.SHORT_BYTES = 0  # what stays is copied with the rest
        with patch.object(kind, name, fails) if rank == size - 1 else nullcontext():
            call = lambda: redistribute(WORLD, arrays, old, new, transport="messages")  # noqa: E731
            same_everywhere(call, OutOfMemoryError, says)
    found = redistribute(WORLD, arrays, old, new, transport="messages").arrays
    assert (found[0] == 1).all()
    assert found[1] == b"x" * 1000 * size
    return 1


def a_neighbours_memory_out_of_reach(seed: int) -> int:
    """One process cannot read the others' memory: everything goes by message after all.

    seed 1: it learns that only when it has read some of it; 2: when it has written a slab.
    """
    slabs.SHORT_BYTES, slabs.LONG_BYTES, slabs.SLAB_BYTES_MIN = (seed == 2) << 20, 0, 64
    slabs.one_for_each_core = lambda known, ranks: list(ranks[::-1])  # nobody has its own
    arena, size, checked = Arena(), WORLD.size, 0
    old, new = (Placement.leading(ProcessGrid(*grid)) for grid in ((1, size), (size, 1)))
    layout = BlockCyclic(53, 41, 3, 4)
    parts = [
        local_part(content(layout.shape, np.dtype("f8"), seed), layout, side.grid, WORLD.rank)
        for side in (old, new)
    ]
    local = arena.empty(parts[0].shape, "f8")
    local[...] = parts[0]
    array = MovingArray("A", layout, "f8", local)
    name = ("check", "read_box", "write")[seed]
    assert peer_memory.permitted()  # before anything is replaced
    reachable, calls = getattr(peer_memory, name), []

    def second_fails(*told: Any, **more: Any) -> Any:
        calls.append(told)
        return (out_of_reach if len(calls) > 1 else reachable)(*told, **more)

    if WORLD.rank == size - 1:
        setattr(peer_memory, name, second_fails if seed == 2 else out_of_reach)
    for number in (1, 2):
        done = redistribute(WORLD, [array], old, new, arena=arena)
        assert done.direct == (number == 2)
        checked += check(done.arrays[0], parts[1], number)
        says = f"rank {size - 1}: transport direct: another user's"
        call = lambda: redistribute(WORLD, [array], old, new, arena=arena, transport="direct")  # noqa: E731
        if number == 1:
            same_everywhere(call, InvalidRedistributionError, says)
        setattr(peer_memory, name, reachable)
    return checked


def who_leaves_cannot_write(_seed: int) -> int:
    """The last rank writes some of what it has, and then cannot: all goes by message after all."""
    slabs.SHORT_BYTES, peer_memory.DIRECT_MIN, peer_memory.BATCH = 0, 8, 4
    pushes.one_for_each_core = lambda known, ranks: list(ranks)
    arena, size, checked = Arena(), WORLD.size, 0
    old, new = (Placement.leading(ProcessGrid(*grid)) for grid in ((1, size), (1, 1)))
    layout = BlockCyclic(53, 41, 3, 4)
    whole = content(layout.shape, np.dtype("f8"), 1)
    local = arena.empty(layout.local_shape(old.grid, WORLD.rank), "f8")
    local[...] = local_part(whole, layout, old.grid, WORLD.rank)
    array = MovingArray("A", layout, "f8", local)
    assert peer_memory.permitted()  # before anything is replaced
    write, calls = peer_memory.write, []

    def second_fails(*told: Any) -> None:
        calls.append(told)
        (out_of_reach if len(calls) > 1 else write)(*told)

    for number in (1, 2):
        fails = number == 1 and WORLD.rank == size - 1
        setattr(peer_memory, "write", second_fails if fails else write)  # noqa: B010
        done = redistribute(WORLD, [array], old, new, arena=arena)
        assert done.direct == (number == 2)
        if number == 2:
            assert bool(done.bytes_copied) == (WORLD.rank > 0), "who leaves writes it all"
        checked += check(done.arrays[0], whole if WORLD.rank == 0 else None, number)
    return checked


def a_worker_fails(_seed: int) -> int:
    """For a reason that nobody has thought of, while the others wait: by message after all.

    Also where nothing changes process, so that there are no messages.
    """
    slabs.SHORT_BYTES, slabs.LONG_BYTES = 1 << 20, 0
    arena, size, checked = Arena(), WORLD.size, 0
    slabs.one_for_each_core = lambda known, ranks: [size - 1]

    def fail(*_told: object) -> Never:
        raise ZeroDivisionError

    slabs.SlabCopies._move = fail  # type: ignore[method-assign, assignment]
    one, other = ProcessGrid(1, size), ProcessGrid(size, 1)
    turned = BlockCyclic(53, 41, 3, 4, 1, 0)  # the first block is on the second rank
    cases = [
        (Placement.leading(one), Placement.leading(other), None),
        (
            Placement.leading(other),
            Placement(other, tuple((rank - 1) % size for rank in range(size))),
            turned,
        ),
    ]
    for old, new, later in cases:
        layout = BlockCyclic(53, 41, 3, 4)
        whole = content(layout.shape, np.dtype("f8"), 1)
        ranks = old.grid_rank(WORLD.rank), new.grid_rank(WORLD.rank)
        assert None not in ranks
        local = local_part(whole, layout, old.grid, ranks[0] or 0).copy()
        array = MovingArray("A", layout, "f8", local, later)
        done = redistribute(WORLD, [array], old, new, arena=arena)
        assert done.direct == (later is not None), "where nothing changes process nobody works"
        part = local_part(whole, later or layout, new.grid, ranks[1] or 0)
        checked += check(done.arrays[0], part, later)
    return checked


def out_of_reach(*_args: object, **_options: object) -> Never:
    """As the system says it."""
    raise PermissionError("another user's")


def late_ranks_and_errors(seed: int) -> int:
    """Ranks agree again and again: some come late, every second call fails on one of them."""
    rng, size = random.Random(seed), WORLD.size
    grids = [Placement.leading(ProcessGrid(*grid)) for grid in ((1, size), (size, 1))]
    layout, arena = BlockCyclic(30, 30, 2, 2), Arena()
    whole = content(layout.shape, np.dtype("f8"), seed)
    local = arena.empty(layout.local_shape(grids[0].grid, WORLD.rank), "f8")
    local[...] = local_part(whole, layout, grids[0].grid, WORLD.rank)
    checked = 0
    for turn in range(12):
        old, new = grids[turn % 2], grids[1 - turn % 2]
        if rng.randrange(size) == WORLD.rank:
            time.sleep(rng.choice([0.0, 0.001, 0.05]))
        array = MovingArray("A", layout, "f8", local)
        (local,) = redistribute(WORLD, [array], old, new, arena=arena).arrays
        checked += check(local, local_part(whole, layout, new.grid, WORLD.rank), turn)
        wrong = MovingArray("A", layout, "f8", local[:-1] if WORLD.rank == 0 else local)
        call = lambda: redistribute(WORLD, [wrong], new, old, arena=arena)  # noqa: B023, E731
        same_everywhere(call, InvalidRedistributionError, "rank 0: 'A': the local array has shape")
    return checked


def sends_go_on_while_ranks_agree(_seed: int) -> int:
    """A rank that waits for the others lets its own large message get through to them."""
    size, checked = WORLD.size, 0
    grids = [Placement.leading(ProcessGrid(*grid)) for grid in ((1, size), (size, 1))]
    layout = BlockCyclic(30, 30, 2, 2)
    for turn in range(6):
        old, new = grids[turn % 2], grids[1 - turn % 2]
        local = np.full(layout.local_shape(old.grid, WORLD.rank), 1.5)
        message = np.full(1 << 20, WORLD.rank + turn)
        sent = WORLD.Isend(message, 1) if WORLD.rank == 0 else None
        if WORLD.rank == 1:
            time.sleep(0.02)  # some networks need the sender for the rest, which waits meanwhile
            WORLD.Recv(message, 0)
        (part,) = redistribute(WORLD, [MovingArray("A", layout, "f8", local)], old, new).arrays
        if sent is not None:
            sent.Wait()
        checked += bool(((part == 1.5).all() and (message == turn).all()) or WORLD.rank > 1)
    return checked


def to_and_fro(seed: int) -> int:
    """Memory that moves leave in the arena is used again by those that follow."""
    arena, size, checked = Arena(), WORLD.size, 0
    grids = [Placement.leading(ProcessGrid(*grid)) for grid in ((1, size), (size, 1))]
    layouts = [BlockCyclic(90, 90, 2, 2), BlockCyclic(40, 40, 3, 3)]
    for turn in range(24):
        old, new = grids[turn % 2], grids[1 - turn % 2]
        arrays, expected = [], []
        for k, layout in enumerate(layouts[: 1 + (turn // 8 == 1)]):
            whole = content(layout.shape, np.dtype("f8"), seed + 100 * turn + k)
            local = arena.empty(layout.local_shape(old.grid, WORLD.rank), "f8")
            local[...] = local_part(whole, layout, old.grid, WORLD.rank)
            arrays.append(MovingArray(f"a{k}", layout, "f8", local))
            expected.append(local_part(whole, layout, new.grid, WORLD.rank))
        if turn == 20:
            arena.trim(0)
        limit = 3000 if turn >= 22 else None
        done = redistribute(WORLD, arrays, old, new, arena=arena, max_extra_bytes=limit)
        assert done.direct
        for result, part in zip(done.arrays, expected, strict=True):
            checked += check(result, part, turn)
        del arrays, local, done, result
    return checked


class Disturbances:
    """What can be different on one rank when a move is asked for once more."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.held: list[Array] = []

    def draw(self, rng: random.Random) -> str | None:
        """What happens, mostly nothing."""
        if rng.random() > 0.25:
            return None
        return rng.choice(
            [name for name in vars(Disturbances) if name[0] != "_" and name != "draw"]
        )

    def late(self, array: MovingArray) -> MovingArray:
        time.sleep(0.01)
        return array

    def elsewhere(self, array: MovingArray) -> MovingArray:
        local = self.arena.empty(array.local.shape, "f8", array.order)
        local[...] = array.local
        return replace(array, local=local)

    def strided(self, array: MovingArray) -> MovingArray:
        wide = np.zeros((array.local.shape[0], 2 * array.local.shape[1]))
        wide[:, ::2] = array.local
        return replace(array, local=wide[:, ::2])

    def trimmed(self, array: MovingArray) -> MovingArray:
        self.arena.trim(0)
        return array

    def crowded(self, array: MovingArray) -> MovingArray:
        self.held.append(self.arena.empty(array.local.shape, "f8"))
        return array

    def roomy(self, array: MovingArray) -> MovingArray:
        for name in ("send 0", "receive 0"):
            kept = self.arena.scratch(name, 1).base
            assert kept is not None
            self.arena.scratch(name, 2 * kept.size)
        return array

    def wrong(self, array: MovingArray) -> MovingArray:
        return replace(array, local=array.local[:-1])

    def another(self, array: MovingArray) -> MovingArray:
        return replace(array, name="C")


class Asked:
    """Two arrays that go to and fro between two grids: the same memory each time."""

    def __init__(self, rng: random.Random, transport: Transport) -> None:
        self.transport, self.comm = transport, WORLD.Dup()
        self.arena, size = Arena(), WORLD.size
        sides = (1, size), rng.choice([(size, 1), (1, max(1, size - 1))])
        self.places = [Placement.leading(ProcessGrid(*side)) for side in sides]
        self.limit: int | None = rng.choice([None, 5000])
        self.layouts: list[BlockCyclic | Cyclic1D] = [
            rng.choice([BlockCyclic(60, 60, 2, 2), BlockCyclic(61, 64, 3, 5, 1, 1)]),
            Cyclic1D(40, 3),  # stays where it is if both grids have as many ranks
        ]
        self.orders: tuple[Order, Order] = rng.choice(ORDERS), "C"
        self.sources = [[self.empty(k, place) for k in (0, 1)] for place in self.places]

    def empty(self, k: int, place: Placement) -> Array | None:
        """Memory for this rank's part of array ``k``; None if it is not on the grid."""
        p = place.grid_rank(self.comm.rank)
        if p is None:
            return None
        return self.arena.empty(self.layouts[k].local_shape(place.grid, p), "f8", self.orders[k])

    def parts(self, seed: int, k: int, place: Placement) -> Array | None:
        """What this rank holds of array ``k`` on the grid of ``place``."""
        p, layout = place.grid_rank(self.comm.rank), self.layouts[k]
        whole = content(layout.shape, np.dtype("f8"), seed + k)
        return None if p is None else local_part(whole, layout, place.grid, p)

    def again(self, rng: random.Random, way: int, disturbances: Disturbances) -> int:
        """Once more, perhaps with something different on one rank; what is checked."""
        seed, old, new = rng.randrange(1 << 30), self.places[way], self.places[1 - way]
        arrays = []
        for k, local in enumerate(self.sources[way]):
            if local is not None:
                local[...] = self.parts(seed, k, old)
            arrays.append(MovingArray("AB"[k], self.layouts[k], "f8", local, order=self.orders[k]))
        what, who = disturbances.draw(rng), rng.randrange(old.grid.size)
        if what is not None and who == self.comm.rank:
            arrays[0] = getattr(disturbances, what)(arrays[0])

        def move() -> Redistribution:
            return redistribute(
                self.comm, arrays, old, new,
                arena=self.arena, transport=self.transport, max_extra_bytes=self.limit,
            )  # fmt: skip

        if what == "wrong":
            says = "'A': the local array has shape"
            return same_everywhere(move, InvalidRedistributionError, says)
        if what == "another" and self.comm.size > 1:
            return same_everywhere(move, DeclarationMismatchError, "ranks disagree")
        results = move().arrays
        story = self.transport, what, who
        return 1 + sum(check(results[k], self.parts(seed, k, new), story) for k in (0, 1))


def again_and_again(seed: int) -> int:
    """The same moves over and over; now and then something is different on one rank, or fails."""
    rng, checked = random.Random(seed), 0
    transports: tuple[Transport, ...] = ("messages", "direct")
    for transport in transports:
        asked, way = Asked(rng, transport), 0
        disturbances = Disturbances(asked.arena)
        for _ in range(60):
            way = way if rng.random() < 0.7 else 1 - way
            checked += asked.again(rng, way, disturbances)
        arena, comm = asked.arena, asked.comm
        disturbances.held.clear()
        del asked
        gc.collect()  # frames of exceptions
        arena.trim(0)
        assert (arena.used_bytes, arena.free_bytes) == (0, 0)
        comm.Free()
    return checked


def nothing_piles_up(seed: int) -> int:
    """Open files and kept memory stay flat over many moves in one job: thrice the same twenty."""
    arena = Arena()
    place = Placement.leading(ProcessGrid(1, 1))
    layout = BlockCyclic(300, 300, 16, 16)
    local = arena.empty(layout.shape, "f8") if WORLD.rank == 0 else None
    if local is not None:
        local[...] = 7
    files: list[int] = []
    rng = random.Random(seed)
    moves = [placed(rng, WORLD.size) for _ in range(20)]
    for new in 3 * moves:
        array = MovingArray("A", layout, "f8", local)
        (local,) = redistribute(WORLD, [array], place, new, arena=arena).arrays
        del array
        arena.trim()
        place = new
        files.append(len(list(Path("/proc/self/fd").iterdir())))
        assert local is None or (local == 7).all()
    assert max(files[20:]) <= max(files[:20]), files
    assert arena.free_bytes + arena.used_bytes <= (64 << 20) + 2 * layout.m * layout.n * 8
    return 1


def across_a_spawned_communicator(seed: int) -> int:
    """Ranks that were spawned and merged move and read data like any others."""
    parent = MPI.Comm.Get_parent()
    if parent == MPI.COMM_NULL:
        arguments = [__file__, *sys.argv[1:]]
        joined = WORLD.Spawn(sys.executable, arguments, maxprocs=2)
        comm = joined.Merge(high=False)
    else:
        comm = parent.Merge(high=True)
    checked = random_moves(seed, comm)
    old = Placement.leading(
        ProcessGrid(1, WORLD.size if parent == MPI.COMM_NULL else comm.size - 2)
    )
    new = Placement.leading(ProcessGrid(1, comm.size))
    layout, arena = BlockCyclic(64, 64, 4, 4), Arena()
    p = old.grid_rank(comm.rank)
    local = None if p is None else arena.empty(layout.local_shape(old.grid, p), "f8")
    if local is not None:
        local[...] = 3
    array = MovingArray("A", layout, "f8", local)
    done = redistribute(comm, [array], old, new, transport="direct", arena=arena)
    assert done.direct
    assert (done.arrays[0] == 3).all()
    total = comm.allreduce(checked + 1)
    comm.Disconnect()
    return total if WORLD.rank == 0 and parent == MPI.COMM_NULL else 0


def main() -> None:
    story, seed = sys.argv[1], int(sys.argv[2])
    try:
        checked = WORLD.allreduce(globals()[story](seed))
    except Exception:
        traceback.print_exc()
        WORLD.Abort(1)  # the other ranks would wait for this one
    if WORLD.rank == 0 and MPI.Comm.Get_parent() == MPI.COMM_NULL:
        print(json.dumps({"checked": checked}))


if __name__ == "__main__":
    main()
