"""What old and new ranks do in a resize, and in what order, where each step may fail."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from mpi4py import MPI

from dq_client.base import messages as m
from resize_lib import resize
from resize_lib.redistribution.types import RedistributionError
from tests.plan.remap_played import grant, session


class Leaves(BaseException):
    """Raised where a rank would end."""


class Played:
    """A session of two ranks; `done`: what it did, in order; `fails`: the data cannot be moved."""

    def __init__(self, patch: pytest.MonkeyPatch, rank: int = 0) -> None:
        self.done: list[Any] = []
        self.fails = self.mistake = False
        self.refused = self.why = self.joins = ""
        self.mine: Any = session(rank=rank)
        self.mine.job.loops, self.mine.job.old_rows, self.mine.job.old_cols = ((0, 1),), 1, 2
        self.mine.job.places = list(self.mine.places)
        self.mine.grid = self._grid("old", 2)
        self.mine.make_grid = lambda comm: self._grid("new", 3)
        self.mine.watch = SimpleNamespace(rebase=lambda seq: self.done.append(("rebase", seq)))
        self.mine.carry = SimpleNamespace(
            carried="x", refusal_to_move=lambda *_: self.refused,
            exchange=self._exchange, apply=self._apply,
        )  # fmt: skip
        self.mine.loops = SimpleNamespace(give_up=lambda: self.done.append("give up"))
        self.mine.backend.shrink = self._shrink
        self.mine.backend.leave = self._leave
        self.mine.end = SimpleNamespace(give_up=self._give_up)
        self.comm: Any = MPI.COMM_SELF  # of those that stay
        self.error: Exception | None = None
        patch.setattr(resize, "move", self._move)
        patch.setattr(resize, "all_pids", lambda _: [101, 102])
        patch.setattr(resize, "retire", lambda: self.done.append("retire"))
        patch.setattr(resize, "idle_bcast", lambda _, what: self.note("told", what[0].resize_id))
        patch.setattr(resize, "agree_to_join", lambda _: (self.joins, self.mistake))
        patch.setattr(resize, "take_handle", lambda *_: self.done.append("handle"))

    def note(self, *what: Any) -> None:
        self.done.append(what)

    def _grid(self, name: str, size: int) -> Any:
        return SimpleNamespace(
            name=name, own_comm=MPI.COMM_SELF, comm=SimpleNamespace(rank=0, size=size), size=size,
            row_comm=None, col_comm=None, free=lambda: self.done.append(("free", name)),
        )  # fmt: skip

    def _move(self, _: Any, before: Any, after: Any, __: Any) -> None:
        self.note("move", before.ranks, after.ranks)
        if self.fails:
            raise RedistributionError("no room")

    def _exchange(self, _: Any, size: int) -> tuple[str, bool]:
        self.note("exchange", size)
        return self.why, self.mistake

    def _shrink(self, _: Any, leaving: Any) -> Any:
        self.note("shrink", list(leaving))
        return self.comm

    def _leave(self) -> None:
        self.done.append("leave")
        raise Leaves

    def _give_up(self, why: str) -> None:
        self.done.append(why)

    def _apply(self) -> None:
        self.done.append("apply")
        if self.error is not None:
            raise self.error

    def told(self) -> list[m.RequestBody]:
        found: list[m.RequestBody] = self.mine.link.told
        return found


@pytest.fixture(params=[0, 1])
def played(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Played:
    return Played(monkeypatch, request.param)


SHRINK = m.RemapAnswer(
    what="shrink", resize_id=7, rows=1, cols=1, places=[m.RankPlace(0, "n1", "n1")]
)
REGRID = m.RemapAnswer(what="regrid", resize_id=7, rows=2, cols=1)


def committed(pids: list[int]) -> m.Committed:
    return m.Committed(7, redistribution_time_s=0.5, pids=pids, carried="x")


def by_rank_0(played: Played, body: m.RequestBody) -> list[m.RequestBody]:
    return [] if played.mine.rank else [body]


# --- a shrink -------------------------------------------------------------------------------------


def test_a_shrink_moves_the_data_and_then_lets_ranks_go(played: Played) -> None:
    assert resize.shrink(played.mine, SHRINK)
    assert played.done == [
        ("move", (0, 1), (1,)), ("free", "old"), ("shrink", [0]), "retire", "apply",
    ]  # fmt: skip
    job = played.mine.job
    assert (job.rows, job.cols, job.resize_id) == (1, 1, 7)
    assert [place.processor for place in job.places] == [1]
    assert played.mine.grid.name == "new"
    assert played.told() == by_rank_0(played, committed([101]))


def test_a_rank_that_leaves_says_nothing_more(played: Played) -> None:
    played.comm = None
    assert not resize.shrink(played.mine, SHRINK)
    assert played.done[-1] == ("shrink", [0])
    assert (played.told(), played.mine.job.resize_id) == ([], 3)


@pytest.mark.parametrize("refused", ["x would be lost", ""])
def test_a_shrink_that_is_refused_or_fails_changes_nothing(played: Played, refused: str) -> None:
    played.refused, played.fails = refused, not refused
    assert resize.shrink(played.mine, SHRINK), "every rank stays"
    assert played.done == ([] if refused else [("move", (0, 1), (1,))])
    assert (played.mine.grid.name, played.mine.job.resize_id) == ("old", 3)
    assert played.told() == by_rank_0(played, m.Aborted(7, refused or "no room"))


# --- another grid ---------------------------------------------------------------------------------


def test_another_grid_of_the_same_ranks(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resize, "MPI", SimpleNamespace(Intracomm=lambda comm: comm))
    resize.regrid(played.mine, REGRID)
    assert played.done == [("move", (0, 1), (0, 1)), ("free", "old"), "apply"]
    job = played.mine.job
    assert (job.rows, job.cols, job.resize_id, played.mine.grid.name) == (2, 1, 7, "new")
    assert played.told() == by_rank_0(played, committed([]))


@pytest.mark.parametrize("refused", ["x would be lost", ""])
def test_a_grid_that_the_data_cannot_have(played: Played, refused: str) -> None:
    played.refused, played.fails = refused, not refused
    resize.regrid(played.mine, REGRID)
    assert (played.mine.job.resize_id, played.mine.grid.name) == (3, "old")
    assert played.told() == by_rank_0(played, m.Aborted(7, refused or "no room"))


# --- an expansion: old ranks ----------------------------------------------------------------------


def test_new_ranks_are_told_where_the_job_is_before_they_get_their_share(played: Played) -> None:
    resize._take_in(played.mine, grant(), MPI.COMM_SELF)
    assert played.done == [
        ("told", 7), ("free", "old"), ("rebase", 4), ("exchange", 2), ("move", (0, 1), (0, 1, 2)),
        "retire", "apply",
    ]  # fmt: skip
    job = played.mine.job
    assert (job.rows, job.cols, job.old_rows, job.old_cols) == (1, 3, 1, 2)
    assert [place.host for place in job.places] == ["n1", "n1", "n2"]
    assert played.told() == by_rank_0(played, committed([]))


@pytest.mark.parametrize("how", ["joins", "why", "move"])
@pytest.mark.parametrize("mistake", [True, False])
def test_an_expansion_that_fails_is_undone(played: Played, how: str, mistake: bool) -> None:
    why = {"joins": "set up otherwise", "why": "x differs", "move": "no room"}[how]
    if how == "move":
        played.fails = True
    else:
        setattr(played, how, why)
        played.mistake = mistake
    resize._take_in(played.mine, grant(), MPI.COMM_SELF)
    job = played.mine.job
    assert (job.rows, job.cols, job.resize_id, len(job.places)) == (1, 2, 3, 2)
    assert ("shrink", [2]) in played.done
    assert played.done[-4:] == [("shrink", [2]), "handle", "handle", "handle"]
    assert "retire" not in played.done
    mistaken = mistake and how != "move"
    assert played.told() == by_rank_0(played, m.Aborted(7, why, mistaken))


# --- an expansion: a new rank ---------------------------------------------------------------------


def test_a_new_rank_gets_its_share_and_then_its_variables(played: Played) -> None:
    resize.join(played.mine)
    assert played.done == [("exchange", 2), ("move", (0, 1), (0, 1)), "apply", ("rebase", 4)]


def test_a_variable_that_cannot_be_given_ends_the_new_rank(played: Played) -> None:
    played.error = KeyError("x")
    resize.join(played.mine)
    assert "a variable could not be given the job's value: KeyError: 'x'" in played.done


def fails(how: str) -> Callable[[Played], None]:
    def fail(played: Played) -> None:
        if how == "move":
            played.fails = True
        else:
            setattr(played, how, "no")

    return fail


@pytest.mark.parametrize("how", ["joins", "why", "move"])
def test_a_new_rank_that_cannot_join_leaves_again(played: Played, how: str) -> None:
    fails(how)(played)
    played.mine.job.old_cols = 1
    with pytest.raises(Leaves):
        resize.join(played.mine)
    assert played.done[-4:] == [("free", "old"), ("shrink", [1]), "give up", "leave"]
    assert "apply" not in played.done
