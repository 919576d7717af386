"""Collective decisions: all ranks go on, or all raise the same exception."""

from __future__ import annotations

import hashlib

import numpy as np
from mpi4py import MPI

from resize_lib.descriptors import DescriptorError
from resize_lib.redistribution.blocks import RawBytes
from resize_lib.redistribution.types import (
    CustomDataError,
    DeclarationMismatchError,
    InvalidRedistributionError,
    OutOfMemoryError,
    RedistributionError,
)
from resize_lib.waiting import ROOMY, USUAL, Pace, has_room, wait_all

# An exception type travels as its index in this list. Where ranks fail for different reasons the
# type of the first of them is raised.
KINDS: tuple[type[RedistributionError], ...] = (
    InvalidRedistributionError,
    OutOfMemoryError,
    CustomDataError,
    DeclarationMismatchError,
    RedistributionError,
)
DIGEST_BYTES = 16
HEAD_BYTES = 1 + DIGEST_BYTES  # kind, digest: before the caller's bytes
NO_ERROR, NOT_FINE = 255, 254  # the worst kind is the least


def as_ours(error: Exception) -> RedistributionError:
    """``error`` as one of the exceptions that a redistribution raises."""
    if isinstance(error, RedistributionError):
        return error
    if isinstance(error, MemoryError):
        return OutOfMemoryError(f"out of memory: {error}".rstrip(": "))
    if isinstance(error, (DescriptorError, TypeError, ValueError)):
        return InvalidRedistributionError(str(error))
    return RedistributionError(f"{type(error).__name__}: {error}")


def gather_records(comm: MPI.Intracomm, record: RawBytes) -> RawBytes:
    """Every rank's ``record`` (equally long everywhere), one row per rank."""
    records = np.empty((comm.size, record.size), dtype=np.uint8)
    wait_all([comm.Iallgather([record, MPI.BYTE], [records, MPI.BYTE])], _pace(comm))
    return records


def _pace(comm: MPI.Intracomm) -> Pace:
    return ROOMY if has_room(comm) else USUAL


def gather_texts(comm: MPI.Intracomm, text: str) -> list[str]:
    """Every rank's ``text``, of any length."""
    raw = np.frombuffer(text.encode(), dtype=np.uint8)
    length = np.array([raw.size], dtype=np.int64)
    lengths = gather_records(comm, length.view(np.uint8)).view(np.int64).ravel()
    padded = np.zeros(int(lengths.max()), dtype=np.uint8)
    padded[: raw.size] = raw
    texts = gather_records(comm, padded) if padded.size else np.empty((comm.size, 0), np.uint8)
    return [row[:size].tobytes().decode() for row, size in zip(texts, lengths, strict=True)]


def agree(
    comm: MPI.Intracomm, error: Exception | None, statement: str = "", extra: bytes = b""
) -> RawBytes:
    """Go on only if no rank has an error and all made the same ``statement``.

    Collective.

    ``comm``: the library's own, or one on which the application has sent nothing yet.

    ``extra``: bytes to exchange in the same message, equally many on each rank. Returns every
    rank's, one row per rank.

    Raises:
        RedistributionError: the same type and text on every rank.
    """
    # Only a digest of the statement travels: its text, which may be long and differ in length, is
    # gathered in the rare case that two digests differ.
    digest = hashlib.blake2b(statement.encode(), digest_size=DIGEST_BYTES).digest()
    head = bytes([_kind_of(error)]) + digest
    record = np.frombuffer(head + extra, dtype=np.uint8)
    records = gather_records(comm, record)
    # Compared as bytes: numpy's reductions take ten times as long, on every rank.
    if records[:, 0].tobytes() != bytes([NO_ERROR]) * comm.size:
        _raise_reasons(comm, records[:, 0], error)
    digests = records[:, 1 : 1 + DIGEST_BYTES].tobytes()
    if digests != digests[:DIGEST_BYTES] * comm.size:
        _raise_mismatch(comm, statement)
    return records[:, HEAD_BYTES:]


def agree_to_go_on(comm: MPI.Intracomm, error: Exception | None, *, fine: bool = True) -> bool:
    """Go on only if no rank has an error; returns whether all are ``fine``. Collective as above.

    Raises:
        RedistributionError: the same type and text on every rank.
    """
    kind = _kind_of(error)
    if kind == NO_ERROR and not fine:
        kind = NOT_FINE
    least = np.array([kind], dtype=np.uint8)
    number = MPI.UNSIGNED_CHAR  # MPI.BYTE has no order
    wait_all([comm.Iallreduce(MPI.IN_PLACE, [least, number], op=MPI.MIN)], _pace(comm))
    worst = int(least[0])
    if worst < NOT_FINE:
        kinds = gather_records(comm, np.array([kind], dtype=np.uint8))[:, 0]
        _raise_reasons(comm, kinds, error)
    return worst == NO_ERROR


def _kind_of(error: Exception | None) -> int:
    return NO_ERROR if error is None else KINDS.index(type(as_ours(error)))


def _raise_reasons(comm: MPI.Intracomm, kinds: RawBytes, cause: Exception | None) -> None:
    text = "" if cause is None else str(as_ours(cause))
    texts = gather_texts(comm, text)
    reasons = {rank: texts[rank] for rank in np.flatnonzero(kinds < NOT_FINE).tolist()}
    first = next(iter(reasons))
    if len(reasons) == comm.size and len(set(texts)) == 1:
        message = text if comm.size == 1 else f"every rank: {text}"
    else:
        same = [rank for rank, reason in reasons.items() if reason == reasons[first]]
        message = f"rank {', '.join(map(str, same))}: {reasons[first]}"
        if len(same) < len(reasons):
            message += f" (and other reasons on {len(reasons) - len(same)} more)"
    raise KINDS[int(kinds[first])](message, reasons) from cause


def _raise_mismatch(comm: MPI.Intracomm, statement: str) -> None:
    statements = [text.split("\n") for text in gather_texts(comm, statement)]
    rank = next(r for r, lines in enumerate(statements) if lines != statements[0])
    here, there = statements[0], statements[rank]
    if len(here) != len(there):
        # three lines before the arrays': old grid, new grid, options (types.statement_of)
        raise DeclarationMismatchError(
            f"rank 0 declared {len(here) - 3} arrays, rank {rank} {len(there) - 3}:"
            " all ranks must declare the same arrays in the same order"
        )
    line = next(k for k in range(len(here)) if here[k] != there[k])
    raise DeclarationMismatchError(
        f"ranks disagree: rank 0 has {here[line]}; rank {rank} has {there[line]}"
    )
