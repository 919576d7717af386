"""What rank 0 advises about a server's answer, and what all ranks then do, as a table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dq_client.base import messages as m
from resize_lib import resize
from resize_lib.processes import ProcessError, SetupError
from resize_lib.resize import PATIENT_FROM_S, TOUCHED_BYTES_MIN, TOUCHED_PARTS_MAX, Step, advise
from tests.plan.remap_played import CONTINUE, grant, session

SHRINK = m.RemapAnswer(
    what="shrink", resize_id=7, rows=1, cols=1, places=[m.RankPlace(1, "n1", "n1")]
)
REGRID = m.RemapAnswer(what="regrid", resize_id=7, rows=2, cols=1)
LAST = "the last iteration is done"


@pytest.mark.parametrize(
    ("answer", "more", "step", "why"),
    [
        (CONTINUE, {}, Step.CONTINUE, ""),
        (CONTINUE, {"last": True}, Step.CONTINUE, ""),
        (SHRINK, {}, Step.SHRINK, ""),
        (SHRINK, {"last": True}, Step.GIVE_UP, LAST),
        (REGRID, {}, Step.REGRID, ""),
        (REGRID, {"last": True}, Step.GIVE_UP, LAST),
        (grant(), {}, Step.BEGIN, ""),
        (grant(), {"last": True}, Step.GIVE_UP, LAST),
        (grant(), {"iteration_s": PATIENT_FROM_S}, Step.EXPAND, ""),
    ],
)
def test_what_is_advised(answer: m.RemapAnswer, more: dict[str, Any], step: Step, why: str) -> None:
    mine = session()
    given = {"iteration_s": 0.01, "last": False} | more
    assert advise(mine, answer, **given) == (answer, step)
    assert mine.link.told == ([m.Aborted(7, why)] if why else [])


@pytest.mark.parametrize(
    ("answer", "restarts", "step"),
    [
        (SHRINK, False, Step.GIVE_UP),
        (SHRINK, True, Step.RESTART),
        (grant(), True, Step.RESTART),
        (REGRID, False, Step.REGRID),
        (REGRID, True, Step.REGRID),
    ],
)
def test_where_the_launcher_cannot_resize_the_job_restarts_or_stays(
    answer: m.RemapAnswer, restarts: bool, step: Step
) -> None:
    mine = session()
    mine.backend.can_resize = False
    mine.succession = object() if restarts else None
    assert advise(mine, answer, 0.01, last=False)[1] is step
    assert mine.link.told == (
        [m.Aborted(7, "not by this launcher")] if step.name == "GIVE_UP" else []
    )


def test_a_size_that_the_program_cannot_have_is_refused() -> None:
    mine = session()
    mine.legal_sizes = (1, 2, 4)
    assert advise(mine, grant(1), 0.01, last=False)[1] is Step.GIVE_UP
    (said,) = mine.link.told
    assert (said.resize_id, said.mistake) == (7, False)
    assert said.why.startswith("the program can run on ")
    assert advise(mine, grant(2), 0.01, last=False)[1] is Step.BEGIN
    mine.legal_sizes = (1, 2)
    assert advise(mine, m.RemapAnswer(what="regrid", rows=2, cols=1), 0.01, last=False)[1] is (
        Step.REGRID
    )


def test_new_ranks_are_begun_with_what_they_need_to_know() -> None:
    mine = session()
    big, small = TOUCHED_BYTES_MIN + 5, TOUCHED_BYTES_MIN - 1
    sizes = {"a": TOUCHED_BYTES_MIN, "b": small, "c": big}

    def part_bytes(size: int) -> Any:
        return SimpleNamespace(part_bytes=lambda _grid, rank, _places: size if rank == 3 else 1)

    mine.declared = {name: part_bytes(size) for name, size in sizes.items()}
    advise(mine, grant(2), 0.01, last=False)
    assert mine.backend.done == [("begin", ["n2", "n2"], 7, [big, TOUCHED_BYTES_MIN])]
    mine.declared = {str(n): part_bytes(big) for n in range(TOUCHED_PARTS_MAX + 1)}
    assert len(resize._coming_bytes(mine, grant(2))) == TOUCHED_PARTS_MAX


@pytest.mark.parametrize("error", [ProcessError, SetupError])
def test_ranks_that_cannot_be_begun_abort_the_resize(error: type[ProcessError]) -> None:
    mine = session()
    mine.backend.fails = {"begin": error("no such host")}
    assert advise(mine, grant(), 0.01, last=False)[1] is Step.GIVE_UP
    assert mine.link.told == [m.Aborted(7, "no such host", error is SetupError)]


# --- while ranks that were begun come up ----------------------------------------------------------


def stands(resize_id: int = 7) -> m.RemapAnswer:
    return m.RemapAnswer(what="continue", resize_id=resize_id)


@pytest.mark.parametrize(
    ("answer", "ready", "last", "step"),
    [
        (stands(), True, False, Step.COMPLETE),
        (stands(), False, False, Step.CONTINUE),
        (stands(), True, True, Step.CONTINUE),
        (stands(6), True, False, Step.GIVE_UP),
        (CONTINUE, True, False, Step.GIVE_UP),
        (SHRINK, True, True, Step.GIVE_UP),
        (SHRINK, True, False, Step.SHRINK),
    ],
)
def test_what_is_advised_while_ranks_come_up(
    answer: m.RemapAnswer, ready: bool, last: bool, step: Step
) -> None:
    mine = session()
    mine.job.expanding, mine.backend.ready = grant(), ready
    assert advise(mine, answer, 0.01, last=last) == (answer, step)
    gave_up = step is Step.GIVE_UP
    assert (("cancel",) in mine.backend.done) == (gave_up or step is Step.SHRINK)
    withdrawn = [m.Aborted(7, "the server has withdrawn it")]
    assert mine.link.told == (withdrawn if gave_up else [])


@pytest.mark.parametrize(("what", "answer"), [("ready", stands()), ("cancel", SHRINK)])
@pytest.mark.parametrize("error", [ProcessError, SetupError])
def test_ranks_that_fail_while_they_come_up(
    what: str, answer: m.RemapAnswer, error: type[ProcessError]
) -> None:
    mine = session()
    mine.job.expanding, mine.backend.fails = grant(), {what: error("gone")}
    assert advise(mine, answer, 0.01, last=False)[1] is Step.GIVE_UP
    assert mine.link.told == [m.Aborted(7, "gone", error is SetupError)]


def test_at_the_end_of_the_program_ranks_that_come_up_are_given_up() -> None:
    mine = session()
    resize.give_up_at_end(mine)
    assert (mine.backend.done, mine.link.told) == ([], [])
    mine.job.expanding, mine.backend.fails = grant(), {"cancel": ProcessError("gone")}
    resize.give_up_at_end(mine)
    assert mine.backend.done == [("cancel",)]
    assert mine.link.told == [m.Aborted(7, LAST)]
    assert mine.job.expanding is None


# --- what is done ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "expanding"),
    [(Step.CONTINUE, 3), (Step.BEGIN, 7), (Step.GIVE_UP, 0), (Step.SHRINK, 0), (Step.REGRID, 0)],
)
def test_which_expansion_is_under_way_afterwards(
    step: Step, expanding: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resize, "shrink", lambda *_: False)
    monkeypatch.setattr(resize, "regrid", lambda *_: None)
    mine = session()
    mine.job.expanding = grant(resize_id=3)
    assert resize.carry_out(mine, grant(), step) == (step is not Step.SHRINK)
    assert (mine.job.expanding.resize_id if mine.job.expanding else 0) == expanding


def test_each_step_is_done_by_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, done = session(), list[Any]()
    monkeypatch.setattr(resize, "regrid", lambda *words: done.append(("regrid", words[1])))
    monkeypatch.setattr(resize, "shrink", lambda *words: done.append(("shrink", words[1])))
    monkeypatch.setattr(resize, "_take_in", lambda *words: done.append(("taken in", *words[1:])))
    mine.succession = SimpleNamespace(leave=lambda answer: done.append(("leave", answer)))
    answer = grant()
    for step in (Step.REGRID, Step.SHRINK, Step.RESTART, Step.EXPAND, Step.COMPLETE):
        resize.carry_out(mine, answer, step)
    taken = ("taken in", answer, "wider")
    assert done == [("regrid", answer), ("shrink", answer), ("leave", answer), taken, taken]
    assert mine.backend.done == [("begin", ["n2"], 7, []), ("complete",), ("complete",)]


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("rank", [0, 1])
def test_an_expansion_that_fails_is_told_by_rank_0(begun: bool, rank: int) -> None:
    mine = session(rank=rank)
    mine.backend.fails = {"complete": SetupError("x" * 5000)}
    resize.expand(mine, grant(), begun=begun)
    assert mine.link.told == ([] if rank else [m.Aborted(7, "x" * 4000, True)])


@pytest.mark.parametrize("rank", [0, 1])
def test_a_resize_that_is_done_is_told_by_rank_0(rank: int) -> None:
    mine = session(rank=rank)
    mine.carry.carried, mine.carry.apply = "x" * 1001, list
    resize._moved(mine, grant(), [11, 12])
    done = m.Committed(7, redistribution_time_s=0.5, pids=[11, 12], carried="x" * 1000)
    assert mine.link.told == ([] if rank else [done])
