"""Processors that are to become empty, until they are: what is ended, killed, saved and said."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dq_client.base import messages as m
from dq_client.base import process_tree
from dq_client.node.agent import vacancies
from dq_client.node.agent.context import ClosedInstances
from dq_client.node.agent.reports import Reports
from dq_client.node.agent.vacancies import LEAVE_WITHIN_S, Vacancies
from dq_client.node.ranks import adoption

PLACES = m.CopyPlaces("/dev/shm/dq-1")


class Held:
    """Stands for holdings.Tree."""

    folder = Path("/nowhere")

    def __init__(self, *, runs: bool = True, killed: bool = False) -> None:
        self.runs, self.killed, self.left, self.ended = runs, killed, False, 0

    def running(self) -> bool:
        return self.runs

    def terminate(self) -> None:
        self.killed, self.ended = True, self.ended + 1

    def sweep(self) -> bool:
        return not self.left


class Played:
    """An agent's vacancies. `there`: processes that exist; `own`: those that belong to job 1."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now, self.there, self.own, self.adopted = 0.0, set[int](), set[int](), list[int]()
        self.members: list[int] = []
        self.killed: list[int] = []
        self.held: list[Held] = []
        self.saved: list[tuple[int, int, m.CopyPlaces]] = []
        self.saves = self.world_gone = True
        self.ended: list[m.Vacate] = []
        holdings: Any = SimpleNamespace(
            of=lambda *_: self.held, get=lambda *_: self.held[0] if self.held else None
        )
        context: Any = SimpleNamespace(
            clock=lambda: self.now, closed=ClosedInstances(), reports=Reports(),
            holdings=holdings, owner="me", home=SimpleNamespace(root=Path("/home")),
        )  # fmt: skip
        self.context = context
        copies: Any = SimpleNamespace(save=self._save)
        own: Any = SimpleNamespace(end_world=self._end_world)
        patch.setattr(process_tree, "exists", lambda pid: pid in self.there)
        patch.setattr(
            process_tree, "belonging", lambda pids, *_: [p for p in pids if p in self.own]
        )
        patch.setattr(process_tree, "members", lambda *_: self.members)
        patch.setattr(process_tree, "kill", self.killed.extend)
        patch.setattr(adoption, "adopted", lambda _: self.adopted)
        self.vacancies = Vacancies(context, copies, own)

    def _belonging(self, pids: list[int], *_: object) -> list[int]:
        return [pid for pid in pids if pid in self.own]

    def _save(self, job: int, instance: int, places: m.CopyPlaces) -> bool:
        self.saved.append((job, instance, places))
        return self.saves

    def _end_world(self, order: m.Vacate) -> bool:
        self.ended.append(order)
        return self.world_gone

    def said(self) -> dict[str, m.RequestBody]:
        self.vacancies.look()
        return {about: report.body for about, report in self.context.reports._open.items()}


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    return Played(monkeypatch)


def vacate(**more: Any) -> m.Vacate:
    given: dict[str, Any] = {"job": 1, "instance": 2, "processors": [4, 5], "pids": []}
    return m.Vacate(**(given | more))


def test_ranks_that_retire_are_waited_for_and_then_killed(
    played: Played, caplog: pytest.LogCaptureFixture
) -> None:
    played.there = played.own = {7, 8}
    played.vacancies.add(vacate(pids=[7, 8, 9]))
    played.now = LEAVE_WITHIN_S
    assert played.said() == {}
    assert played.killed == []
    played.now += 1
    assert played.said() == {}
    assert played.killed == [7, 8]
    assert "job 1: killing [7, 8], which do not leave" in caplog.text
    played.there = set()
    about, wanted = "vacated 1.2 4", m.Vacated(1, 2, [4, 5], [7, 8, 9])
    assert played.said() == {about: wanted}
    played.context.reports = Reports()
    assert played.said() == {}, "said once"


def test_processes_of_others_keep_no_processor(played: Played) -> None:
    played.there, played.own = {7, 8}, set()
    played.vacancies.add(vacate(pids=[7, 8]))
    assert played.said()


def test_ranks_that_were_taken_in_are_the_jobs_too(played: Played) -> None:
    played.there, played.own, played.adopted = {7, 8}, {7}, [8]
    order = vacate(pids=[7, 8])
    assert played.vacancies.still_there(order) == [7], "no start is held here"
    played.held = [Held()]
    assert played.vacancies.still_there(order) == [7, 8]
    played.adopted = [9]
    assert played.vacancies.still_there(order) == [7]


def test_all_of_a_job_that_is_over_ends(played: Played) -> None:
    one, two = Held(), Held(killed=True)
    played.held = [one, two]
    played.vacancies.add(vacate())
    assert (1, 2) in played.context.closed, "nothing of it may start any more"
    for _ in range(2):
        assert played.said() == {}
    assert (one.ended, two.ended) == (1, 0)
    one.runs = False
    assert played.said() == {}
    two.runs, two.left = False, True
    assert played.said() == {}
    two.left = False
    assert len(played.said()) == 1


def test_what_is_left_of_a_job_that_is_not_held_is_killed(played: Played) -> None:
    played.members = [7]
    played.vacancies.add(vacate())
    assert played.said() == {}
    assert played.killed == [7]
    played.members = []
    assert played.said()


@pytest.mark.parametrize("world", [0, 4])
def test_a_world_that_ends_closes_no_job(played: Played, world: int) -> None:
    played.world_gone, order = False, vacate(world=world)
    played.vacancies.add(order)
    assert played.said() == {}
    assert (1, 2) not in played.context.closed
    played.world_gone = True
    assert played.said() == {"vacated 1.2 4": m.Vacated(1, 2, [4, 5], [], world)}
    assert played.ended == [order, order]


def test_ranks_that_retire_close_no_job(played: Played) -> None:
    played.vacancies.add(vacate(pids=[7]))
    assert (1, 2) not in played.context.closed


def test_copies_are_saved_before_the_processors_are_said_to_be_empty(played: Played) -> None:
    played.saves, played.members = False, [7]
    played.vacancies.add(vacate(save=PLACES))
    assert played.said() == {}
    assert played.saved == [], "its processes may still write some"
    played.members = []
    assert played.said() == {}
    assert played.saved == [(1, 2, PLACES)]
    played.saves = True
    assert played.said()


def test_an_order_that_is_repeated_changes_nothing(played: Played) -> None:
    played.there = played.own = {7}
    for now in (0.0, 20.0):
        played.now = now
        played.vacancies.add(vacate(pids=[7]))
    played.vacancies.add(vacate(pids=[7], processors=[6]))
    assert [(v.order.processors, v.since_s) for v in played.vacancies.waiting] == [
        ([4, 5], 0.0),
        ([6], 20.0),
    ]


@pytest.mark.parametrize(
    ("more", "retiring"),
    [
        ({}, False),
        ({"pids": [7]}, True),
        ({"world": 0}, True),
        ({"world": 4}, True),
        ({"world": 4, "stop_signal": 12}, False),
        ({"save": PLACES}, True),
    ],
)
def test_what_takes_milliseconds_is_looked_at_often(
    played: Played, more: dict[str, Any], retiring: bool
) -> None:
    played.vacancies.add(vacate(**more))
    assert played.vacancies.retiring is retiring


def test_nothing_is_retiring_at_first(played: Played) -> None:
    assert not played.vacancies.retiring
    assert vacancies.LEAVE_WITHIN_S > 0
