"""One rank's part of a copy, as one file.

    8 bytes   b"DQCOPY1\\n"
    8 bytes   length of the header, little endian
    header    JSON: rank, grid, and for each declared name where its bytes are and what they mean
    data      each block at a multiple of 64 bytes

An array's block is its local part in the declared memory order; data that the application packs
itself is packed for the grid it is on, one piece per rank; values that all ranks share are in rank
0's file. The file appears under its name when it is complete, and its checksum is kept elsewhere
(generations.py), so that a file that was damaged or exchanged later does not vouch for itself.
Blocks of bytes come back as Python objects, so each has a code that only who knows the job's key
(DQ_COPY_KEY) can make, and is not looked at without.
"""

from __future__ import annotations

import ast
import hashlib
import hmac
import json
import os
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.format import descr_to_dtype, dtype_to_descr
from numpy.typing import NDArray

from resize_lib.descriptors import (
    Block1D,
    BlockCyclic,
    CartesianBlocks,
    Cyclic1D,
    ProcessGrid,
    Weighted1D,
)
from resize_lib.protection.state import ProtectionError
from resize_lib.redistribution.types import Order

MAGIC = b"DQCOPY1\n"
ALIGNMENT = 64
READ_BYTES = 1 << 22
HEADER_BYTES_MAX = 64 << 20
Layout: TypeAlias = BlockCyclic | Block1D | Cyclic1D | Weighted1D | CartesianBlocks
LAYOUTS: dict[str, type[Layout]] = {
    kind.__name__: kind for kind in (BlockCyclic, Block1D, Cyclic1D, Weighted1D, CartesianBlocks)
}


@dataclass(frozen=True, slots=True)
class ArrayBlock:
    """A local part to be written, and its layout."""

    layout: Layout
    local: NDArray[Any]
    order: Order = "C"


@dataclass(frozen=True, slots=True)
class BytesBlock:
    """Pieces of bytes to be written: packed data (one per rank of the grid), or shared values."""

    pieces: Sequence[bytes]


Block: TypeAlias = ArrayBlock | BytesBlock


@dataclass(slots=True)
class PartHeader:
    """A file's header: `blocks` says for each name where it is and what it means."""

    path: Path
    grid: ProcessGrid
    rank: int
    blocks: dict[str, dict[str, Any]] = field(default_factory=dict)

    def array(self, name: str) -> NDArray[Any]:
        """A view of the file: only what is looked at is read."""
        about = self._block(name, "array")
        dtype, shape = descr_to_dtype(ast.literal_eval(about["dtype"])), tuple(about["shape"])
        if 0 in shape or dtype.itemsize == 0:
            return np.empty(shape, dtype, about["order"])
        return np.memmap(self.path, dtype, "r", about["at"], shape, about["order"])

    def layout(self, name: str) -> Layout:
        """The array's descriptor when it was copied."""
        about = dict(self._block(name, "array")["layout"])
        kind: Any = LAYOUTS[about.pop("kind")]
        found: Layout = kind(**about)
        return found

    def pieces(self, name: str) -> list[bytes]:
        """Packed data, or shared values."""
        about = self._block(name, "bytes")
        with self.path.open("rb") as f:
            f.seek(about["at"])
            pieces = [f.read(length) for length in about["lengths"]]
        code = _code(name, self.grid, self.rank, pieces)
        if not hmac.compare_digest(code, str(about.get("code", ""))):
            raise ProtectionError(f"{self.path}: {name!r} was not written by this job")
        return pieces

    def _block(self, name: str, kind: str) -> dict[str, Any]:
        about = self.blocks.get(name)
        if about is None or about["kind"] != kind:
            held = ", ".join(self.blocks) or "nothing"
            raise ProtectionError(f"the copy has no {kind} {name!r}; it has {held}")
        return about


