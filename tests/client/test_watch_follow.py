"""Following jobs: every change is told once, in order, whatever was missed between two looks."""

from __future__ import annotations

from typing import Any

from dq_client.show.report.watch_events import WatchEvents
from tests.client.report_data import T0, job, stay


def line(time_s: float, what: str, code: str, text: str = "because") -> dict[str, Any]:
    return {"time_s": T0 + time_s, "what": what, "code": code, "text": text, "figures": {}}


def running(number: int = 1, size: int = 1, points: int = 0, **changes: Any) -> dict[str, Any]:
    return {**job(number, [stay(size, 0.0)]), "remap_points": points, **changes}


class Cluster:
    """Stands for the server: what an answer tells is set by the test."""

    def __init__(self, follower: WatchEvents) -> None:
        self.follower = follower
        self.jobs: dict[int, dict[str, Any]] = {}
        self.told: dict[int, dict[str, Any]] = {}
        self.whole = True

    def look(self, now_s: float = 100.0, *, more: bool = False) -> Any:
        follower = self.follower
        after_s = follower.stories_s
        changed = {k: j for k, j in self.jobs.items() if self.whole or self.told.get(k) != j}
        rows = [
            {k: v for k, v in job.items() if k != "story"}
            if after_s is None
            else {**job, "story": [x for x in job["story"] if x["time_s"] > after_s]}
            for job in changed.values()
            if follower.only in (None, job["id"])
        ]
        gone = sorted(self.told.keys() - self.jobs.keys())
        self.told = {k: dict(j) for k, j in self.jobs.items()}
        answer = {"now_s": T0 + now_s, "jobs": rows, "gone": gone, "more": more}
        events = follower.take({**answer, "whole": self.whole})
        self.whole = False
        return [(e.job, e.event, e.what) for e in events]


def test_the_first_look_tells_states_and_no_old_stories() -> None:
    cluster = Cluster(WatchEvents())
    cluster.jobs = {
        1: job(1, [stay(1, 0)], end_s=5.0),
        2: running(2, story=[line(1, "start", "s")]),
    }
    assert cluster.look() == [(2, "state", "running")]
    assert cluster.look() == []


def test_new_decisions_are_told_once_and_in_order() -> None:
    cluster = Cluster(WatchEvents())
    cluster.jobs = {1: running()}
    cluster.look(now_s=1)
    story = [line(2, "expand", "probe"), line(3, "committed", "resize_committed")]
    cluster.jobs = {1: running(size=2, points=4, story=story)}
    assert cluster.look(now_s=4) == [(1, "decision", "expand"), (1, "decision", "committed")]
    story.append(line(5, "shrink", "no_gain"))
    cluster.jobs = {1: running(size=2, points=8, story=story)}
    assert cluster.look(now_s=6) == [(1, "decision", "shrink")]


def stories_s(cluster: Cluster) -> float:
    found = cluster.follower.stories_s
    assert found is not None
    return found


def test_stories_are_asked_for_from_the_last_look_on() -> None:
    cluster = Cluster(WatchEvents())
    found = [cluster.follower.stories_s]
    cluster.look(now_s=5, more=True)
    found.append(cluster.follower.stories_s)
    assert found == [None, None]  # nobody wants what was decided long ago
    cluster.look(now_s=6)
    told = [stories_s(cluster)]
    cluster.look(now_s=9, more=True)
    told.append(stories_s(cluster))
    cluster.look(now_s=9)
    told.append(stories_s(cluster))
    assert told[0] < T0 + 6
    assert told[1:] == [told[0], told[0] + 3]


def test_going_on_for_the_same_cause_is_told_once() -> None:
    cluster = Cluster(WatchEvents())
    cluster.jobs = {1: running()}
    cluster.look(now_s=0)
    told = []
    # The server replaces a line that only repeats the last one by the newer one.
    for i, cause in enumerate(["measuring", "measuring", "no_idle", "no_idle", "measuring"], 1):
        cluster.jobs = {1: running(points=i, story=[line(i, "continue", cause)])}
        told += cluster.look(now_s=i)
    assert told == [(1, "decision", "continue")] * 3


def test_a_job_that_came_and_went_between_two_looks_is_told_whole() -> None:
    cluster = Cluster(WatchEvents())
    cluster.look(now_s=0)
    story = [line(1, "start", "started"), line(2, "failed", "exit")]
    cluster.jobs = {1: job(1, [stay(1, 1)], end_s=2.0, state="failed", story=story)}
    assert cluster.look() == [(1, "decision", "start"), (1, "state", "failed")]
    assert cluster.look() == []


