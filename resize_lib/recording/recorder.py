"""The record of one process: a file of lines, each a JSON object.

    first    {"rank": r, "size": n}
    then     {"at": [[loop, iteration], ...], "resized": b, "rank": r, "size": n,
              "new": {key: [name, file, function, kind]}, "set": {key: fingerprint}, "gone": [key]}

A line follows each iteration, before its remap point, and another one each resize, in the ranks
that are there then (`resized`). It has what is other than in the line before. Kinds:

    part      of declared data: fingerprints of all ranks are added up
    value     declared by rs.value or rs.keep: equal on all ranks
    variable  of the program; local: one that depends on the rank, its part, the size or a clock
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from resize_lib.declared.cartesian import Cartesian
from resize_lib.declared.csr import CSR
from resize_lib.declared.dense import Array, Matrix
from resize_lib.declared.items import Items
from resize_lib.recording import fingerprints
from resize_lib.recording.variables import GENERATOR, Variables

if TYPE_CHECKING:
    from resize_lib.grid import Grid
    from resize_lib.loops import Position
    from resize_lib.runtime import Runtime

Entry = tuple[str, list[str], list[Any]]  # key; name, file, function, kind; fingerprint


class Recorder:
    """Of one process. `folder`: where its file goes."""

    def __init__(self, session: Runtime, folder: Path) -> None:
        self._session = session
        self._grid: Grid | None = session.grid if session.loops.arrived else None
        name = f"{os.getpid()}-{time.monotonic_ns()}.jsonl"
        # Unbuffered: a process that leaves the job may end at any moment.
        self._file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._variables = Variables()
        self._named: set[str] = set()
        self._last: dict[str, list[Any]] = {}
        self._write({"rank": session.rank, "size": session.size})

    def iteration_ends(self) -> None:
        """An iteration is over, its remap point is still to come."""
        self._record(self._session.loops.position, resized=False)

    def remap_ends(self) -> None:
        """The remap point is over. Records only where it has resized the job, or brought this rank
        into it."""
        if self._session.grid is not self._grid:
            self._grid = self._session.grid
            self._record(self._session.job.loops, resized=True)

    def _record(self, position: Position, *, resized: bool) -> None:
        """position: of the iteration to come"""
        session = self._session
        new: dict[str, list[str]] = {}
        now: dict[str, list[Any]] = {}
        for key, words, fingerprint in self._entries():
            if key in now:
                continue
            now[key] = fingerprint
            if key not in self._named:
                self._named.add(key)
                new[key] = words
        at = [list(place) for place in position]
        at[-1][1] -= 1
        self._write(
            {
                "at": at,
                "resized": resized,
                "rank": session.rank,
                "size": session.size,
                "new": new,
                "set": {k: v for k, v in now.items() if self._last.get(k) != v},
                "gone": [k for k in self._last if k not in now],
            }
        )
        self._last = now

    def _write(self, line: dict[str, Any]) -> None:
        data = json.dumps(line).encode() + b"\n"
        while data:
            data = data[os.write(self._file, data) :]

    def _entries(self) -> Iterator[Entry]:
        session, barred = self._session, self._session.stale.bars
        for name, item in session.declared.items():
            found = _part(item)
            if found is not None:
                shown = fingerprints.text(_numbers(item), barred)
                yield (
                    f"declared {name}",
                    [name, "", "", "part"],
                    [found.exact, found.sums, found.sizes, shown, found.total],
                )
        for name, value in session.values.items():
            yield f"declared {name}", [name, "", "", "value"], _plain(value.value, barred)
        for each in self._variables.now():
            shot = _plain(each.value, barred)
            if each.function == GENERATOR:
                shot[2] = f"state {shot[0][:8]}"
            kind = "local" if each.of_rank else "variable"
            yield each.key, [each.name, each.file, each.function, kind], shot


def _host(values: Any) -> NDArray[Any]:
    """An array in host memory."""
    return np.asarray(values.get() if hasattr(values, "get") else values)


def _plain(value: Any, barred: fingerprints.Barred) -> list[Any]:
    found = fingerprints.of(value, barred)
    return [found.digest, found.numbers, found.text]


def _numbers(item: Any) -> Any:
    """This rank's part, for people."""
    return item.local.data if isinstance(item, CSR) else getattr(item, "owned", None)


def _part(item: Any) -> fingerprints.PartFingerprint | None:
    """The fingerprint of this rank's part; None for data whose places are the program's affair."""
    if isinstance(item, Matrix):
        index = item.rows[:, np.newaxis] * item.desc.n + item.cols[np.newaxis, :]
        return fingerprints.part(index, item.local, item.desc.m * item.desc.n)
    if isinstance(item, Array):
        each = prod(item.desc.shape[1:])
        index = item.indices[:, np.newaxis] * each + np.arange(each)
        return fingerprints.part(index, item.owned, prod(item.desc.shape))
    if isinstance(item, Cartesian):
        index = np.zeros((1,) * len(item.shape), np.int64)
        for where, extent in zip(item.indices, item.shape, strict=True):
            index = index * extent + where
        return fingerprints.part(index, _host(item.interior), prod(item.shape))
    if isinstance(item, CSR):
        rows, columns = item.rows, item.shape[1]
        lengths = np.diff(item.local.indptr)
        index = np.repeat(np.arange(rows.start, rows.stop, dtype=np.int64), lengths) * columns
        return fingerprints.part(index + item.local.indices, item.local.data, prod(item.shape))
    return fingerprints.records(item.local) if isinstance(item, Items) else None
