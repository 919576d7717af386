"""The applications of benchmarks.many_jobs, on the agents of benchmarks.load.

Each has its key and its socket, and one remap point under way at a time, as a real one has. All are
in one process with one poller, and come to remap points as they are told through a pipe:

    ("burst", seconds)   each as soon as the last one is answered; told: (points, seconds) of it
    ("pace", seconds)    each once in so many seconds, at times of their own; 0: not at all
    ("age", seconds)     one report each, spread over these seconds, as after a long rest
    ("rest", seconds)    the same, but they rest as the server lets them; told: points, reports
    ("slow", share)      the first takes so much longer from now on, and rests like the others;
                         told: its points until the server has answered that it has changed
    "stop"

The first answer is "ready", once all of them run.
"""

from __future__ import annotations

import time
from functools import partial
from multiprocessing.connection import Connection as Pipe
from typing import Any

from msgspec.structs import replace

from benchmarks._load_peers import Course, Line, Plan, PlayedAgent, Stage
from dq_client.base import keys
from dq_client.base import messages as m
from dq_client.base.launch import raise_open_file_limit
from resize_lib.silence import Silence, Stay

SIZES = [1, 2, 4, 8]
TIMES_S = {1: 8.0, 2: 4.2, 4: 2.5, 8: 2.45}  # of an iteration: the sweet spot is 4
SCALE = 25  # of these times, for what is told the server: some ten remap points a second
LONG = 100_000  # remap points, after which rests are as long as they may be
NOTICED = "is judged again"
LATE_S = 10.0  # answers that take longer than this never come


def iteration_s(size: int, of: int) -> float:
    """What an iteration is said to take on a size, for one application of many."""
    return TIMES_S[size] * (1 + of % 7 / 100)


class Reporter(Line):
    """An application that comes to remap points when it is told."""

    def __init__(self, stage: Reporters, order: m.StartRanks) -> None:
        super().__init__(stage, keys.pair_of(order.env["DQ_JOB_KEY"]))
        self.all, self.number = stage, len(stage.reporters)
        self.course = Course(len(order.places))
        self.waits = False  # for the answer at a remap point
        self.silence = Silence()
        self.rung = False
        self.older = 0  # remap points that it says it has passed beside those that it has
        self.slower = 0.0
        self.points_since: int | None = None  # it takes longer, until the server knows

    def report(self) -> None:
        """Come to a remap point."""
        self.waits, self.rung = True, False
        silent, passed = self.silence.end(self.stay)
        silent += self.older
        self.older = 0
        point = self.course.point(self.time_s)
        self.send(replace(point, rests=True, iterations=1 + silent, silent=silent, passed=passed))
        self.all.reports += 1

    def report_at(self, _: float) -> None:
        """Report at a time of the stage, unless a report is under way."""
        if not self.waits:
            self.report()

    @property
    def time_s(self) -> float:
        """What an iteration is said to take."""
        return iteration_s(self.course.size, self.number) * (1 + self.slower) / SCALE

    @property
    def stay(self) -> Stay:
        """What the times of one rest have in common."""
        return self.course.done, ""

    def come(self) -> None:
        """Come to a remap point, and report it unless the job rests."""
        self.all.came += 1
        if self.points_since is not None:
            self.points_since += 1
        rests = self.all.rests and self.silence.lasts and not self.rung
        if not (rests and self.silence.passes(self.time_s, self.stay)):
            self.report()

    def paced(self, order: int, due_s: float) -> None:
        """Come to a remap point once in `pace_s`, until there is another order."""
        if order != self.all.orders:
            return
        if not self.waits:
            self.come()
        # What a busy machine has missed is left out.
        due_s = max(due_s + self.all.pace_s, time.monotonic())
        self.all.at(due_s, partial(self.paced, order))

    def hear(self, message: Any) -> None:
        """The answer to a remap point, or to what was said after it."""
        body = message.body
        if isinstance(body, m.Ring):
            self.rung = True
        if isinstance(body, m.Error):
            self.all.error(body.text)
        if not isinstance(body, m.RemapAnswer):
            return
        if self.points_since is not None and NOTICED in body.reason:
            self.all.noticed_after, self.points_since = self.points_since, None
        self.silence.begin(body, self.stay)
        committed = self.course.carry_out(body)
        if committed is not None:
            self.send(committed)
        self.waits = False
        self.all.points += 1
        if self.all.hurries:
            self.report()