def test_the_end_of_a_job_is_told_with_its_last_decisions() -> None:
    cluster = Cluster(WatchEvents())
    cluster.jobs = {1: running()}
    cluster.look(now_s=0)
    story = [line(2, "expand", "probe"), line(9, "done", "exit")]
    cluster.jobs = {1: job(1, [stay(1, 0.0)], end_s=9.0, story=story)}
    assert cluster.look(now_s=10) == [(1, "decision", "expand"), (1, "state", "done")]


def test_one_job_alone_is_told_from_its_beginning_and_no_other() -> None:
    cluster = Cluster(WatchEvents(only=1))
    story = [line(1, "start", "started"), line(2, "expand", "probe")]
    cluster.jobs = {1: running(story=story), 2: running(2)}
    assert cluster.look(now_s=3) == [
        (1, "decision", "start"), (1, "decision", "expand"), (1, "state", "running"),
    ]  # fmt: skip
    cluster.jobs[1] = job(1, [stay(1, 0.0)], end_s=4.0, story=[*story, line(4, "done", "exit")])
    assert cluster.look(now_s=5) == [(1, "state", "done")]


def test_an_ended_job_followed_alone_is_told_too() -> None:
    cluster = Cluster(WatchEvents(only=1))
    cluster.jobs = {1: job(1, [stay(1, 0.0)], end_s=4.0, story=[line(1, "start", "started")])}
    assert cluster.look() == [(1, "decision", "start"), (1, "state", "done")]


def test_a_requeued_job_is_told_to_wait_and_to_run_again() -> None:
    cluster = Cluster(WatchEvents())
    for state, expected in (("running", "running"), ("killing", "killing"), ("queued", "queued"),
                            ("starting", "starting"), ("running", "running")):  # fmt: skip
        cluster.jobs = {1: running(state=state)}
        assert cluster.look() == [(1, "state", expected)]


def test_a_server_that_starts_again_tells_nothing_twice() -> None:
    cluster = Cluster(WatchEvents())
    story = [line(1, "start", "s"), line(2, "expand", "probe")]
    ended = job(1, [stay(1, 0)], end_s=3.0, story=[])
    cluster.jobs = {1: ended, 2: running(2, story=story)}
    cluster.look(now_s=5)
    cluster.whole = True
    cluster.jobs[3] = running(3, story=[line(6, "start", "s")])
    assert cluster.look(now_s=7) == [(3, "decision", "start"), (3, "state", "running")]
    assert cluster.follower.active.keys() == {2, 3}


def test_a_job_forgotten_at_its_end_is_asked_for() -> None:
    cluster = Cluster(WatchEvents())
    cluster.jobs = {1: running(), 2: job(2, [stay(1, 0)], end_s=1.0)}
    cluster.look(now_s=5)
    cluster.jobs = {}
    assert cluster.look(now_s=6) == []
    assert cluster.follower.forgotten == [1]
    view = job(1, [stay(1, 0.0)], end_s=6.0, state="failed")
    found = cluster.follower.take_forgotten(view, [line(5.5, "kill", "k")], T0 + 6)
    assert [(e.job, e.what) for e in found] == [(1, "kill"), (1, "failed")]
    assert not cluster.follower.active
    cluster.look(now_s=7)
    assert cluster.follower.forgotten == []


def test_a_job_that_ended_while_the_server_was_another_is_asked_for() -> None:
    cluster = Cluster(WatchEvents())
    cluster.jobs = {1: running(), 2: running(2)}
    cluster.look(now_s=5)
    cluster.whole, cluster.jobs, cluster.told = True, {2: running(2)}, {}
    cluster.look(now_s=6, more=True)
    assert cluster.follower.forgotten == []
    cluster.look(now_s=6)
    assert cluster.follower.forgotten == [1]


def test_names_and_reasons_lose_their_control_characters() -> None:
    cluster = Cluster(WatchEvents(only=1))
    cluster.jobs = {1: running(name="a\x1bb", story=[line(1, "start", "s", text="x\ny")])}
    answer = {"now_s": T0, "jobs": list(cluster.jobs.values()), "gone": [], "more": False}
    events = cluster.follower.take({**answer, "whole": True})
    assert {(e.name, e.reason) for e in events} == {("a�b", ""), ("a�b", "x�y")}


def test_a_decision_long_past_is_told_with_the_processors_of_its_time() -> None:
    story = [
        line(-1, "wait", "w"),
        line(1, "start", "s"),
        line(3, "expand", "p"),
        line(5, "end", "e"),
    ]
    view = job(1, [stay(1, 0.0), stay(4, 3.0)], end_s=6.0, story=story)
    answer = {"now_s": T0 + 9, "jobs": [view], "gone": [], "more": False, "whole": True}
    events = WatchEvents(only=1).take(answer)
    assert [(e.what, e.processors) for e in events if e.event == "decision"] == [
        ("wait", 0), ("start", 1), ("expand", 4), ("end", 4),
    ]  # fmt: skip
