"""Which worker does which task: every order of events, each task delivered exactly once."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dq_client.executor.crew import (
    LOSSES_MAX,
    Crew,
    CrewEvent,
    Deliver,
    Dismiss,
    Give,
    GiveUp,
    What,
)

A, B = b"1:1", b"1:2"


def play(crew: Crew, *events: CrewEvent, now_s: float = 0.0) -> list[object]:
    return [action for event in events for action in crew.handle(event, now_s)]


def test_a_task_goes_to_a_worker_and_its_first_answer_counts() -> None:
    crew = Crew(idle_s=5)
    assert play(crew, CrewEvent(What.SUBMITTED, task=1)) == []
    assert play(crew, CrewEvent(What.READY, A)) == [Give(A, 1)]
    assert play(crew, CrewEvent(What.LOST, A)) == []
    assert play(crew, CrewEvent(What.READY, B)) == [Give(B, 1)]
    assert play(crew, CrewEvent(What.ANSWERED, A, 1)) == [Deliver(1)]  # it was not lost
    assert play(crew, CrewEvent(What.ANSWERED, B, 1)) == []
    assert (crew.repeated, crew.doing) == (1, {A: None, B: None})


def test_what_comes_back_is_next_and_keeps_its_place_before_the_others() -> None:
    crew = Crew(idle_s=5)
    play(crew, *(CrewEvent(What.SUBMITTED, task=k) for k in (1, 2, 3)), CrewEvent(What.READY, A))
    assert play(crew, CrewEvent(What.LEFT, A), CrewEvent(What.READY, B)) == [Give(B, 1)]
    assert play(crew, CrewEvent(What.ANSWERED, B, 1)) == [Deliver(1), Give(B, 2)]


def test_a_task_that_kills_its_workers_is_given_up_and_one_whose_workers_leave_is_not() -> None:
    crew = Crew(idle_s=5)
    play(crew, CrewEvent(What.SUBMITTED, task=1), CrewEvent(What.SUBMITTED, task=2))
    for _ in range(3 * LOSSES_MAX):
        assert play(crew, CrewEvent(What.READY, A), CrewEvent(What.LEFT, A)) == [Give(A, 1)]
    play(crew, CrewEvent(What.READY, A))
    for _ in range(LOSSES_MAX - 1):
        assert play(crew, CrewEvent(What.CRASHED, A, 1, "SIGSEGV")) == [Give(A, 1)]
    assert play(crew, CrewEvent(What.CRASHED, A, 1, "SIGSEGV")) == [
        GiveUp(1, "SIGSEGV"),
        Give(A, 2),
    ]


def test_a_cancelled_task_is_not_given_and_frees_who_was_to_have_it() -> None:
    crew = Crew(idle_s=5)
    play(crew, *(CrewEvent(What.SUBMITTED, task=k) for k in (1, 2, 3)))
    play(crew, CrewEvent(What.CANCELLED, task=1))
    assert play(crew, CrewEvent(What.READY, A)) == [Give(A, 2)]
    assert play(crew, CrewEvent(What.CANCELLED, A, 2)) == [Give(A, 3)]
    assert crew.open == {3}


def test_the_idle_are_dismissed_and_who_works_is_not() -> None:
    crew = Crew(idle_s=5)
    play(
        crew, CrewEvent(What.SUBMITTED, task=1), CrewEvent(What.READY, A), CrewEvent(What.READY, B)
    )
    assert play(crew, CrewEvent(What.TICK), now_s=4.9) == []
    assert play(crew, CrewEvent(What.READY, B), now_s=4.9) == []  # said again; still idle since 0
    assert play(crew, CrewEvent(What.TICK), now_s=5) == [Dismiss(B)]
    assert play(crew, CrewEvent(What.TICK), now_s=50) == []
    assert play(crew, CrewEvent(What.ANSWERED, A, 1), now_s=50) == [Deliver(1)]
    assert play(crew, CrewEvent(What.TICK), now_s=55) == [Dismiss(A)]


def test_a_task_that_was_lost_on_the_way_is_sent_again() -> None:
    crew = Crew(idle_s=5)
    play(crew, CrewEvent(What.SUBMITTED, task=1), CrewEvent(What.READY, A))
    assert play(crew, CrewEvent(What.READY, A)) == [Give(A, 1)]
    assert crew.repeated == 0  # the worker sees that it is the same


EVENTS = st.lists(
    st.tuples(st.sampled_from(What), st.sampled_from([A, B, b"2:1"]), st.integers(1, 6)),
    max_size=60,
)


@given(EVENTS)
def test_in_any_order_of_events_each_task_is_in_one_place_and_delivered_once(
    drawn: list[tuple[What, bytes, int]],
) -> None:
    crew, over, submitted = Crew(idle_s=3), Counter[int](), set[int]()
    cancelled = set[int]()
    for now_s, (what, worker, task) in enumerate(drawn):
        if what is What.SUBMITTED:
            if task in submitted:
                continue
            submitted.add(task)
        elif task not in submitted and what in (What.ANSWERED, What.CANCELLED, What.CRASHED):
            continue  # no worker has what nobody has submitted
        if what is What.CANCELLED:
            cancelled.add(task)
        about = CrewEvent(what, worker, task, "why" if what is What.CRASHED else "")
        over.update(a.task for a in crew.handle(about, now_s) if isinstance(a, Deliver | GiveUp))
        held = [t for t in crew.doing.values() if t in crew.open]
        assert Counter(held + [t for t in crew.waiting if t in crew.open]) == Counter(crew.open)
        assert crew.open == submitted - over.keys() - (cancelled - over.keys())
        assert None not in crew.doing.values() or not any(t in crew.open for t in crew.waiting)
    for task in sorted(crew.open):  # a worker that does its work to the end
        while task in crew.open:
            now = crew.doing.get(b"3:1")
            event = (
                CrewEvent(What.READY, b"3:1")
                if now is None
                else CrewEvent(What.ANSWERED, b"3:1", now)
            )
            for worker in [w for w in crew.doing if w != b"3:1"]:
                crew.handle(CrewEvent(What.LEFT, worker), 0)
            over.update(a.task for a in crew.handle(event, 0) if isinstance(a, Deliver | GiveUp))
    assert set(over.values()) <= {1}
    assert over.keys() | cancelled >= submitted
