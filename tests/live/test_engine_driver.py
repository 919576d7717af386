"""The driver of an engine, round by round: whatever is lost, late, or said twice is mended."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dq_client.base.home import Home
from dq_client.deploy.batch.system import HolderRequest, output
from dq_client.deploy.batch_settings import BatchRecord, SlurmTable
from dq_client.deploy.slurm.commands import Slurm
from dq_client.deploy.systems import systems_of
from dq_server.live.engines import driver
from dq_server.live.engines.batch import BatchEngine
from dq_server.live.engines.driver import Driver
from dq_server.live.engines.port import (
    EngineRefusal,
    Has,
    News,
    Pending,
    Refusal,
    Revoked,
    Started,
    TicketEnd,
    TicketPhase,
    Unclear,
    WantedTicket,
)

ASKED, GIVEN = WantedTicket(1, asked=True, given=False), WantedTicket(1, asked=False, given=True)
UP = WantedTicket(1, asked=False, given=False, node="n1")


class Engine:
    """Does at once what it is asked, unless told otherwise."""

    name, at_once = "Batch", 2
    period_s = idle_period_s = 1.0

    def __init__(self) -> None:
        self.there: dict[str, Has] = {}
        self.asked: list[int] = []
        self.queues: list[str] = []
        self.requests: list[list[int]] = []
        self.given: list[str] = []
        self.trouble: dict[str, Exception] = {}  # call -> what becomes of it
        self.lost = False  # a request is taken in, and its answer gets lost

    def _say(self, call: str) -> None:
        if call in self.trouble:
            raise self.trouble[call]

    def has(
        self, ticket: int, phase: TicketPhase, left_s: float | None = None, place: str = ""
    ) -> str:
        key = f"{len(self.there) + 1}"
        self.there[key] = Has(ticket, key, phase, f"job {key} is {phase}", place, left_s)
        return key

    def move(self, key: str, phase: TicketPhase, left_s: float | None = None) -> None:
        old = self.there[key]
        self.there[key] = Has(old.ticket, key, phase, f"job {key} is {phase}", old.place, left_s)

    def ask(self, tickets: Sequence[int], processors: int, queue: str) -> None:
        assert processors == 1
        self.queues += [queue] * len(tickets)
        self.asked += tickets
        self.requests.append([*tickets])
        self._say("ask")
        for ticket in tickets:
            self.has(ticket, TicketPhase.PENDING)
        if self.lost:
            raise Unclear("no answer")

    def give(self, keys: Sequence[str]) -> None:
        self._say("give")
        self.given += keys
        for key in keys:
            self.move(key, TicketPhase.ENDED)

    def poll(self) -> list[Has]:
        self._say("poll")
        return list(self.there.values())

    def words(self, ticket: int) -> str:
        return f"last words of {ticket}"


class Case:
    def __init__(self) -> None:
        self.engine, self.now = Engine(), 100.0
        self.driver = self.started()
        self.round({})

    def started(self) -> Driver:
        """Of a server that has just started."""
        return Driver(self.engine, lambda: self.now)

    def round(self, wanted: dict[int, WantedTicket], after_s: float = 1.0) -> list[News]:
        self.now += after_s
        return self.driver.round(wanted)


def test_a_node_is_asked_for_once_starts_and_is_given_back() -> None:
    c = Case()
    assert c.round({1: ASKED}) == []
    assert c.round({1: ASKED}) == [Pending(1, "job 1 is pending")]
    assert c.round({1: ASKED}) == []
    c.engine.move("1", TicketPhase.RUNNING, 600.0)
    assert c.round({1: ASKED}) == [Started(1, 600.0)]
    c.engine.move("1", TicketPhase.RUNNING, 597.0)
    assert c.round({1: UP}) == []
    c.engine.move("1", TicketPhase.RUNNING, 3600.0)
    assert c.round({1: UP}) == [Started(1, 3600.0)], "somebody has given it more time"
    assert c.round({1: GIVEN}) == [] and c.engine.given == ["1"]
    assert c.round({1: GIVEN}) == [TicketEnd(1, "job 1 is ended")]
    assert c.engine.asked == [1]


def test_a_node_that_is_taken_back_is_told_once_and_its_end_does_not_move() -> None:
    c = Case()
    c.engine.has(1, TicketPhase.RUNNING, 600.0, place="n1")
    assert c.round({1: UP}) == [Started(1, 600.0)]
    c.engine.move("1", TicketPhase.REVOKED, 9.0)
    assert c.round({1: UP}) == [Revoked(1, 9.0, "job 1 is revoked; it said: last words of 1")]
    c.engine.move("1", TicketPhase.REVOKED, 8.0)
    assert c.round({1: UP}) == [] and c.engine.given == []
    c.engine.move("1", TicketPhase.ENDED)
    (ended,) = c.round({1: UP})
    assert isinstance(ended, TicketEnd) and "last words of 1" in ended.why


def test_a_refusal_is_told_with_its_words() -> None:
    c = Case()
    c.engine.trouble["ask"] = Refusal("no such partition")
    assert c.round({1: ASKED, 2: ASKED}) == [
        EngineRefusal(1, "no such partition"), EngineRefusal(2, "no such partition"),
    ]  # fmt: skip


def test_a_request_whose_answer_is_lost_is_not_made_again() -> None:
    c = Case()
    c.engine.lost = True
    assert c.round({1: ASKED}) == [Pending(1, "no answer")]
    assert c.round({1: ASKED}) == [Pending(1, "job 1 is pending")]
    assert c.engine.asked == [1]


def test_a_request_that_is_lost_is_refused_in_time_and_the_others_at_once() -> None:
    c = Case()
    c.engine.trouble["ask"] = Unclear("no answer")
    found = c.round({1: ASKED, 3: ASKED})
    assert found == [Pending(1, "no answer"), EngineRefusal(3, "no answer")]
    assert c.round({1: ASKED}, driver.SHOWS_S / 2) == []
    words = "no answer; it said: last words of 1"
    assert c.round({1: ASKED}, driver.SHOWS_S) == [EngineRefusal(1, words)]
    assert c.engine.asked == [1], "each waits for as long as the engine does not answer"


def test_one_that_comes_when_its_ticket_has_gone_is_given_back() -> None:
    c = Case()
    key = c.engine.has(7, TicketPhase.PENDING)
    assert c.round({}) == [] and c.engine.given == [key]


def test_a_server_that_starts_again_does_not_ask_twice() -> None:
    c = Case()
    c.driver = c.started()
    assert c.round({1: ASKED}) == [] and c.engine.asked == [], "it may still be on its way"
    c.engine.has(1, TicketPhase.PENDING)
    assert c.round({1: ASKED}, driver.SETTLES_S + 1) == [Pending(1, "job 1 is pending")]
    assert c.engine.asked == []


def test_a_server_that_starts_again_asks_for_what_never_arrived() -> None:
    c = Case()
    c.driver = c.started()
    c.round({1: ASKED})
    c.round({1: ASKED, 2: ASKED})
    assert c.engine.asked == [2], "this one is its own"
    c.round({1: ASKED, 2: ASKED}, driver.SETTLES_S + 1)
    assert c.engine.asked == [2, 1]


def test_of_two_for_one_ticket_the_one_that_joined_is_kept() -> None:
    c = Case()
    other = c.engine.has(1, TicketPhase.RUNNING, place="n3")
    mine = c.engine.has(1, TicketPhase.RUNNING, place="n1")
    assert c.round({1: UP}) == [Started(1, None)] and c.engine.given == [other]
    assert c.engine.there[mine].phase is TicketPhase.RUNNING


def test_of_two_that_have_not_joined_the_one_that_runs_is_kept() -> None:
    c = Case()
    waits = c.engine.has(1, TicketPhase.PENDING)
    c.engine.has(1, TicketPhase.RUNNING, place="n1")
    assert c.round({1: ASKED}) == [Started(1, None)] and c.engine.given == [waits]


def test_one_that_ends_by_itself_is_told_with_its_last_words() -> None:
    c = Case()
    key = c.engine.has(1, TicketPhase.ENDED)
    assert c.round({1: UP}) == [TicketEnd(1, f"job {key} is ended; it said: last words of 1")]
    c.engine.there.clear()
    assert c.round({1: UP}) == [
        TicketEnd(1, "Batch does not know it any more; it said: last words of 1")
    ]


def test_an_engine_that_is_away_changes_nothing_and_waiting_jobs_hear_of_it() -> None:
    c = Case()
    c.engine.has(1, TicketPhase.RUNNING, place="n1")
    c.round({1: UP})
    c.engine.trouble["poll"] = Unclear("slurmctld is away")
    assert c.round({1: UP, 2: ASKED}) == [Pending(2, "slurmctld is away")]
    assert c.round({1: UP, 2: ASKED}) == [], "said once"
    del c.engine.trouble["poll"]
    c.round({1: UP, 2: ASKED})
    assert c.engine.asked == [2] and c.engine.given == []


def test_giving_back_is_tried_again() -> None:
    c = Case()
    key = c.engine.has(1, TicketPhase.RUNNING)
    c.engine.trouble["give"] = Unclear("no answer")
    assert c.round({1: GIVEN}) == []
    del c.engine.trouble["give"]
    assert c.round({1: GIVEN}) == [] and c.engine.given == [key]
    c.engine.move(key, TicketPhase.RUNNING)
    assert c.round({1: GIVEN}) == [] and c.engine.given == [key], "it takes its time"
    assert c.round({1: GIVEN}, driver.REPEAT_S) == [] and c.engine.given == [key, key]


def test_one_request_is_for_as_many_nodes_in_a_row_as_the_engine_takes_at_once() -> None:
    c = Case()
    c.round({1: ASKED, 2: ASKED, 3: ASKED, 5: ASKED})
    assert c.engine.requests == [[1, 2], [3], [5]]
    c.engine.requests.clear()
    c.engine.trouble["ask"] = Refusal("no such queue")
    assert c.round({6: ASKED, 7: ASKED}) == [
        EngineRefusal(6, "no such queue"), EngineRefusal(7, "no such queue"),
    ]  # fmt: skip
    assert c.engine.requests == [[6, 7]]


def test_one_that_failed_is_refused_and_removed() -> None:
    c = Case()
    key = c.engine.has(1, TicketPhase.FAILED)
    assert c.round({1: ASKED}) == [
        EngineRefusal(1, f"job {key} is failed; it said: last words of 1")
    ]
    assert c.engine.given == [key] and c.engine.asked == []


def test_one_that_comes_and_goes_between_two_rounds_leaves_its_last_words() -> None:
    c = Case()
    c.round({1: ASKED})
    c.engine.there.clear()
    assert c.round({1: ASKED}, driver.SHOWS_S + 1) == [
        EngineRefusal(1, "Batch has taken it in and has it no more; it said: last words of 1")
    ]


def test_a_holders_last_words_are_its_own_or_the_cause_of_its_end(tmp_path: Path) -> None:
    noted = BatchRecord("ab12", {}, "c.toml", slurm=SlurmTable())
    engine = BatchEngine(Home(tmp_path), noted, {"": Slurm(SlurmTable())}, "python")
    assert engine.words(1) == ""
    file = Path(output(str(noted.folder(Home(tmp_path))), 1))
    file.parent.mkdir(parents=True, mode=0o700)
    slurms = "slurmstepd: error: *** JOB 3 ON n1 CANCELLED AT 2026-11-27T18:06:44"
    for text, words in (
        (f"no MPI here\n{slurms} ***\nsrun: error: n1: task 0: Killed\n", "no MPI here"),
        (f"no MPI here\n{slurms} DUE TO TIME LIMIT ***\n", "DUE TO TIME LIMIT"),
    ):
        file.write_text(text)
        assert engine.words(1) == words


def test_a_request_is_for_one_queue() -> None:
    c = Case()
    wanted = {n: WantedTicket(1, asked=True, given=False, queue=q) for n, q in enumerate("aabb", 1)}
    c.engine.at_once = 9
    c.round(wanted)
    assert c.engine.requests == [[1, 2], [3, 4]] and c.engine.queues == [*"aabb"]


def test_each_queue_has_its_own_options_and_one_that_is_gone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = SlurmTable(partition="a", python="/opt/py"), SlurmTable(name="b", partition="a,c")
    noted = BatchRecord("ab12", {}, "c.toml", slurm=tables)
    systems, requests = systems_of(noted), list[tuple[str, str]]()
    for name, system in systems.items():
        monkeypatch.setattr(
            system, "submit", lambda request, name=name: requests.append((name, request.python))
        )
    engine = BatchEngine(Home(tmp_path), noted, systems, "python")
    engine.ask([1], 1, "a")
    engine.ask([2], 1, "b")
    assert requests == [("a", "/opt/py"), ("b", "python")]
    with pytest.raises(Refusal, match="Slurm: the cluster file has queues a, b, not ''"):
        engine.ask([3], 1, "")


@pytest.mark.parametrize(("known_s", "told_s"), [(None, 30.0), (0.0, 1.0), (12.0, 12.0)])
def test_a_holder_is_told_how_long_its_system_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known_s: float | None, told_s: float
) -> None:
    """A site without such a time is not one where it is not known."""
    noted = BatchRecord("ab12", {}, "c.toml", slurm=SlurmTable(), kill_wait_s=known_s)
    system, requests = Slurm(SlurmTable()), list[HolderRequest]()
    monkeypatch.setattr(system, "submit", requests.append)
    BatchEngine(Home(tmp_path), noted, {"": system}, "python").ask([1], 1, "")
    assert [request.kill_wait_s for request in requests] == [told_s]
