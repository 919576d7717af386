"""When a job's ranks come to a remap point, and when rank 0 asks the server there.

A remap point costs a reduction, a question to the server and a broadcast: 1 ms and more. Between
iterations of 1 ms that would be most of the time, so the next remap point comes only after as many
iterations as take about REPORT_S. Every rank counts iterations alike, so no rank has to be told
when it comes.

If iterations become longer meanwhile, so many of them take too long. Between two remap points there
are therefore checks, at iterations that every rank knows: rank 0 starts a non-blocking broadcast
that says whether the time is over, and nobody waits for it before the next check. By then it has
arrived, so a check costs some microseconds; and one iteration, or CHECK_S, after rank 0 has seen
that iterations take longer, all ranks make the remap point at once. So they do when the server has
ordered a resize.

No rank may decide by its own clock: where two ranks differ, one waits in the remap point and the
other for a message of the application.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from mpi4py import MPI

from resize_lib.waiting import idle_wait

REPORT_S = 0.09  # between two remap points: 11 a second
REPORTS_PER_S_MAX = 20
CHECK_S = 3.5e-3
CHECK_SOON_S = 0.5e-3  # while ranks that are to join start, and for EARLY_S after a question
# Its answer takes some 3 ms. One that brings ranks starts them at once, and iterations become long.
EARLY_S = 0.01
# An iteration may be as long as this part of the interval and still share its remap point with
# others.
LONG_ITERATION = 5 / 9  # 0.05 s: 20 remap points a second
# Remap points that a program forces one after the other (each ends a loop) may all be reported.
BURST = 5


def waits_for_ranks() -> bool:
    """Whether every iteration is a remap point, where a job that grows waits for its new ranks.

    DQ_WAIT_FOR_RANKS in the environment, for tests: so a run can be resized at exact iterations,
    however short they are.
    """
    return os.environ.get("DQ_WAIT_FOR_RANKS", "") not in ("", "0")


def chosen_interval(asked_s: float | None) -> float:
    """The seconds between two remap points, 0: each iteration is one.

    asked_s: what the program asks for; None: DQ_REPORT_INTERVAL, or REPORT_S. DQ_WAIT_FOR_RANKS
    comes before both.

    Raises:
        ValueError: it is not a number of seconds from 0 to 10.
    """
    text = os.environ.get("DQ_REPORT_INTERVAL", "")
    asked: float | str = asked_s if asked_s is not None else text or REPORT_S
    interval_s = checked_interval(asked)
    return 0.0 if waits_for_ranks() else interval_s


def checked_interval(interval_s: float | str) -> float:
    """`interval_s` as a number; ValueError if it makes no sense."""
    try:
        seconds = float(interval_s)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 10:
        raise ValueError(
            f"report interval {interval_s!r}: seconds from 0 (at each iteration) to 10"
        )
    return seconds


@dataclass(frozen=True, slots=True)
class Plan:
    """What comes before the next remap point. Made on rank 0, the same on every rank."""

    iterations: int = 1  # until the next remap point; the first after a resize is a point
    gap: int = 1  # iterations between two checks
    check_s: float = CHECK_S  # time between them
    early_iterations: int = 0  # so many iterations after a question a check comes
    early_gap: int = 1  # every so many iterations, instead of every `gap`

    def check_after(self, iterations: int) -> tuple[int, float]:
        """Iterations and time from a check after so many to the next one."""
        if iterations < self.early_iterations:
            return self.early_gap, CHECK_SOON_S
        return self.gap, self.check_s


def plan_for(
    iteration_s: float, interval_s: float, check_s: float = CHECK_S, *, asked: bool = False
) -> Plan:
    """The plan for iterations that take so long (s), with checks so far apart.

    asked: the server's answer is to come
    """
    iteration_s = max(iteration_s, 1e-7)
    iterations = max(1, int(interval_s / iteration_s))
    if iterations * iteration_s < LONG_ITERATION * interval_s:
        iterations += 1
    early_iterations = int(EARLY_S / iteration_s) if asked else 0
    early_gap = max(1, int(CHECK_SOON_S / iteration_s))
    return Plan(
        iterations, max(1, int(check_s / iteration_s)), check_s, early_iterations, early_gap
    )


class Countdown:
    """Of one rank: counts the iterations until the next remap point, and makes the checks."""

    def __init__(self) -> None:
        self.iterations = 0  # since the last remap point
        self._plan = Plan()
        self._until_s = 0.0
        self._next_check = 0
        self._next_look_s = 0.0
        self._flag = np.zeros(1, np.uint8)
        self._check: MPI.Request | None = None

    def begin(self, plan: Plan, until_s: float) -> None:
        """A remap point is over; rank 0 wants the next one at this time (of its clock) at last."""
        self.iterations, self._plan, self._until_s = 0, plan, until_s
        self._next_check, _ = plan.check_after(0)

    def iteration(
        self, comm: MPI.Intracomm, now_s: float, resize_is_here: Callable[[], bool] = bool
    ) -> bool:
        """An iteration is done at `now_s` of this rank's clock. True: this is the next remap point.

        Collective in so far as every rank must call it once an iteration.

        resize_is_here: asked now and then; what rank 0 answers counts
        """
        self.iterations += 1
        if self.iterations >= self._plan.iterations:
            return True
        if comm.size == 1:
            if now_s < self._next_look_s:
                return False
            self._next_look_s = now_s + self._plan.check_after(self.iterations)[1]
            return now_s >= self._until_s or resize_is_here()
        if self.iterations < self._next_check:
            return False
        if self.finish_check():
            return True
        self._next_check = self.iterations + self._plan.check_after(self.iterations)[0]
        if self._next_check < self._plan.iterations:
            self._flag[0] = now_s >= self._until_s or resize_is_here()
            # On a plain handle: links that are emulated have no share in this.
            self._check = MPI.Intracomm(comm).Ibcast([self._flag, MPI.BYTE], 0)
        return False

    def soon(self) -> None:
        """Make the end of the present iteration a remap point; called on every rank in it."""
        self._plan = replace(self._plan, iterations=self.iterations + 1)

    def finish_check(self) -> bool:
        """Complete the check that was started; whether rank 0 has said that the time is over.

        Every rank has started it at the same iteration, so waiting for it cannot last.
        """
        check, self._check = self._check, None
        if check is None:
            return False
        if not check.Test():
            idle_wait(check)
        return bool(self._flag[0])


class Allowance:
    """On rank 0: keeps the reports within REPORTS_PER_S_MAX, but for a few at once."""

    def __init__(self, per_s: float = REPORTS_PER_S_MAX, burst: int = BURST) -> None:
        self._per_s, self._burst = per_s, burst
        self._left, self._at_s = float(burst), 0.0

    def take(self, now_s: float) -> bool:
        """Whether a report may be made now; it is counted then."""
        earned = (now_s - self._at_s) * self._per_s
        self._left, self._at_s = min(self._burst, self._left + earned), now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True
