"""Ranks that are threads, for what the copies of protected jobs need of MPI."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Queue
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

from resize_lib.protection import chosen, partners, protector, recovery
from resize_lib.protection.state import ProtectionError

WAITS_S = 60.0  # a limit against hanging


class Ranks:
    """So many of them; what each returns, or raises."""

    def __init__(self, size: int, patch: pytest.MonkeyPatch) -> None:
        self.size = size
        self._barrier = threading.Barrier(size)
        self._words = [""] * size
        self._messages: dict[tuple[int, int, int], Queue[bytes]] = {}
        self._lock = threading.Lock()
        for module in (chosen, protector, recovery):
            patch.setattr(module, "gather_texts", self._gather)
        patch.setattr(recovery, "idle_bcast", self._bcast)
        for waiting in (chosen, partners):
            patch.setattr(waiting, "wait_all", lambda requests: [r() for r in requests])
        mpi = SimpleNamespace(Intracomm=lambda comm: comm, pickle=MPI.pickle, BYTE=MPI.BYTE)
        for module in (protector, recovery):
            patch.setattr(module, "MPI", mpi)

    def __call__(self, work: Callable[[Any], Any]) -> list[Any]:
        found: list[Any] = [None] * self.size

        def run(rank: int) -> None:
            try:
                found[rank] = work(Comm(self, rank))
            except Exception as e:  # handed on
                found[rank] = e
                if not self._barrier.broken and not isinstance(e, ProtectionError):
                    self._barrier.abort()

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found

    def _gather(self, comm: Comm, text: str) -> list[str]:
        self._words[comm.rank] = text
        self._barrier.wait(WAITS_S)
        found = list(self._words)
        self._barrier.wait(WAITS_S)
        return found

    def _bcast(self, comm: Comm, value: Any) -> Any:
        self._words[comm.rank] = value
        self._barrier.wait(WAITS_S)
        found = self._words[0]
        self._barrier.wait(WAITS_S)
        return found

    def queue(self, source: int, dest: int, tag: int) -> Queue[bytes]:
        with self._lock:
            return self._messages.setdefault((source, dest, tag), Queue())


class Comm:
    """Of one rank."""

    def __init__(self, ranks: Ranks, rank: int) -> None:
        self._ranks, self.rank, self.size = ranks, rank, ranks.size

    def Isend(self, what: Any, dest: int, tag: int) -> Callable[[], None]:  # noqa: N802 - MPI's
        self._ranks.queue(self.rank, dest, tag).put(what[0].tobytes())
        return lambda: None

    def Irecv(self, what: Any, source: int, tag: int) -> Callable[[], None]:  # noqa: N802 - MPI's
        def wait() -> None:
            data = self._ranks.queue(source, self.rank, tag).get(timeout=WAITS_S)
            assert len(data) == what[0].nbytes
            what[0][:] = np.frombuffer(data, np.uint8)

        return wait
