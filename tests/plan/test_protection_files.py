"""Copies: what was written on one grid comes back bit by bit on any other; damage is noticed."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Never

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.examples import examples
from resize_lib.descriptors import (
    Block1D,
    BlockCyclic,
    CartesianBlocks,
    Custom,
    ProcessGrid,
    Weighted1D,
)
from resize_lib.protection import generations, partfile
from resize_lib.protection.generations import Copy
from resize_lib.protection.partfile import (
    ArrayBlock,
    Block,
    BytesBlock,
    Layout,
    open_part,
    write_part,
)
from resize_lib.protection.partners import leaders, partners
from resize_lib.protection.recovery import pack_for_itself, repack, restore_array, unpack_anew
from resize_lib.protection.state import ProtectionError
from tests.plan.layouts import block_cyclic, grids, one_dimensional
from tests.plan.oracle import local_part

DTYPES = [np.dtype(t) for t in ("f8", "i4", "u1", "c16", "f4,i2")]
ONE = ProcessGrid(1, 1)

Order = Literal["C", "F"]
ORDERS: tuple[Order, ...] = ("C", "F")
Move = tuple[ProcessGrid, ProcessGrid, Layout, Layout, npt.NDArray[Any], Order]


def empty(shape: tuple[int, ...], dtype: np.dtype[Any], order: Order) -> npt.NDArray[Any]:
    return np.empty(shape, dtype, order)


def whole_array(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> npt.NDArray[Any]:
    raw = np.random.default_rng(seed).integers(0, 256, int(np.prod(shape)) * dtype.itemsize, "u1")
    return raw.view(dtype).reshape(shape)


@st.composite
def moves(draw: st.DrawFn) -> Move:
    """An array laid out on an old and a new grid, perhaps otherwise there."""
    old, new = draw(grids(4)), draw(grids(4))
    n = draw(st.integers(0, 40))
    layouts: tuple[Layout, Layout]
    shape: tuple[int, ...]
    order: Order
    if draw(st.booleans()):
        k = draw(st.integers(0, 40))
        layouts = draw(block_cyclic(n, k)), draw(block_cyclic(n, k))
        shape = (n, k)
        order = draw(st.sampled_from(ORDERS))
    else:
        trailing = draw(st.sampled_from([(), (3,), (2, 2)]))
        layouts = (
            draw(one_dimensional(n, trailing, old)), draw(one_dimensional(n, trailing, new)),
        )  # fmt: skip
        shape, order = (n, *trailing), "C"
    whole = whole_array(shape, draw(st.sampled_from(DTYPES)), draw(st.integers(0, 99)))
    return old, new, *layouts, whole, order


@settings(max_examples=examples(120), deadline=None)
@given(moves())
def test_written_at_any_size_read_at_any_other(move: Move) -> None:
    old, new, before, after, whole, order = move
    with TemporaryDirectory() as folder:
        for rank in range(old.size):
            part = np.asarray(local_part(whole, before, old, rank), order=order)
            blocks: dict[str, Block] = {
                "first": BytesBlock([b"x", b""]),
                "A": ArrayBlock(before, part, order),
            }
            path = generations.part_path(Path(folder), rank)
            size, total = write_part(path, old, rank, blocks, sync=False)
            assert partfile.checksum_of(path) == (size, total)

        def open_old(rank: int) -> partfile.PartHeader:
            return open_part(generations.part_path(Path(folder), rank))

        assert open_old(0).pieces("first") == [b"x", b""]
        for rank in range(new.size):
            found = restore_array("A", open_old, after, whole.dtype, order, new, rank, empty)
            assert found.tobytes() == local_part(whole, after, new, rank).tobytes()


@settings(max_examples=examples(30), deadline=None)
@given(grids(3), grids(3), st.lists(st.integers(0, 9), max_size=30))
def test_what_an_application_packs_itself(
    old: ProcessGrid, new: ProcessGrid, numbers: list[int]
) -> None:
    """Rank r has the numbers r, r + size, ...: cut and joined by the application alone."""

    def pack(value: list[int], grid: ProcessGrid, rank: int, to: ProcessGrid) -> list[bytes]:
        mine = {rank + k * grid.size: number for k, number in enumerate(value)}
        return [repr({k: v for k, v in mine.items() if k % to.size == r}).encode()
                for r in range(to.size)]  # fmt: skip

    def unpack(pieces: Sequence[bytes], grid: ProcessGrid, rank: int, to: ProcessGrid) -> list[int]:
        found = {k: v for piece in pieces for k, v in eval(piece).items()}
        return [found[k] for k in sorted(found)]

    desc = Custom(pack, unpack, "numbers")
    with TemporaryDirectory() as folder:
        for rank in range(old.size):
            pieces = pack_for_itself(desc, numbers[rank :: old.size], old, rank)
            path = generations.part_path(Path(folder), rank)
            write_part(path, old, rank, {"P": BytesBlock(pieces)}, sync=False)

        def open_old(rank: int) -> partfile.PartHeader:
            return open_part(generations.part_path(Path(folder), rank))

        opened = [  # by each new rank that there is
            repack("P", desc, open_old, range(r, old.size, new.size), new) for r in range(new.size)
        ]
        for rank in range(new.size):
            mine = [piece for of_rank in opened for piece in of_rank[rank]]
            assert unpack_anew(desc, mine, old, new, rank) == numbers[rank :: new.size]


def write_copy(folder: Path, number: int) -> Copy:
    path = folder / generations.name_of(1, number)
    blocks: dict[str, Block] = {"A": ArrayBlock(Block1D(5), np.arange(5.0) + number)}
    part = write_part(generations.part_path(path, 0), ONE, 0, blocks, sync=True)
    copy = Copy(path, ((0, 7), (2, 3)), ONE, (part,))
    generations.write_manifest(copy, sync=True)
    return copy


def test_the_newest_complete_copy_counts(tmp_path: Path) -> None:
    copies = [write_copy(tmp_path, number) for number in (9, 10)]
    assert generations.complete_copies(tmp_path) == [copies[1].folder, copies[0].folder]
    (copies[1].folder / "manifest").unlink()  # as if its writers had been interrupted
    assert generations.complete_copies(tmp_path) == [copies[0].folder]
    assert generations.read_copy(copies[0].folder) == copies[0]
    generations.make_room(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["1.9"]
    assert generations.complete_copies(tmp_path / "nowhere") == []


@pytest.mark.parametrize("how", ["shorter", "one bit", "gone"])
def test_a_damaged_part_is_noticed(tmp_path: Path, how: str) -> None:
    copy = write_copy(tmp_path, 1)
    assert copy.check_part(0) == ""
    body = bytearray(copy.part(0).read_bytes())
    if how == "gone":
        copy.part(0).unlink()
    elif how == "shorter":
        copy.part(0).write_bytes(body[:-1])
    else:
        body[-5] ^= 4
        copy.part(0).write_bytes(body)
    assert "part-00000" in copy.check_part(0)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format": 1, "sum": "x"}', "\x00\xff"])
def test_a_damaged_manifest_is_refused(tmp_path: Path, text: str) -> None:
    copy = write_copy(tmp_path, 1)
    (copy.folder / "manifest").write_text(text)
    with pytest.raises(ProtectionError, match="manifest is damaged"):
        generations.read_copy(copy.folder)


def test_a_manifest_that_was_changed_is_refused(tmp_path: Path) -> None:
    copy = write_copy(tmp_path, 1)
    manifest = copy.folder / "manifest"
    manifest.write_text(manifest.read_text().replace("[2, 3]", "[2, 4]"))
    with pytest.raises(ProtectionError, match="manifest is damaged"):
        generations.read_copy(copy.folder)


@pytest.mark.parametrize("body", [b"", b"DQCOPY1\n", b"DQCOPY1\n" + b"\xff" * 8, b"x" * 100])
def test_a_file_that_is_no_part_is_refused(tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "part-00000"
    path.write_bytes(body)
    with pytest.raises(ProtectionError, match="part-00000"):
        open_part(path)


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older = write_copy(tmp_path, 1)

    def full(fd: int) -> Never:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_copy(tmp_path, 2)
    assert list((tmp_path / "1.2").iterdir()) == []
    assert older.check_part(0) == ""


@pytest.mark.parametrize(
    "layout",
    [
        Block1D(4, (2, 3)),
        BlockCyclic(4, 6, 2, 3),
        Weighted1D(4, (0.5, 2.0), (3,)),
        CartesianBlocks((4, 6), (0, 1), (1, 0), (True, False), (0, 0)),
    ],
)
def test_a_layout_is_read_as_it_was_written(tmp_path: Path, layout: Layout) -> None:
    """Equal and hashable, though JSON turns its tuples into lists."""
    block = ArrayBlock(layout, np.zeros(0))
    write_part(tmp_path / "0", ONE, 0, {"A": block}, sync=False)
    found = open_part(tmp_path / "0").layout("A")
    assert (found, hash(found)) == (layout, hash(layout))


def test_another_array_under_the_same_name_is_refused(tmp_path: Path) -> None:
    copy = write_copy(tmp_path, 1)

    def restore(name: str, layout: Layout, dtype: str) -> npt.NDArray[Any]:
        opened = lambda rank: open_part(copy.part(rank))  # noqa: E731
        return restore_array(name, opened, layout, np.dtype(dtype), "C", ONE, 0, empty)

    assert restore("A", Block1D(5), "f8").tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    with pytest.raises(ProtectionError, match="declared as"):
        restore("A", Block1D(6), "f8")
    with pytest.raises(ProtectionError, match="declared as"):
        restore("A", Block1D(5), "f4")
    with pytest.raises(ProtectionError, match="no array 'B'; it has A"):
        restore("B", Block1D(5), "f8")


@pytest.mark.parametrize(
    "how", ["one bit", "another key", "another rank", "another name", "no code"]
)
def test_bytes_that_the_job_has_not_written_are_not_given_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setenv("DQ_COPY_KEY", "ab" * 32)
    path = tmp_path / "part-00000"
    write_part(path, ONE, 0, {"V": BytesBlock([b"first", b"second"])}, sync=False)
    assert open_part(path).pieces("V") == [b"first", b"second"]
    part = open_part(path)
    if how == "one bit":
        body = bytearray(path.read_bytes())
        body[-1] ^= 1
        path.write_bytes(body)
    elif how == "another key":
        monkeypatch.setenv("DQ_COPY_KEY", "cd" * 32)
    elif how == "another rank":
        part.rank = 1
    elif how == "another name":
        part.blocks["W"] = part.blocks.pop("V")
    else:
        del part.blocks["V"]["code"]
    with pytest.raises(ProtectionError, match="was not written by this job"):
        part.pieces("W" if how == "another name" else "V")


def test_a_folder_that_others_can_write_is_refused(tmp_path: Path) -> None:
    generations.check_private(tmp_path)
    tmp_path.chmod(0o777)
    with pytest.raises(ProtectionError, match="open to others"):
        generations.check_private(tmp_path)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20))
def test_no_node_holds_the_only_two_files_of_a_part(nodes: list[int]) -> None:
    hosts = [f"n{node}" for node in nodes]
    keeper = partners(hosts)
    for rank, who in enumerate(keeper):
        if len(set(hosts)) == 1:
            assert who is None
        else:
            assert who is not None
            assert hosts[who] != hosts[rank]
    assert sorted(hosts[rank] for rank in leaders(hosts)) == sorted(set(hosts))


def test_a_large_part_has_its_checksum_and_is_its_owners_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partfile, "READ_BYTES", 100)
    path = tmp_path / "part"
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    blocks: dict[str, Block] = {"b": BytesBlock([b"x" * 1000, b"y" * 77])}
    written = write_part(path, ONE, 0, blocks, sync=True)
    assert partfile.checksum_of(path) == written
    assert written[0] == path.stat().st_size
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