def write_part(
    path: Path, grid: ProcessGrid, rank: int, blocks: dict[str, Block], *, sync: bool
) -> tuple[int, int]:
    """Write a part, all at once; returns its size and checksum. OSError if that is impossible.

    `sync`: it shall be there even if the machine dies right after.
    """
    about, at = {}, 0
    for name, block in blocks.items():
        entry = _describe(block)
        if isinstance(block, BytesBlock):
            entry["code"] = _code(name, grid, rank, block.pieces)
        about[name] = {**entry, "at": at}
        at = _aligned(at + _bytes_of(block))
    # Offsets in the file follow from the header's own length: it is written with room to spare.
    room = _aligned(len(MAGIC) + 8 + len(_header(grid, rank, about)) + 24 * len(about))
    for entry in about.values():
        entry["at"] += room
    header = _header(grid, rank, about)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    out = _Summing(draft)
    try:
        out.write(MAGIC + len(header).to_bytes(8, "little") + header)
        for name, block in blocks.items():
            out.fill(about[name]["at"])
            for piece in _content(block):
                out.write(piece)
        out.close(sync=sync)
        draft.replace(path)
    finally:
        out.abandon()
    return out.size, out.sum


def open_part(path: Path) -> PartHeader:
    """Read a part's header. ProtectionError if it makes no sense, OSError if it is not there."""
    with path.open("rb") as f:
        start = f.read(len(MAGIC) + 8)
        length = int.from_bytes(start[len(MAGIC) :], "little")
        if not start.startswith(MAGIC) or length > HEADER_BYTES_MAX:
            raise ProtectionError(f"{path}: not a copy of DQ")
        header = f.read(length)
    try:
        found = json.loads(header)
        return PartHeader(path, ProcessGrid(*found["grid"]), found["rank"], found["blocks"])
    except (ValueError, KeyError, TypeError) as e:
        raise ProtectionError(f"{path}: the header is damaged: {e}") from e


def checksum_of(path: Path) -> tuple[int, int]:
    """Size and checksum of a file as it is now."""
    total = size = 0
    with path.open("rb") as f:
        while piece := f.read(READ_BYTES):
            total = zlib.crc32(piece, total)
            size += len(piece)
    return size, total


class _Summing:
    """A file that is written from front to back, with its checksum."""

    def __init__(self, path: Path) -> None:
        self.path, self.size, self.sum = path, 0, 0
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._file = os.fdopen(fd, "wb", buffering=0)

    def write(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view:  # without a buffer a write may be partial
            view = view[self._file.write(view[:READ_BYTES]) :]
        self.sum = zlib.crc32(data, self.sum)
        self.size += len(data)

    def fill(self, upto: int) -> None:
        self.write(bytes(upto - self.size))

    def close(self, *, sync: bool) -> None:
        if sync:
            os.fsync(self._file.fileno())
        self._file.close()

    def abandon(self) -> None:
        """Leave nothing behind that was not completed."""
        self._file.close()
        self.path.unlink(missing_ok=True)


def _header(grid: ProcessGrid, rank: int, about: dict[str, dict[str, Any]]) -> bytes:
    found = {"grid": [grid.rows, grid.cols], "rank": rank, "blocks": about}
    return json.dumps(found, separators=(",", ":")).encode()


def _describe(block: Block) -> dict[str, Any]:
    if isinstance(block, BytesBlock):
        return {"kind": "bytes", "lengths": [len(piece) for piece in block.pieces]}
    layout = {"kind": type(block.layout).__name__, **asdict(block.layout)}
    dtype = repr(dtype_to_descr(block.local.dtype))
    shape = list(block.local.shape)
    return {
        "kind": "array", "layout": layout, "dtype": dtype, "shape": shape, "order": block.order,
    }  # fmt: skip


def _code(name: str, grid: ProcessGrid, rank: int, pieces: Sequence[bytes]) -> str:
    """The code of pieces of bytes, which say nothing elsewhere: under another name or rank."""
    key = bytes.fromhex(os.environ.get("DQ_COPY_KEY", ""))  # without a server there is none
    about = [name, grid.rows, grid.cols, rank, [len(piece) for piece in pieces]]
    made = hashlib.blake2b(json.dumps(about).encode() + b"\n", key=key)
    for piece in pieces:
        made.update(piece)
    return made.hexdigest()


def _bytes_of(block: Block) -> int:
    if isinstance(block, BytesBlock):
        return sum(map(len, block.pieces))
    return block.local.nbytes


def _content(block: Block) -> Sequence[bytes | memoryview]:
    if isinstance(block, BytesBlock):
        return block.pieces
    flat = block.local.ravel(order=block.order)
    return [flat.view(np.uint8).data] if flat.nbytes else []


def _aligned(at: int) -> int:
    return -(-at // ALIGNMENT) * ALIGNMENT
