"""Remap points of one process: when they come, what is reported, whose answer is waited for."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from dq_client.base import messages as m
from resize_lib import remap_point
from resize_lib.pace import BURST, CHECK_S, CHECK_SOON_S, Plan
from resize_lib.remap_point import (
    GO_ON_BELOW_S,
    LABEL_MAX,
    MOVES,
    QUIET_S,
    RemapDecision,
    RemapPoints,
)
from resize_lib.resize import Step
from tests.plan.remap_played import CONTINUE, grant, session

ITERATION_S = 1 / 64
INTERVAL_S = 9 * ITERATION_S


class Played:
    """A job of one rank under a clock of the test."""

    def __init__(self, patch: pytest.MonkeyPatch, interval_s: float = INTERVAL_S) -> None:
        self.now, self.session = 100.0, session(size=1)
        clock = SimpleNamespace(perf_counter=lambda: self.now)
        patch.setattr(remap_point, "time", clock)
        self.done: list[tuple[m.RemapAnswer, Step]] = []
        patch.setattr(remap_point, "carry_out", self._carry_out)
        patch.setattr(remap_point, "Postponement", lambda _: self.postponement)
        self.postponement: Any = SimpleNamespace(
            take=lambda: self.later, forget=lambda: self.forgot.append(1),
            step_instead=lambda _, step: self.instead or step,
        )  # fmt: skip
        self.forgot: list[int] = []
        self.later: m.RemapAnswer | None = None  # of a resize that was postponed
        self.instead: Step | None = None
        self.points = RemapPoints(self.session, interval_s)
        self.points._allowance.take(self.now)  # its clock begins now

    def _carry_out(self, _: Any, answer: m.RemapAnswer, step: Step) -> bool:
        self.done.append((answer, step))
        return step is not Step.SHRINK

    @property
    def link(self) -> Any:
        return self.session.link

    def iteration(self, took_s: float = ITERATION_S, *, last: bool = False) -> bool:
        self.now += took_s
        return self.points.due(took_s, last=last)

    def point(self, *answers: m.RemapAnswer | None, last: bool = False) -> bool:
        """A remap point at which the server answers so."""
        self.link.answers += answers
        stays = self.points.make(last=last)
        self.points.go_on()
        return stays


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    return Played(monkeypatch)


@pytest.fixture
def each(monkeypatch: pytest.MonkeyPatch) -> Played:
    """Each iteration is a remap point."""
    return Played(monkeypatch, 0.0)


# --- a job that rests ---------------------------------------------------------------------------

REST = m.RemapAnswer(what="continue", rest=3, usual_s=INTERVAL_S)


def rests(played: Played) -> None:
    """Its answer to the first report lets it rest."""
    played.iteration(INTERVAL_S)
    played.point(REST, last=True)


def comes(played: Played, *, last: bool = False) -> bool:
    """It comes to a remap point; whether it reports. It waits for the answer: to continue."""
    played.link.answers[:] = [CONTINUE]
    before = len(played.link.reports)
    while not played.iteration(INTERVAL_S, last=last):
        pass
    played.point(last=last)
    return len(played.link.reports) > before


def test_a_job_reports_after_its_rest_what_it_has_passed(played: Played) -> None:
    rests(played)
    assert [comes(played) for _ in range(4)] == [False, False, False, True]
    report = played.link.reports[-1]
    assert (report.silent, report.iterations) == (3, 4)
    assert report.passed == [INTERVAL_S] * 3
    assert report.rests


@pytest.mark.parametrize("what", ["rings", "moved", "urgent", "last", "loop", "size"])
def test_what_ends_a_rest(played: Played, what: str) -> None:
    rests(played)
    assert not comes(played)
    if what in ("rings", "moved"):
        setattr(played.link, what, True)
    elif what == "urgent":
        played.points._urgent = True
    elif what == "loop":
        played.session.loops.label = "another"
    elif what == "size":
        played.session.job.resize_id = 9
    assert played.points._resize_is_here() is (what == "rings")
    assert comes(played, last=what == "last")
    assert played.link.reports[-1].silent == (0 if what in ("loop", "size") else 1)


def test_a_job_whose_iterations_are_all_remap_points_does_not_rest(each: Played) -> None:
    each.iteration()
    each.point(CONTINUE)
    assert not each.link.reports[-1].rests


# --- when -----------------------------------------------------------------------------------------


def test_a_job_that_nobody_asks_for_has_none(played: Played) -> None:
    assert played.points.active
    for name in ("managed", "reports"):
        setattr(played.session.job, name, False)
        assert not RemapPoints(played.session, 0.1).active
        setattr(played.session.job, name, True)
    played.points.active = False
    assert not played.iteration(last=True)


def test_short_iterations_share_one(played: Played) -> None:
    assert played.iteration(), "the first"
    played.point()
    iterations = 0
    while not played.iteration():
        iterations += 1
    assert iterations == 8
    (report,) = played.link.reports
    assert report.iterations == 1


def test_the_last_iteration_is_one(played: Played) -> None:
    played.iteration()
    played.point()
    assert not played.iteration()
    assert played.iteration(last=True)


def test_a_program_that_asks_has_one_at_the_end_of_the_iteration(played: Played) -> None:
    played.iteration()
    played.point()
    assert not played.iteration()
    played.points.soon()
    assert played.iteration()
    assert not played.points._may_go_on(ITERATION_S), "it waits for the answer"


@pytest.mark.parametrize(
    ("asked", "word", "here"),
    [
        (True, "expand", True),
        (True, "continue", False),
        (True, "", False),
        (False, "expand", False),
    ],
)
def test_an_answer_that_resizes_makes_one(
    played: Played, asked: bool, word: str, here: bool
) -> None:
    played.points._asked, played.link.word = asked, word
    assert played.points._resize_is_here() is here
    if word and asked:
        assert not played.points._resize_is_here(), "once"


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("news", [True, False])
def test_ranks_that_have_come_make_one(played: Played, rank: int, news: bool) -> None:
    played.session.rank, played.session.job.expanding = rank, grant()
    played.session.backend.news = news
    assert played.points._resize_is_here() is (news and not rank)


def test_a_check_that_was_started_is_completed_before(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished: list[int] = []
    monkeypatch.setattr(played.points._countdown, "finish_check", lambda: finished.append(1))
    played.iteration()
    played.point(CONTINUE, last=True)
    assert len(finished) == 1
    played.points.settle()
    assert len(finished) == 2


# --- what is reported -----------------------------------------------------------------------------


def test_what_is_reported(each: Played) -> None:
    each.session.loops.label = "x" * (LABEL_MAX + 1)
    assert each.iteration(0.5)
    assert each.point(CONTINUE)
    (report,) = each.link.reports
    assert report == m.RemapPoint(
        seq=5, processors=1, resize_id=3, iteration_time_s=0.5, redistribution_time_s=0.5, step=9,
        iterations=1, loop="x" * LABEL_MAX,
    )  # fmt: skip
    assert (each.session.job.seq, each.session.job.redistribution_s) == (5, 0.0)
    each.session.job.expanding = grant(resize_id=8)
    each.iteration(0.25)
    each.point(CONTINUE)
    again = each.link.reports[1]
    assert (again.seq, again.preparing, again.iteration_time_s) == (6, 8, 0.25)


def test_iterations_of_other_loops_are_not_averaged(played: Played) -> None:
    played.session.loops.label = "a"
    played.iteration(10.0)
    played.session.loops.label = "b"
    for took_s in (1.0, 3.0):
        played.iteration(took_s)
    played.point(CONTINUE)
    (report,) = played.link.reports
    assert (report.loop, report.iteration_time_s, report.iterations) == ("b", 2.0, 3)
    played.iteration(4.0)
    played.point(CONTINUE)
    assert played.link.reports[1].iteration_time_s == 4.0, "those before are reported"


def test_times_on_another_size_count_no_more(played: Played) -> None:
    played.later = grant()
    played.session.backend.ready = True
    played.iteration(1.0)
    played.point()
    assert played.link.reports == []
    assert played.done[-1][1] is Step.EXPAND
    played.later = None
    played.iteration(3.0)
    played.point(CONTINUE)
    (report,) = played.link.reports
    assert (report.iteration_time_s, report.iterations) == (3.0, 2)


def test_a_program_that_makes_too_many_reports_some(each: Played) -> None:
    each.points.interval_s = INTERVAL_S
    for _ in range(3 * BURST):
        each.iteration(0.0)
        each.points._asked = False
        each.point()
    assert BURST - 1 <= len(each.link.reports) <= BURST
    each.points._urgent = True
    before = len(each.link.reports)
    each.iteration(0.0)
    each.points._asked = False
    each.point(CONTINUE)
    assert len(each.link.reports) == before + 1
    assert not each.points._urgent


# --- whose answer is waited for -------------------------------------------------------------------


def asked(played: Played) -> bool:
    return played.points._asked


def test_where_iterations_are_short_the_answer_is_heard_later(played: Played) -> None:
    played.iteration()
    assert played.point()
    assert asked(played)
    assert played.done == [(m.RemapAnswer(what="continue"), Step.CONTINUE)]
    assert played.session.job.seq == 4, "nothing is heard yet"
    played.iteration()
    assert played.point(None)
    assert (len(played.link.reports), played.session.job.seq) == (1, 4)
    played.iteration()
    assert played.point(grant())
    assert played.done[-1] == (grant(), Step.BEGIN)
    assert played.session.job.seq == 5
    assert not asked(played)
    assert played.points.granted == 7


def stays(name: str) -> Callable[[Played], None]:
    def change(played: Played) -> None:
        if name == "expanding":
            played.session.job.expanding = grant()
        elif name == "urgent":
            played.points._urgent = True
        elif name == "interval":
            played.points.interval_s = 0.0
        else:
            setattr(played.session, name, Protector() if name == "protector" else object())

    return change


class Protector:
    """`asked`: what it was told."""

    def __init__(self, *, copies: bool = False, left: int | None = None) -> None:
        self.copies, self.left = copies, left
        self.asked: list[Any] = []

    def due(self, *, resizing: bool, iterations: int) -> bool:
        self.asked.append(("due", resizing, iterations))
        return self.copies

    def iterations_left(self, *, copy: bool, iterations: int) -> int | None:
        return self.left

    def remap_point(self, *, make: bool, iterations: int) -> None:
        self.asked.append(("point", make, iterations))


@pytest.mark.parametrize("name", ["expanding", "urgent", "interval", "protector", "in_place"])
def test_where_something_changes_it_is_waited_for(played: Played, name: str) -> None:
    stays(name)(played)
    assert not played.points._may_go_on(0.01)


@pytest.mark.parametrize(("iteration_s", "goes_on"), [(0.0, True), (GO_ON_BELOW_S, False)])
def test_long_iterations_wait_for_it(played: Played, iteration_s: float, goes_on: bool) -> None:
    assert played.points._may_go_on(iteration_s) is goes_on


def test_the_last_iteration_waits_for_it(played: Played) -> None:
    played.iteration()
    assert played.point(CONTINUE, last=True)
    assert not played.points._asked
    assert played.done == [(CONTINUE, Step.CONTINUE)]


def test_what_comes_after_the_last_iteration_is_given_up(played: Played) -> None:
    played.points.end()
    assert played.link.told == []
    played.points._asked = True
    played.link.answers = [grant()]
    played.points.end()
    played.points.end()
    assert [said.resize_id for said in played.link.told] == [7]
    played.later = grant(resize_id=9)
    played.points.end()
    assert [said.resize_id for said in played.link.told] == [7, 9]


def test_an_expansion_under_way_goes_on_without_an_answer(played: Played) -> None:
    played.session.job.expanding = grant()
    played.points._asked = True
    played.iteration()
    played.point(None)
    assert played.done == [(m.RemapAnswer(what="continue", resize_id=7), Step.CONTINUE)]


# --- what is done ---------------------------------------------------------------------------------


def told(step: Step, answer: m.RemapAnswer = CONTINUE, **more: Any) -> RemapDecision:
    given: dict[str, Any] = {"copy": False, "plan": Plan(), "answers": 1, "reported": True}
    return RemapDecision(answer, step, **(given | more))


@pytest.mark.parametrize("step", list(Step))
def test_a_resize_that_would_lose_something_waits(played: Played, step: Step) -> None:
    played.instead = Step.GIVE_UP
    played.session.protector = protector = Protector()
    played.points.follow(told(step, copy=True), 3)
    moves = step in MOVES
    assert played.done[0][1] is (Step.GIVE_UP if moves else step)
    assert protector.asked == [("point", not moves, 3)]
    assert bool(played.forgot) == (step is Step.GIVE_UP)


@pytest.mark.parametrize("step", list(Step))
def test_a_request_of_the_program_is_over_once_something_moves(played: Played, step: Step) -> None:
    played.session.asks, played.session.job.asked = True, "request"
    played.points.follow(told(step), 1)
    assert (played.session.job.asked is None) == (step not in (Step.CONTINUE, Step.BEGIN))


def test_how_a_request_stands_is_kept(played: Played) -> None:
    one, other = (SimpleNamespace(request=n, state="") for n in (1, 2))
    played.session.job.asked = one
    now = SimpleNamespace(request=1, state="granted")
    for asked, wanted in ((other, one), (None, one), (now, now)):
        answer = SimpleNamespace(resize_id=0, asked=asked)
        played.points.follow(told(Step.CONTINUE, answer), 1)  # type: ignore[arg-type]
        assert played.session.job.asked is wanted


def test_a_rank_that_leaves_is_told_so(played: Played) -> None:
    assert not played.points.follow(told(Step.SHRINK, answers=0, reported=False), 1)
    assert (played.session.job.seq, played.session.job.redistribution_s) == (4, 0.5)


@pytest.mark.parametrize(
    ("step", "resizing"),
    [(grant(), False), (CONTINUE, False), (m.RemapAnswer(what="regrid"), True)],
)
def test_a_copy_is_made_when_it_is_due(each: Played, step: m.RemapAnswer, resizing: bool) -> None:
    each.session.protector = protector = Protector(copies=True)
    each.iteration()
    each.point(step)
    assert protector.asked == [("due", resizing, 1), ("point", True, 1)]


@pytest.mark.parametrize("how", ["last", "restart"])
def test_no_copy_is_made_where_none_is_needed(each: Played, how: str) -> None:
    each.session.protector = protector = Protector(copies=True)
    each.session.succession = object() if how == "restart" else None
    each.iteration()
    each.point(grant(), last=how == "last")
    assert protector.asked == [("point", False, 1)]


# --- the next one ---------------------------------------------------------------------------------


def test_the_next_one_is_planned(played: Played) -> None:
    points = played.points
    plan = points._next_plan(Step.CONTINUE, ITERATION_S, 1, False)
    assert (plan.iterations, plan.check_s, plan.early_iterations) == (9, CHECK_S, 0)
    points._asked = True
    assert points._next_plan(Step.CONTINUE, 0.001, 1, False).early_iterations == 10
    soon = points._next_plan(Step.BEGIN, ITERATION_S, 1, False)
    assert (soon.iterations, soon.check_s) == (3, CHECK_SOON_S)
    played.session.job.expanding = grant()
    assert points._next_plan(Step.CONTINUE, ITERATION_S, 1, False) == soon
    for step in MOVES:
        assert points._next_plan(step, ITERATION_S, 1, False) == Plan()
    played.session.in_place = object()
    assert points._next_plan(Step.CONTINUE, ITERATION_S, 1, False) == Plan()


@pytest.mark.parametrize(("left", "iterations"), [(None, 9), (3, 3), (9, 9), (20, 9)])
def test_a_copy_that_is_due_before_comes_first(
    played: Played, left: int | None, iterations: int
) -> None:
    played.session.protector = Protector(left=left)
    assert played.points._next_plan(Step.CONTINUE, ITERATION_S, 1, False).iterations == iterations


def test_new_ranks_are_asked_for_more_often(played: Played) -> None:
    assert played.points._interval(awaits=False) == INTERVAL_S
    assert played.points._interval(awaits=True) == QUIET_S
    played.points.interval_s = QUIET_S / 2
    assert played.points._interval(awaits=True) == QUIET_S / 2


# --- a task farm ----------------------------------------------------------------------------------


@pytest.mark.parametrize("alone", [True, False])
def test_only_rank_0_of_a_farm_advises_while_the_others_compute(
    played: Played, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    advised: list[dict[str, bool]] = []

    def advise(_: Any, answer: m.RemapAnswer, __: float, **more: bool) -> Any:
        advised.append(more)
        return answer, Step.CONTINUE

    monkeypatch.setattr(remap_point, "advise", advise)
    if alone:
        played.link.answers = [CONTINUE]
        played.points.decide_alone(0.5, 4)
    else:
        played.iteration()
        played.point()
    assert advised == [{"last": False, "alone": alone}]


def test_rank_0_of_a_farm_decides_alone(played: Played) -> None:
    played.session.protector = protector = Protector()
    played.link.answers = [CONTINUE, grant(), m.RemapAnswer(what="regrid", resize_id=8)]
    assert played.points.decide_alone(0.5, 4) is None
    (report,) = played.link.reports
    assert (report.iterations, report.iteration_time_s) == (4, 0.5)
    assert protector.asked == [("due", False, 4), ("point", False, 4)]
    assert played.session.job.seq == 5
    assert played.points.decide_alone(0.5, 2) is None
    assert [step for _, step in played.done] == [Step.CONTINUE, Step.BEGIN]
    found = played.points.decide_alone(0.5, 2)
    assert found is not None
    assert (found.step, found.plan, found.answers) == (Step.REGRID, Plan(), 1)
    assert len(played.done) == 2, "the others have to be there"
    protector.copies, played.link.answers = True, [CONTINUE]
    copied = played.points.decide_alone(0.5, 2)
    assert copied is not None
    assert copied.copy
