"""Ranks that are missing: from a remap point, from a resize, from the end of the job.

A rank that leaves its session while the others go on, or that gets stuck, leaves them waiting for
ever, and MPI says nothing. So ranks report (resize_lib/watch.py): one that has left and to whose
end the others do not come; one that has been in an iteration, or waits at its end, for much longer
than iterations take. No rank knows more than that. Together they tell:

* a rank that has left, and another that waits in an iteration whose remap point the first has never
  reached, or came to it long ago: they can never meet. The job fails, with both places named.
* every rank waits for others, at different places, and has for a while: none can ever go on. The
  job fails, too.
* a rank that is longer where it is than [watch] allows: told by `dq why`, or the job is killed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dq_server.core.feature import Feature, handles
from dq_server.core.model import events as ev
from dq_server.core.model.errors import InvalidTransition
from dq_server.core.model.jobs import ACTIVE, Job, JobState
from dq_server.core.model.reasons import Reason, because, declare
from dq_server.core.model.records import Record
from dq_server.core.model.state import State
from dq_server.core.model.watch import WatchOptions
from dq_server.core.turn import INF, Turn

SHOWN = 3  # ranks that a reason names
DEADLOCK_S = 20.0  # before ranks that all wait are taken to wait for one another

declare(
    rank_left="rank {rank} left the job after {turns} iterations ({where}), and rank {other} waits"
    " for it in a later one ({other_where}), but all ranks must make the same iterations",
    ranks_deadlocked="all ranks wait for one another, for {for_s:.0f} s at least: {ranks}: all"
    " ranks must make the same iterations and the same calls",
    rank_missing="no remap point for {for_s:.0f} s, {usual}: {ranks}",
    resize_order_waits="the order to go to {next_size} waits for its next remap point",
)


@dataclass(frozen=True, slots=True)
class Word:
    """What one rank has said last; see events.RankReported."""

    what: str
    turns: int
    where: str
    waits: bool
    at_s: float
    for_s: float
    usual_s: float
    over: bool


@dataclass(slots=True)
class Watched(Record, key="Watched"):
    """Of a job: the ranks of its present start that have said something, and not taken it back."""

    words: dict[int, Word] = field(default_factory=dict)


class Watching(Feature):
    @handles(ev.SessionOpened)
    def session_opened(self, turn: Turn, event: ev.SessionOpened) -> None:
        """The program has opened its session."""
        job = turn.state.job(event.job)
        if job.instance == event.instance and job.opened_s is None:
            job.opened_s = turn.now

    @handles(ev.RankReported)
    def rank_reported(self, turn: Turn, event: ev.RankReported) -> None:
        """A rank says where it is."""
        job = turn.state.job(event.job)
        if not job.works_in(event.instance):
            return
        words = Watched.of(job).words
        if event.what == "goes on":
            words.pop(event.rank, None)
            return
        words[event.rank] = Word(
            event.what,
            event.turns,
            event.where,
            event.waits,
            turn.now,
            event.for_s,
            event.usual_s,
            event.over,
        )
        reason = _never_meet(words) or _deadlock(words, job.size)
        if reason is not None:
            turn.kill(job, reason, to=JobState.FAILED)
            return
        missing = _missing(words, turn.now)
        if missing is not None:
            job.note(turn.now, "watch", missing)
            if (job.spec.watch or turn.config.of(WatchOptions).action) == "kill":
                turn.kill(job, missing, to=JobState.FAILED)

    @handles(ev.SizeReleased)
    def size_released(self, turn: Turn, event: ev.SizeReleased) -> None:
        """`dq resize --release`: the scheduler may resize the job again."""
        job = turn.state.job(event.job)
        limited = job.spec.workers is not None and job.wanted is not None
        if job.held is None and not limited:
            raise InvalidTransition(f"job {job.id} is not held at a size")
        job.held = None
        if limited:
            job.wanted = None
        turn.state.touch(job)
        if job.spec.workers is not None:
            turn.schedule()

    def measured(self, turn: Turn, job: Job) -> None:
        """It came to a remap point: whoever was stuck before is not any more."""
        words = Watched.of(job).words
        if not words:  # nearly always, and asked at every remap point
            return
        for rank in [r for r, word in words.items() if word.what == "stays"]:
            del words[rank]

    def resize_committed(self, turn: Turn, job: Job) -> None:
        """Ranks have other numbers now."""
        Watched.of(job).words.clear()

    def stopped(self, turn: Turn, job: Job, *, goes_on: bool) -> None:
        """This start is over."""
        Watched.of(job).words.clear()

    def explain(self, turn: Turn, job: Job) -> list[Reason]:
        """Who is missing, and since when; what an order of the user waits for."""
        if job.state not in ACTIVE:
            return []
        reasons = []
        missing = _missing(Watched.of(job).words, turn.now)
        if missing is not None:
            reasons.append(missing)
        ordered = _ordered(job)
        if ordered:
            reasons.append(because("resize_order_waits", next_size=ordered))
        return reasons

    def view(self, state: State, job: Job) -> Mapping[str, Any]:
        held = job.held.size if job.held is not None else None
        return {"held_size": held, "ordered_size": _ordered(job) or None}


def _ordered(job: Job) -> int:
    """The size that a user's order will bring the job to; 0: there is none, or it is there."""
    target = job.wanted or job.held
    return target.size if target is not None and target != job.configuration else 0