class Reporters(Stage):
    """All applications of one cluster, with its agents."""

    def __init__(self, plan: Plan) -> None:
        self.reporters: list[Reporter] = []
        self.points = self.came = self.reports = 0
        self.rests = False
        self.noticed_after = 0  # remap points: see ("slow", share)
        self.hurries = False
        self.pace_s = 0.0
        self.orders = 0  # how often they were told a pace
        super().__init__(plan)

    def begin(self, order: m.StartRanks) -> None:
        """The application of a malleable job starts."""
        self.reporters.append(Reporter(self, order))

    def burst(self, seconds: float) -> tuple[int, float]:
        """All as fast as they are answered, for so long: remap points, and seconds."""
        self.points, self.hurries = 0, True
        began = time.monotonic()
        for reporter in self.reporters:
            reporter.report()
        while time.monotonic() - began < seconds:
            self.turn()
        told = self.points, time.monotonic() - began
        self.hurries = False
        self.settle()
        return told

    def pace(self, seconds: float) -> None:
        """Each once in so many seconds from now on; 0: not at all, and nothing is under way."""
        self.pace_s, self.orders = seconds, self.orders + 1
        if not seconds:
            self.settle()
            return
        now = time.monotonic()
        for reporter in self.reporters:
            due_s = now + seconds * reporter.number / len(self.reporters)
            self.at(due_s, partial(reporter.paced, self.orders))

    def age(self, seconds: float) -> None:
        """All say, one after the other, that they have passed LONG remap points."""
        now = time.monotonic()
        for reporter in self.reporters:
            reporter.older = LONG
            self.at(now + seconds * reporter.number / len(self.reporters), reporter.report_at)
        while time.monotonic() < now + seconds:
            self.turn()

    def rest(self, seconds: float) -> tuple[int, int]:
        """One second of this pace, in which they rest: remap points, and reports of them."""
        if not self.rests:
            self.rests = True
            self.pace(seconds)
        self.came = self.reports = 0
        until_s = time.monotonic() + 1.0
        while time.monotonic() < until_s:
            self.turn()
        return self.came, self.reports

    def slow(self, share: float) -> int:
        """The first takes longer: its remap points until the server has noticed."""
        first = self.reporters[0]
        first.slower, first.points_since, self.noticed_after = share, 0, 0
        until_s = time.monotonic() + LATE_S
        while not self.noticed_after and time.monotonic() < until_s:
            self.turn()
        return self.noticed_after

    def settle(self) -> None:
        """Wait for the answers that are under way."""
        until_s = time.monotonic() + LATE_S
        while any(reporter.waits for reporter in self.reporters):
            self.turn()
            assert time.monotonic() < until_s, f"no answers any more; errors: {self.errors}"


def play(plan: Plan, jobs: int, pipe: Pipe) -> None:
    """Play agents and so many applications until told to stop."""
    raise_open_file_limit()
    stage = Reporters(plan)
    for number in range(plan.agents):
        PlayedAgent(stage, number)
    while stage.welcomed < plan.agents:
        stage.turn()
    pipe.send("welcome")
    while len(stage.reporters) < jobs:
        stage.turn()
    pipe.send("ready")
    while True:
        stage.turn()
        if not pipe.poll(0):
            continue
        told = pipe.recv()
        if told == "stop":
            return
        what, seconds = told
        if what in ("burst", "age", "rest", "slow"):
            pipe.send(getattr(stage, what)(seconds))
        else:
            stage.pace(seconds)
            pipe.send("paced")
        assert not stage.errors, stage.errors
