"""Where new ranks need all cores of a node, its old ranks wait for them a moment."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from dq_client.base import messages as m
from resize_lib import resize
from resize_lib.processes import SpawnError
from resize_lib.resize import CROWDED_WAIT_S, Step, advise

CORES = 4


class Backend:
    """Begins any expansion. `news`: whether its ranks have come; an error: they will not."""

    can_resize, name = True, "own"

    def __init__(self, news: bool | SpawnError) -> None:
        self.news = news
        self.waits_s: list[float] = []

    def begin_expand(self, hosts: list[str], *, world: int, touch: list[int]) -> None:
        """Nothing to do."""

    def expand_ready(self, wait_s: float = 0.0) -> bool:
        self.waits_s.append(wait_s)
        if isinstance(self.news, SpawnError):
            raise self.news
        return self.news


def session_of(backend: Backend, told: list[Any]) -> Any:
    job = SimpleNamespace(expanding=None)
    return SimpleNamespace(
        job=job,
        backend=backend,
        succession=None,
        legal_sizes=(),
        declared={},
        rank=0,
        size=2,
        places=[m.RankPlace(k, "n1", "n1") for k in range(2)],
        server=lambda: SimpleNamespace(tell=told.append),
    )


def grant(hosts: list[str]) -> m.RemapAnswer:
    places = [m.RankPlace(k, host, host) for k, host in enumerate(hosts, 2)]
    return m.RemapAnswer(what="expand", resize_id=7, rows=1, cols=2 + len(hosts), places=places)


@pytest.fixture(autouse=True)
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: CORES)


@pytest.mark.parametrize(
    ("hosts", "waits"),
    [(["n1"] * CORES, True), (["n1"] * (CORES - 1), False), (["n2"] * 2 * CORES, False)],
)
def test_a_job_waits_only_for_ranks_that_need_all_cores_here(hosts: list[str], waits: bool) -> None:
    backend = Backend(news=True)
    _, step = advise(session_of(backend, []), grant(hosts), 0.01, last=False)
    assert backend.waits_s == ([CROWDED_WAIT_S] if waits else [])
    assert step is (Step.COMPLETE if waits else Step.BEGIN)


def test_ranks_that_are_late_start_while_the_job_computes() -> None:
    backend = Backend(news=False)
    _, step = advise(session_of(backend, []), grant(["n1"] * CORES), 0.01, last=False)
    assert step is Step.BEGIN


def test_a_rank_0_whose_ranks_compute_does_not_wait() -> None:
    backend = Backend(news=True)
    _, step = advise(session_of(backend, []), grant(["n1"] * CORES), 0.01, last=False, alone=True)
    assert (step, backend.waits_s) == (Step.BEGIN, [])


def test_ranks_that_fail_meanwhile_abort_the_resize() -> None:
    told: list[Any] = []
    backend = Backend(SpawnError("no such program"))
    _, step = advise(session_of(backend, told), grant(["n1"] * CORES), 0.01, last=False)
    assert step is Step.GIVE_UP
    assert told == [m.Aborted(7, "no such program")]


def test_what_has_come_is_completed_without_having_been_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[tuple[m.RemapAnswer, bool]] = []
    monkeypatch.setattr(resize, "expand", lambda _, answer, begun: done.append((answer, begun)))
    session = session_of(Backend(news=True), [])
    answer = grant(["n1"] * CORES)
    assert resize.carry_out(session, answer, Step.COMPLETE)
    assert done == [(answer, True)]
    before = grant(["n2"])
    session.job.expanding = before
    resize.carry_out(session, m.RemapAnswer(what="continue"), Step.COMPLETE)
    assert done[1:] == [(before, True)]