def _never_meet(words: Mapping[int, Word]) -> Reason | None:
    """Why these ranks can never come together again; None: they may."""
    gone = {rank: word for rank, word in words.items() if word.what == "left"}
    if not gone:
        return None
    first = min(gone, key=lambda rank: (gone[rank].turns, rank))
    # Who only computes may come yet, to the end of a turn in which the other one left the loop. Who
    # waits, in the library or in MPI, waits for the one that has gone.
    for rank, word in words.items():
        if word.what == "stays" and word.turns >= gone[first].turns and (word.waits or word.over):
            return because(
                "rank_left",
                rank=first,
                turns=gone[first].turns,
                where=gone[first].where,
                other=rank,
                other_where=word.where,
            )
    return None


def _deadlock(words: Mapping[int, Word], size: int) -> Reason | None:
    """Why no rank can go on; None: one may."""
    waiting = [words.get(rank) for rank in range(size)]
    held_s, places = INF, set()
    for word in waiting:
        if word is None or word.what != "stays" or not word.waits or word.for_s < DEADLOCK_S:
            return None
        held_s = min(held_s, word.for_s)
        places.add(word.where)
    if len(places) < 2:  # a long call that all have made
        return None
    first = {word.where: rank for rank, word in sorted(words.items(), reverse=True)}
    told = [f"rank {rank} {where}" for where, rank in sorted(first.items(), key=lambda f: f[1])]
    return because("ranks_deadlocked", for_s=held_s, ranks="; ".join(told[:SHOWN]))


def _missing(words: Mapping[int, Word], now: float) -> Reason | None:
    """Who has been where for too long; None: nobody."""
    stuck = {rank: word for rank, word in sorted(words.items()) if word.over}
    if not stuck:
        return None
    since_s = min(word.at_s - word.for_s for word in stuck.values())
    usual_s = max(word.usual_s for word in stuck.values())
    usual = f"where one takes {usual_s:.3g} s at most" if usual_s else "in the first iteration"
    # Those that do not wait for others are the ones to look at.
    order = sorted(stuck, key=lambda rank: (stuck[rank].waits, rank))
    told = [f"rank {rank}: {stuck[rank].where}" for rank in order[:SHOWN]]
    if len(order) > SHOWN:
        told.append(f"and {len(order) - SHOWN} more")
    return because("rank_missing", for_s=now - since_s, usual=usual, ranks="; ".join(told))
