"""One answer on every rank: go on together, or raise the same exception together."""

from __future__ import annotations

import hashlib

import numpy as np
from mpi4py import MPI

from resize_lib.descriptors import DescriptorError
from resize_lib.redistribution.copying import RawBytes
from resize_lib.redistribution.errors import (
    CorruptDataError,
    CustomDataError,
    DeclarationMismatchError,
    InvalidRedistributionError,
    OutOfMemoryError,
    RedistributionError,
)
from resize_lib.redistribution.meeting import RECORD_BYTES_MAX, attendance_of
from resize_lib.redistribution.waiting import wait_all

# A rank's verdict travels as the index of its exception type; the first rank's type is raised.
KINDS: tuple[type[RedistributionError], ...] = (
    InvalidRedistributionError,
    OutOfMemoryError,
    CustomDataError,
    CorruptDataError,
    DeclarationMismatchError,
    RedistributionError,
)
DIGEST_BYTES = 16
FINE = 255
AGAIN = 254  # not a verdict: a rank that could do what it did before, if all others could


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
    meeting = attendance_of(comm).meeting
    if meeting is not None and record.size <= RECORD_BYTES_MAX:
        return meeting.exchange(comm, record)
    records = np.empty((comm.size, record.size), dtype=np.uint8)
    wait_all([comm.Iallgather([record, MPI.BYTE], [records, MPI.BYTE])])
    return records


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

    ``extra``: bytes to exchange on the way, equally many on each rank. Returns every rank's, one
    row per rank.

    Raises:
        RedistributionError: the same type and text on every rank.
    """
    ours = None if error is None else as_ours(error)
    kind = FINE if ours is None else KINDS.index(type(ours))
    record = _record(kind, fingerprint(statement.encode()), extra)
    records = gather_records(comm, record)
    if (records[:, 0] == AGAIN).any():  # they have heard of this rank now, and begin again as well
        records = gather_records(comm, record)
    kinds = records[:, 0]
    if (kinds != FINE).any():
        _raise_reasons(comm, kinds, "" if ours is None else str(ours), error)
    if (records[:, 1 : 1 + DIGEST_BYTES] != records[0, 1 : 1 + DIGEST_BYTES]).any():
        _raise_mismatch(comm, statement)
    return records[:, 1 + DIGEST_BYTES :]


def again_record(told: bytes, extra_bytes: int) -> RawBytes:
    """What a rank gives to ``gather_records`` where others ``agree``, to do as it did before.

    ``told``: a fingerprint of that. Only where all give the same may they go on.
    """
    return _record(AGAIN, told, bytes(extra_bytes))


def fingerprint(content: bytes) -> bytes:
    """``DIGEST_BYTES`` that stand for ``content``."""
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()


def _record(kind: int, digest: bytes, extra: bytes) -> RawBytes:
    return np.frombuffer(bytes([kind]) + digest + extra, dtype=np.uint8)


def _raise_reasons(
    comm: MPI.Intracomm, kinds: RawBytes, text: str, cause: Exception | None
) -> None:
    texts = gather_texts(comm, text)
    reasons = {rank: texts[rank] for rank in np.flatnonzero(kinds != FINE).tolist()}
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
        raise DeclarationMismatchError(
            f"rank 0 declared {len(here) - 3} arrays, rank {rank} {len(there) - 3}:"
            " all ranks must declare the same arrays in the same order"
        )
    line = next(k for k in range(len(here)) if here[k] != there[k])
    raise DeclarationMismatchError(
        f"ranks disagree: rank 0 has {here[line]}; rank {rank} has {there[line]}"
    )
