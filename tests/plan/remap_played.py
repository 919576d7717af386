"""A session of one process whose server and backend say what a test wants."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mpi4py import MPI

from dq_client.base import messages as m
from resize_lib.processes import ProcessError

CONTINUE = m.RemapAnswer(what="continue")


class Backend:
    """`ready`: whether begun ranks have come; `fails`: by the method that does."""

    can_resize, why_not, name = True, "not by this launcher", "own"

    def __init__(self) -> None:
        self.ready = self.news = False
        self.fails: dict[str, ProcessError] = {}
        self.done: list[tuple[Any, ...]] = []

    def _do(self, *what: Any) -> None:
        self.done.append(what)
        if what[0] in self.fails:
            raise self.fails[what[0]]

    def begin_expand(self, hosts: list[str], *, world: int, touch: list[int]) -> None:
        self._do("begin", hosts, world, touch)

    def expand_ready(self, wait_s: float = 0.0) -> bool:
        self._do("ready", wait_s)
        return self.ready

    def expand_news(self) -> bool:
        return self.news

    def cancel_expand(self) -> None:
        self._do("cancel")

    def complete_expand(self, _: Any, _refused: str = "") -> Any:
        self._do("complete")
        return "wider"


class Server:
    """`answers`: to reports, in turn; None: the answer has not come yet."""

    def __init__(self) -> None:
        self.told: list[m.RequestBody] = []
        self.reports: list[m.RemapPoint] = []
        self.answers: list[m.RemapAnswer | None] = []
        self.word = ""
        self.rings = self.moved = False

    def rung(self) -> bool:
        return self.rings

    def has_moved(self) -> bool:
        return self.moved

    def tell(self, body: m.RequestBody) -> None:
        self.told.append(body)

    def remap(self, report: m.RemapPoint) -> m.RemapAnswer:
        self.reports.append(report)
        found = self.answers.pop(0)
        assert found is not None
        return found

    def begin_remap(self, report: m.RemapPoint) -> None:
        self.reports.append(report)

    def remap_answer(self, *, wait: bool) -> m.RemapAnswer | None:
        found = self.answers.pop(0)
        assert found is not None or not wait
        return found

    def remap_word(self) -> str:
        return self.word


def session(size: int = 2, rank: int = 0) -> Any:
    """Of a managed job, on nodes n1."""
    backend, server = Backend(), Server()
    job = SimpleNamespace(
        expanding=None, managed=True, reports=True, seq=4, resize_id=3, redistribution_s=0.5,
        asked=None, rows=1, cols=size, processors=list(range(size)),
    )  # fmt: skip
    return SimpleNamespace(
        job=job, backend=backend, link=server, server=lambda: server, succession=None,
        legal_sizes=(), declared={}, rank=rank, size=size, comm=MPI.COMM_SELF, step=9,
        grid=SimpleNamespace(comm=MPI.COMM_SELF, own_comm=MPI.COMM_SELF),
        places=[m.RankPlace(k, "n1", "n1") for k in range(size)],
        carry=SimpleNamespace(carried="x"),
        protector=None, in_place=None, asks=False, values={},
        loops=SimpleNamespace(label="loop"), farms=SimpleNamespace(prune=lambda: None),
    )  # fmt: skip


def grant(count: int = 1, *, resize_id: int = 7, host: str = "n2") -> m.RemapAnswer:
    """An expansion from two ranks."""
    places = [m.RankPlace(k, host, host) for k in range(2, 2 + count)]
    return m.RemapAnswer(what="expand", resize_id=resize_id, rows=1, cols=2 + count, places=places)
